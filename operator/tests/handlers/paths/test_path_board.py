"""Two workers and one path: who may probe, what the next one is told, and what is forgotten when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from handler_objects import job_body, path_body

from fairlead.api.transferjob import TransferJob
from fairlead.core.model import ClaimFacts, Endpoint, KnownBackground, MoverPod, Observed, PodPhase, Probing, Reports, Role
from fairlead.core.paths.model import Ends, Lease, Measurement, Probe, Sighting, Transfer
from fairlead.handlers.cache import ObjectKey, cluster_key
from fairlead.handlers.paths.board import MOST_PENDING, PathBoard

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ENDS = Ends("dtn-a", "data0", "dtn-b", "data0")
UNKNOWN = replace(ENDS, source_interface=None)
ONE, TWO = ObjectKey("lab", "one"), ObjectKey("lab", "two")
LEASE = Lease("uid-one", 1, NOW + timedelta(seconds=60))
PROBE = Probe(NOW, 0.06, 0.06, 0.0)
TRANSFER = Transfer(NOW, "cubic", 8, 2e8, None)


def _sighting(job: str = "one", ends: Ends = ENDS, **fields: object) -> Sighting:
    known = {"live": True, "flowing": False, "lease": None, "measurement": None, **fields}
    return Sighting(f"uid-{job}", ends, **known)  # type: ignore[arg-type]


def _measured(job: str = "one", probe: Probe | None = PROBE, transfer: Transfer | None = None, attempt: int = 1) -> Measurement:
    return Measurement(f"uid-{job}", attempt, probe=probe, transfer=transfer)


def _next_job(interface: str = "data0") -> Observed:
    """A second job between the same nodes, whose receiver is up."""
    receiver = MoverPod("r", "r", "1", Role.RECEIVER, 1, PodPhase.RUNNING, True, False, NOW, "dtn-b", "198.18.0.2", 24000, None)
    job = TransferJob.from_object(job_body("two", uid="uid-two"))
    return Observed(job=job, pods=(receiver,), reports=Reports(receiver_endpoint=Endpoint(interface, "198.19.0.2", 24000)))


def _probing(board: PathBoard, observed: Observed | None = None, now: datetime = NOW) -> Probing:
    standing = board.standing(observed or _next_job(), now)
    assert standing is not None
    return standing.probing


def _woken() -> tuple[PathBoard, list[Ends]]:
    woken: list[Ends] = []
    return PathBoard(woken.append), woken


def test_the_second_job_finds_the_path_leased_until_the_first_has_decided_and_is_then_told() -> None:
    board, _ = _woken()
    assert _probing(board) is Probing.OWN
    board.note(ONE, _sighting(ends=UNKNOWN, lease=LEASE))
    assert _probing(board) is Probing.LEASED
    board.note(ONE, _sighting(flowing=True, measurement=_measured()))
    assert _probing(board) is Probing.KNOWN


def test_a_lease_of_a_job_that_is_gone_is_gone_too() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(lease=LEASE))
    board.drop(ONE)
    assert _probing(board) is Probing.OWN


def test_a_lease_that_nobody_ended_expires() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(lease=LEASE))
    assert _probing(board, now=LEASE.expires_at) is Probing.OWN


def test_a_lease_holds_one_path_and_not_another_between_the_same_nodes() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(lease=LEASE))
    assert _probing(board, _next_job("data1")) is Probing.OWN


def test_a_job_is_not_held_up_by_its_own_lease() -> None:
    board, _ = _woken()
    board.note(TWO, _sighting("two", lease=LEASE))
    assert _probing(board) is Probing.OWN


def test_there_is_nothing_to_tell_before_the_receiver_is_there_after_the_sender_is_and_within_one_node() -> None:
    board, _ = _woken()
    observed = _next_job()
    assert board.standing(replace(observed, pods=()), NOW) is None
    sender = replace(observed.pods[0], name="s", role=Role.SENDER, node="dtn-a")
    assert board.standing(replace(observed, pods=(*observed.pods, sender)), NOW) is None
    assert board.standing(replace(observed, pods=(replace(observed.pods[0], node="dtn-a"),)), NOW) is None


def test_a_source_that_only_its_claim_places_is_found() -> None:
    board, _ = _woken()
    body = job_body("two", uid="uid-two")
    del body["spec"]["source"]["node"]
    observed = replace(_next_job(), job=TransferJob.from_object(body))
    assert board.standing(observed, NOW) is None
    assert _probing(board, replace(observed, claims={"raw": ClaimFacts(True, True, "dtn-a")})) is Probing.OWN


def test_the_stored_path_and_what_is_not_written_yet_are_one_knowledge() -> None:
    board, _ = _woken()
    board.put_path(path_body(status={"lastMeasuredTime": "2026-01-01T10:00:00Z", "rttMinimum": "60.000ms"}, capacity="1G"))
    standing = board.standing(_next_job(), NOW)
    assert standing is not None
    assert (standing.probing, standing.known.rtt_minimum_seconds, standing.known.capacity_bps) == (Probing.OWN, 0.06, 1e9)
    seen = KnownBackground("B1-C0", 1.0, {"B1-C0": 1.0}, 1.0, 1.0, False, "m", NOW)
    board.note(ONE, _sighting(measurement=replace(_measured(transfer=TRANSFER), background=seen)))
    standing = board.standing(_next_job(), NOW)
    assert standing is not None
    assert (standing.probing, standing.known.capacity_bps, standing.known.background) == (Probing.KNOWN, 2e8, seen)


def test_a_pass_that_saw_less_does_not_take_back_what_an_earlier_one_saw() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(measurement=_measured()))
    board.note(ONE, _sighting(measurement=None))
    board.note(ONE, _sighting(measurement=_measured(probe=None, transfer=TRANSFER)))
    assert board.pending(ENDS, None) == (_measured(transfer=TRANSFER),)


def test_what_was_measured_stays_until_it_is_written_and_no_longer() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(measurement=_measured()))
    board.drop(ONE)
    written = board.pending(ENDS, None)
    assert written == (_measured(),)
    board.note(TWO, _sighting("two", measurement=_measured("two")))
    board.settle(written)
    assert board.pending(ENDS, None) == (_measured("two"),)
    board.settle(board.pending(ENDS, None))
    assert board.unwritten() == ()


def test_more_of_the_same_job_is_not_settled_by_the_write_of_less() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(measurement=_measured()))
    written = board.pending(ENDS, None)
    board.note(ONE, _sighting(measurement=_measured(transfer=TRANSFER)))
    board.settle(written)
    assert board.pending(ENDS, None) == (_measured(transfer=TRANSFER),)


def test_a_probe_beside_a_transfer_of_ours_is_marked_so_and_stays_so_when_that_has_ended() -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(flowing=True, measurement=_measured()))
    loaded = replace(PROBE, at=NOW + timedelta(seconds=30), rtt_minimum_seconds=0.1)
    board.note(TWO, _sighting("two", flowing=True, measurement=_measured("two", probe=loaded)))
    board.drop(ONE)
    told_anew = replace(loaded, at=NOW + timedelta(seconds=60))
    board.note(TWO, _sighting("two", measurement=_measured("two", probe=told_anew, transfer=TRANSFER)))
    marked = replace(told_anew, beside_own=True)
    assert board.pending(ENDS, None) == (_measured(), _measured("two", probe=marked, transfer=TRANSFER))
    standing = board.standing(replace(_next_job(), job=TransferJob.from_object(job_body("three", uid="uid-three"))), NOW)
    assert standing is not None and standing.known.rtt_minimum_seconds == 0.06


@pytest.mark.parametrize("flowing", [True, False], ids=["its data flow", "it has not decided yet"])
def test_the_next_sender_is_told_of_one_of_ours_that_runs_beside_it(flowing: bool) -> None:
    board, _ = _woken()
    board.note(ONE, _sighting(flowing=flowing, measurement=_measured()))
    beside = board.standing(_next_job(), NOW)
    board.drop(ONE)
    after = board.standing(_next_job(), NOW)
    assert beside is not None and after is not None
    assert (beside.known.beside_own, after.known.beside_own, beside.probing, after.probing) == (True, False, Probing.KNOWN, Probing.KNOWN)


def test_what_waits_to_be_written_is_bounded_and_the_oldest_goes_first() -> None:
    board, _ = _woken()
    for number in range(MOST_PENDING + 10):
        probe = replace(PROBE, at=NOW + timedelta(seconds=number))
        board.note(ObjectKey("lab", str(number)), _sighting(str(number), measurement=_measured(str(number), probe=probe)))
    waiting = board.pending(ENDS, None)
    assert (len(waiting), waiting[0].job) == (MOST_PENDING, "uid-10")


def test_what_belongs_to_a_closer_path_is_not_told_by_a_wider_one() -> None:
    board, _ = _woken()
    wide = board.put_path(path_body("wide", interfaces=False))
    board.note(ONE, _sighting(measurement=_measured()))
    whole = replace(UNKNOWN, destination_interface=None)
    assert board.pending(whole, wide) == (_measured(),)
    exact = board.put_path(path_body("exact"))
    assert (board.pending(whole, wide), board.pending(ENDS, exact)) == ((), (_measured(),))


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
def test_the_keeper_is_asked_when_something_changed(steps: Iterable[Sighting | None], expected: list[Ends]) -> None:
    board, woken = _woken()
    for step in steps:
        board.note(ONE, step)
    assert woken == expected


def test_paths_that_a_list_does_not_show_are_forgotten_unless_they_are_newer_than_it() -> None:
    board, _ = _woken()
    gone, kept = path_body("gone"), path_body("kept")
    board.put_path(gone)
    board.put_path(kept)
    before = board.snapshot()
    board.put_path(path_body("new"))
    board.keep_paths(before, {cluster_key(kept): kept["metadata"]["uid"]})
    assert {path.metadata.name for path in board.paths()} == {"kept", "new"}
