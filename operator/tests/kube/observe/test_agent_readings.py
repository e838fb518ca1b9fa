"""Which pods count as node agents, and which answers are used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.kube.observe.agents import AgentPlace, AgentPod, InterfaceBytes, agent_pod, read_counters
from fairlead.kube.observe.forms import ReportError

PLACE = AgentPlace("fairlead-agents", "fairlead-node-agent", 9811)
POD = AgentPod("agent-uid", "dtn-a", "192.0.2.1", is_ready=True)
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "fairlead-node-agent", "uid": "1", "controller": True}


def _body(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "fairlead-agents", "uid": "agent-uid", "ownerReferences": [DAEMON_SET]} | (metadata or {}),
        "spec": {"serviceAccountName": "fairlead-node-agent", "hostNetwork": True, "nodeName": "dtn-a"} | (spec or {}),
        "status": {"phase": "Running", "hostIP": "192.0.2.1", "conditions": [{"type": "Ready", "status": "True"}], **status},
    }


def _answer(**changes: Any) -> bytes:
    known = {
        "version": 1,
        "node": "dtn-a",
        "agent": {"instance": "agent-uid", "version": "0.1.0"},
        "interfaces": [{"name": "data0", "mtu": 9000}],
        "counters": {"data0": {"transmit_bytes": 10, "receive_bytes": 20}},
        "read_at": {"monotonic_seconds": 12.5, "wall_seconds": 1767225600.0},
    }
    return json.dumps({**known, **changes}).encode()


def test_the_agents_pod_is_known_by_namespace_account_and_owner() -> None:
    assert agent_pod(_body(), PLACE) == POD
    unready = agent_pod(_body(conditions=[{"type": "Ready", "status": "False"}]), PLACE)
    assert unready is not None and not unready.is_ready


@pytest.mark.parametrize(
    "body",
    [
        _body({"namespace": "physics"}),
        _body({"ownerReferences": []}),
        _body({"ownerReferences": [{**DAEMON_SET, "controller": False}]}),
        _body({"ownerReferences": [{**DAEMON_SET, "kind": "ReplicaSet"}]}),
        _body({"ownerReferences": [{**DAEMON_SET, "apiVersion": "example.com/v1"}]}),
        _body({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        _body(spec={"serviceAccountName": "default"}),
        _body(spec={"hostNetwork": False}),
        _body(spec={"nodeName": None}),
        _body(phase="Pending"),
        _body(hostIP=None),
    ],
)
def test_any_other_pod_is_none(body: dict[str, Any]) -> None:
    assert agent_pod(body, PLACE) is None


def test_counters_are_read_and_the_rest_of_the_report_is_left() -> None:
    reading = read_counters(_answer(), POD)
    assert reading.interfaces == {"data0": InterfaceBytes(10, 20)}
    assert reading.monotonic_seconds == 12.5


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"node": "dtn-b"}, "node"),
        ({"agent": {"instance": "another"}}, "agent.instance"),
        ({"agent": None}, "agent"),
        ({"version": 2}, "version"),
        ({"counters": {"data0": {"transmit_bytes": -1, "receive_bytes": 0}}}, "transmit_bytes"),
        ({"counters": {"data0": {"transmit_bytes": 2**62, "receive_bytes": 0}}}, "transmit_bytes"),
        ({"counters": {"data0": {"transmit_bytes": 1.0, "receive_bytes": 0}}}, "transmit_bytes"),
        ({"counters": {"data0": {"transmit_bytes": True, "receive_bytes": 0}}}, "transmit_bytes"),
        ({"counters": {"data 0": {"transmit_bytes": 1, "receive_bytes": 0}}}, "counters"),
        ({"counters": {f"e{number}": {"transmit_bytes": 1, "receive_bytes": 0} for number in range(65)}}, "counters"),
        ({"read_at": {"monotonic_seconds": -1.0}}, "monotonic_seconds"),
        ({"read_at": {"monotonic_seconds": float("nan")}}, "finite"),
        ({"read_at": {}}, "monotonic_seconds"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_refused_with_the_field(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ReportError, match=problem):
        read_counters(_answer(**changes), POD)


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"version":1,"version":1}', b"[" * 100_000, b" " * (512 * 1024 + 1)])
def test_what_is_no_answer_at_all_is_refused(body: bytes) -> None:
    with pytest.raises(ReportError):
        read_counters(body, POD)
