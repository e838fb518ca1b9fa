"""Two workers and one path: who may probe, what the next one is told, and what is forgotten when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from handler_objects import job_body, path_body

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import ClaimFacts, MoverPod, Observed, PodPhase, Role
from fairlead.core.paths.merge import MOST_PENDING
from fairlead.core.paths.model import (
    EngineResult,
    KnownBackground,
    Lease,
    Measurement,
    PathEnds,
    PathEvidence,
    PathProbe,
    PathTransfer,
    Probing,
)
from fairlead.core.reports import MoverEndpoint, Reports
from fairlead.handlers.cache import ObjectKey, cluster_key
from fairlead.handlers.paths.store import PathStore

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENDS = PathEnds("dtn-a", "data0", "dtn-b", "data0")
UNKNOWN = replace(ENDS, source_interface=None)
ONE, TWO = ObjectKey("lab", "one"), ObjectKey("lab", "two")
LEASE = Lease("uid-one", 1, NOW + timedelta(seconds=60))
PROBE = PathProbe(NOW, 0.06, 0.06, 0.0)
TRANSFER = PathTransfer(NOW, "cubic", 8, 2e8, None)


def _sighting(job: str = "one", ends: PathEnds = ENDS, **fields: object) -> PathEvidence:
    known = {"live": True, "flowing": False, "lease": None, "measurement": None, **fields}
    return PathEvidence(f"uid-{job}", ends, **known)  # type: ignore[arg-type]


def _measured(job: str = "one", probe: PathProbe | None = PROBE, transfer: PathTransfer | None = None, attempt: int = 1) -> Measurement:
    return Measurement(f"uid-{job}", attempt, probe=probe, transfer=transfer, namespace="lab")


def _next_job(interface: str = "data0") -> Observed:
    """A second job between the same nodes, whose receiver is up."""
    receiver = MoverPod("r", "r", "1", Role.RECEIVER, 1, PodPhase.RUNNING, True, False, NOW, "dtn-b", "198.18.0.2", 24000, None)
    job = TransferJob.from_object(job_body("two", uid="uid-two"))
    return Observed(job=job, pods=(receiver,), reports=Reports(receiver_endpoint=MoverEndpoint(interface, "198.19.0.2", 24000)))


def _probing(store: PathStore, observed: Observed | None = None, now: datetime = NOW) -> Probing:
    assignment = store.assignment(observed or _next_job(), now)
    assert assignment is not None
    return assignment.probing


def _woken() -> tuple[PathStore, list[PathEnds]]:
    woken: list[PathEnds] = []
    return PathStore(woken.append), woken


def test_the_second_job_finds_the_path_leased_until_the_first_has_decided_and_is_then_told() -> None:
    store, _ = _woken()
    assert _probing(store) is Probing.OWN
    store.note(ONE, _sighting(ends=UNKNOWN, lease=LEASE))
    assert _probing(store) is Probing.LEASED
    store.note(ONE, _sighting(flowing=True, measurement=_measured()))
    assert _probing(store) is Probing.KNOWN


def test_what_jobs_of_another_namespace_have_measured_steers_no_job_of_this_one() -> None:
    store, _ = _woken()
    forged = KnownBackground("B0-C0", 1.0, {"B0-C0": 1.0}, 0.0, 1.0, False, "m", NOW)
    transfer = replace(TRANSFER, rate_bps=1e12, stream_coefficient=1e-3)
    measured = replace(_measured(transfer=transfer), background=forged, namespace="stranger")
    store.note(ObjectKey("stranger", "one"), _sighting(flowing=True, measurement=measured))
    assignment = store.assignment(_next_job(), NOW)
    assert assignment is not None
    assert assignment.probing is Probing.OWN
    known = assignment.known
    assert (known.rtt_minimum_seconds, known.capacity_bps, known.stream_coefficient, known.background) == (None, None, None, None)
    assert known.beside_own


def test_a_lease_of_another_namespaces_job_holds_nobody_up() -> None:
    store, _ = _woken()
    store.note(ObjectKey("stranger", "one"), _sighting(lease=LEASE))
    assert _probing(store) is Probing.OWN


def test_a_lease_of_a_job_that_is_gone_is_gone_too() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(lease=LEASE))
    store.drop(ONE)
    assert _probing(store) is Probing.OWN


def test_a_lease_that_nobody_ended_expires() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(lease=LEASE))
    assert _probing(store, now=LEASE.expires_at) is Probing.OWN


def test_a_lease_holds_one_path_and_not_another_between_the_same_nodes() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(lease=LEASE))
    assert _probing(store, _next_job("data1")) is Probing.OWN


def test_a_job_is_not_held_up_by_its_own_lease() -> None:
    store, _ = _woken()
    store.note(TWO, _sighting("two", lease=LEASE))
    assert _probing(store) is Probing.OWN


def test_there_is_nothing_to_tell_before_the_receiver_is_there_after_the_sender_is_and_within_one_node() -> None:
    store, _ = _woken()
    observed = _next_job()
    assert store.assignment(replace(observed, pods=()), NOW) is None
    sender = replace(observed.pods[0], name="s", role=Role.SENDER, node="dtn-a")
    assert store.assignment(replace(observed, pods=(*observed.pods, sender)), NOW) is None
    assert store.assignment(replace(observed, pods=(replace(observed.pods[0], node="dtn-a"),)), NOW) is None


def test_a_source_that_only_its_claim_places_is_found() -> None:
    store, _ = _woken()
    body = job_body("two", uid="uid-two")
    del body["spec"]["source"]["node"]
    observed = replace(_next_job(), job=TransferJob.from_object(body))
    assert store.assignment(observed, NOW) is None
    assert _probing(store, replace(observed, claims={"raw": ClaimFacts(True, True, "dtn-a")})) is Probing.OWN


def test_the_stored_path_and_what_is_not_written_yet_are_one_knowledge() -> None:
    store, _ = _woken()
    stored = {"namespace": "lab", "lastMeasuredTime": "2026-01-01T10:00:00Z", "rttMinimum": "60.000ms"}
    store.put_path(path_body(status={"namespaces": [stored]}, capacity="1G"))
    assignment = store.assignment(_next_job(), NOW)
    assert assignment is not None
    assert (assignment.probing, assignment.known.rtt_minimum_seconds, assignment.known.capacity_bps) == (Probing.OWN, 0.06, 1e9)
    seen = KnownBackground("B1-C0", 1.0, {"B1-C0": 1.0}, 1.0, 1.0, False, "m", NOW)
    store.note(ONE, _sighting(measurement=replace(_measured(transfer=TRANSFER), background=seen)))
    assignment = store.assignment(_next_job(), NOW)
    assert assignment is not None
    assert (assignment.probing, assignment.known.capacity_bps, assignment.known.background) == (Probing.KNOWN, 2e8, seen)


def test_a_pass_that_saw_less_does_not_take_back_what_an_earlier_one_saw() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(measurement=_measured()))
    store.note(ONE, _sighting(measurement=None))
    store.note(ONE, _sighting(measurement=_measured(probe=None, transfer=TRANSFER)))
    assert store.pending(ENDS, None) == (_measured(transfer=TRANSFER),)


def test_what_was_measured_stays_until_it_is_written_and_no_longer() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(measurement=_measured()))
    store.drop(ONE)
    written = store.pending(ENDS, None)
    assert written == (_measured(),)
    store.note(TWO, _sighting("two", measurement=_measured("two")))
    store.settle(written)
    assert store.pending(ENDS, None) == (_measured("two"),)
    store.settle(store.pending(ENDS, None))
    assert store.unwritten() == ()


def test_more_of_the_same_job_is_not_settled_by_the_write_of_less() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(measurement=_measured()))
    written = store.pending(ENDS, None)
    store.note(ONE, _sighting(measurement=_measured(transfer=TRANSFER)))
    store.settle(written)
    assert store.pending(ENDS, None) == (_measured(transfer=TRANSFER),)


def test_a_probe_beside_a_transfer_of_ours_is_marked_so_and_stays_so_when_that_has_ended() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(flowing=True, measurement=_measured()))
    loaded = replace(PROBE, at=NOW + timedelta(seconds=30), rtt_minimum_seconds=0.1)
    store.note(TWO, _sighting("two", flowing=True, measurement=_measured("two", probe=loaded)))
    store.drop(ONE)
    told_anew = replace(loaded, at=NOW + timedelta(seconds=60))
    store.note(TWO, _sighting("two", measurement=_measured("two", probe=told_anew, transfer=TRANSFER)))
    marked = replace(told_anew, beside_own=True)
    assert store.pending(ENDS, None) == (_measured(), _measured("two", probe=marked, transfer=TRANSFER))
    assignment = store.assignment(replace(_next_job(), job=TransferJob.from_object(job_body("three", uid="uid-three"))), NOW)
    assert assignment is not None and assignment.known.rtt_minimum_seconds == 0.06


def test_the_next_sender_is_told_of_strangers_traffic_without_our_other_jobs() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(flowing=True, congestion_control="bbr"))
    background = KnownBackground("B1-C0", 1.0, {"B0-C0": 0.0, "B1-C0": 1.0}, 1.0, 1.0, False, "m", NOW)
    three = ObjectKey("lab", "three")
    store.note(three, _sighting("three", flowing=True, measurement=replace(_measured("three"), background=background)))
    told = store.assignment(_next_job(), NOW)
    assert told is not None and told.known.background is not None
    assert (told.known.background.class_name, told.known.background.any_bbr, told.known.beside_own) == ("B0-C0", 0.0, True)


@pytest.mark.parametrize("flowing", [True, False], ids=["its data flow", "it has not decided yet"])
def test_the_next_sender_is_told_of_one_of_ours_that_runs_beside_it(flowing: bool) -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(flowing=flowing, measurement=_measured()))
    beside = store.assignment(_next_job(), NOW)
    store.drop(ONE)
    after = store.assignment(_next_job(), NOW)
    assert beside is not None and after is not None
    assert (beside.known.beside_own, after.known.beside_own, beside.probing, after.probing) == (True, False, Probing.KNOWN, Probing.KNOWN)


def test_what_waits_to_be_written_is_bounded_and_the_oldest_goes_first() -> None:
    store, _ = _woken()
    for number in range(MOST_PENDING + 10):
        probe = replace(PROBE, at=NOW + timedelta(seconds=number))
        store.note(ObjectKey("lab", str(number)), _sighting(str(number), measurement=_measured(str(number), probe=probe)))
    waiting = store.pending(ENDS, None)
    assert (len(waiting), waiting[0].job) == (MOST_PENDING, "uid-10")


def test_what_belongs_to_a_closer_path_is_not_told_by_a_wider_one() -> None:
    store, _ = _woken()
    wide = store.put_path(path_body("wide", interfaces=False))
    store.note(ONE, _sighting(measurement=_measured()))
    whole = replace(UNKNOWN, destination_interface=None)
    assert store.pending(whole, wide) == (_measured(),)
    exact = store.put_path(path_body("exact"))
    assert (store.pending(whole, wide), store.pending(ENDS, exact)) == ((), (_measured(),))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([_sighting()], [ENDS]),
        ([_sighting(), _sighting()], [ENDS]),
        ([_sighting(ends=UNKNOWN), _sighting()], [UNKNOWN, UNKNOWN, ENDS]),
        ([_sighting(), None], [ENDS, ENDS]),
        ([None], []),
    ],
    ids=["new", "unchanged", "its interface is known", "gone", "never there"],
)
def test_the_path_service_is_asked_when_something_changed(steps: Iterable[PathEvidence | None], expected: list[PathEnds]) -> None:
    store, woken = _woken()
    for step in steps:
        store.note(ONE, step)
    assert woken == expected


def test_paths_that_a_list_does_not_show_are_forgotten_unless_they_are_newer_than_it() -> None:
    store, _ = _woken()
    gone, kept = path_body("gone"), path_body("kept")
    store.put_path(gone)
    store.put_path(kept)
    before = store.snapshot()
    store.put_path(path_body("new"))
    store.keep_paths(before, {cluster_key(kept): kept["metadata"]["uid"]})
    assert {path.metadata.name for path in store.paths()} == {"kept", "new"}
    found = store.path_for(ENDS)
    assert found is not None
    assert found.metadata.name == "kept"
    store.keep_paths(store.snapshot(), {})
    assert store.path_for(ENDS) is None


def test_a_path_made_anew_under_its_name_is_between_its_new_nodes_alone_whatever_a_late_list_shows() -> None:
    store, _ = _woken()
    old = path_body("one")
    new = path_body("one", version="9", source={"node": "dtn-c"}, destination={"node": "dtn-d"})
    new["metadata"]["uid"] = "uid-new"
    for body in (old, new, old):
        store.put_path(body)
    assert store.path_for(ENDS) is None
    assert store.path_for(PathEnds("dtn-c", None, "dtn-d", None)) == store.put_path(new)


QUIC = EngineResult(NOW, "QUIC", 8e8)


def _about_to_start(**spec: object) -> Observed:
    """A job between the same nodes of which nothing runs yet."""
    body = job_body("two", uid="uid-two")
    return Observed(job=TransferJob.from_object({**body, "spec": {**body["spec"], **spec}}))


def _engine_of(job: str = "one", namespace: str = "lab") -> Measurement:
    return Measurement(f"uid-{job}", 1, namespace=namespace, engine=QUIC)


def test_what_was_measured_of_the_protocols_is_known_before_the_receiver_tells_its_interface() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(measurement=_engine_of()))
    known = store.engines(_about_to_start(), NOW)
    assert known is not None
    assert known.results == (QUIC,)
    assert store.engines(_next_job(), NOW) is None, "its attempt is under way"


def test_what_another_namespace_measured_of_the_protocols_steers_no_job_of_this_one() -> None:
    store, _ = _woken()
    store.note(ObjectKey("stranger", "one"), _sighting(measurement=_engine_of(namespace="stranger")))
    known = store.engines(_about_to_start(), NOW)
    assert known is not None
    assert known.results == ()


def test_where_several_paths_fit_an_interface_that_is_not_known_nothing_is() -> None:
    store, _ = _woken()
    store.put_path(path_body("one"))
    assert store.engines(_about_to_start(), NOW) is not None
    store.put_path(path_body("two", destination={"node": "dtn-b", "interface": "data1"}))
    assert store.engines(_about_to_start(), NOW) is None


def test_a_restarted_operator_knows_the_protocols_by_what_was_written() -> None:
    point = {"job": "uid-one", "attempt": 1, "protocol": "QUIC", "goodput": "800M", "time": NOW.isoformat()}
    store, _ = _woken()
    store.put_path(path_body("one", status={"namespaces": [{"namespace": "lab", "engines": [point]}]}))
    known = store.engines(_about_to_start(), NOW)
    assert known is not None
    assert known.results == (QUIC,)


def test_a_job_that_names_its_protocol_is_told_nothing_of_others() -> None:
    store, _ = _woken()
    store.note(ONE, _sighting(measurement=_engine_of()))
    assert store.engines(_about_to_start(transport={"protocol": "TCP"}), NOW) is None
