"""Which blocks of node ports are held, by pods as the watches show them."""

from __future__ import annotations

from typing import Any

import pytest
from handler_objects import pod_body

from fairlead.core.observed import Role
from fairlead.core.plan import CreatePod
from fairlead.core.ports import NOT_PLACED
from fairlead.handlers.port_ledger import JobUid, PortLedger
from fairlead.kube.observe.pods import read_owned_pod

JOB, OTHER = JobUid("lab", "job-uid"), JobUid("field", "other")
CREATE = CreatePod(Role.RECEIVER, 1, "dtn-b", 24004)


def _hold(ledger: PortLedger, holder: str = "pod", job: JobUid = JOB, *, spec: dict[str, Any] | None = None, **fields: Any) -> None:
    body = pod_body(**fields)
    body["spec"] |= spec or {}
    owned = read_owned_pod(body)
    assert owned is not None
    ledger.hold(holder, job, owned.pod)


def _wants(node: str) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}


def _placed(ledger: PortLedger, job: JobUid, node: str = "dtn-b") -> set[int]:
    return set(ledger.in_use(job).placed.get(node, frozenset()))


def test_a_job_does_not_see_its_own_ports_as_taken() -> None:
    ledger = PortLedger()
    _hold(ledger)
    assert _placed(ledger, JOB) == set()
    assert _placed(ledger, OTHER) == {24000}


@pytest.mark.parametrize(("spec", "where"), [({}, NOT_PLACED), (_wants("dtn-b"), "dtn-b")])
def test_a_pod_that_is_not_placed_takes_no_block_and_asks_for_one_where_it_may_be_placed(spec: dict[str, Any], where: str) -> None:
    ledger = PortLedger()
    _hold(ledger, node=None, phase="Pending", spec=spec)
    in_use = ledger.in_use(OTHER)
    assert [dict(in_use.placed), dict(in_use.awaited)] == [{}, {where: {24000: 1}}]
    _hold(ledger, node="dtn-b", version="11", spec=spec)
    assert _placed(ledger, OTHER) == {24000}
    assert not any(ledger.in_use(OTHER).awaited.values())


@pytest.mark.parametrize(
    ("what", "fields"),
    [
        ("has ended", {"phase": "Succeeded"}),
        ("has failed", {"phase": "Failed"}),
        ("has a network of its own", {"spec": {"hostNetwork": False}}),
        ("has no ports", {"spec": {"containers": [{"name": "mover"}]}}),
    ],
)
def test_a_pod_holds_no_block_that(what: str, fields: dict[str, Any]) -> None:
    ledger = PortLedger()
    _hold(ledger)
    _hold(ledger, version="11", **fields)
    assert _placed(ledger, OTHER) == set(), what
    assert ledger.in_use(JOB).of_namespace == {}


def test_a_namespace_is_charged_with_what_its_jobs_hold_and_ask_for() -> None:
    ledger = PortLedger()
    _hold(ledger, "one")
    _hold(ledger, "two", JobUid("lab", "another-job"), base=24008, node=None, phase="Pending")
    _hold(ledger, "three", OTHER, base=24012)
    assert ledger.in_use(JOB).of_namespace == {"dtn-b": 1, NOT_PLACED: 1}
    assert ledger.in_use(OTHER).of_namespace == {"dtn-b": 1}
    ledger.release("two")
    assert ledger.in_use(JOB).of_namespace == {"dtn-b": 1}


def test_promised_ports_are_taken_for_others_until_the_promise_ends() -> None:
    ledger = PortLedger()
    with ledger.reserve(JOB, [CREATE]):
        assert _placed(ledger, OTHER) == {24004}
        assert _placed(ledger, JOB) == set()
        _hold(ledger, base=24004)
        assert _placed(ledger, JOB) == set()
    assert _placed(ledger, OTHER) == {24004}


def test_a_broken_promise_frees_the_port() -> None:
    ledger = PortLedger()
    with pytest.raises(TimeoutError), ledger.reserve(JOB, [CREATE]):
        raise TimeoutError
    assert _placed(ledger, OTHER) == set()


def test_a_pod_without_a_block_of_its_node_reserves_none() -> None:
    ledger = PortLedger()
    with ledger.reserve(JOB, [CreatePod(Role.CLEANER, 1, "dtn-b", 0, on_host_network=False)]):
        assert ledger.in_use(OTHER).placed.get("dtn-b") is None


def test_looking_at_an_unknown_node_leaves_no_trace() -> None:
    in_use = PortLedger().in_use(OTHER)
    assert in_use.placed.get("nowhere", frozenset()) == frozenset()
    assert list(in_use.placed) == list(in_use.awaited) == []
