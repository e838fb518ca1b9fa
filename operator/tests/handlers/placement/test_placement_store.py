"""What workers are told of placement, while jobs start, end and wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.status import PlacedEnd, PlacementStatus, TransferJobStatus
from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.observed import Observed
from fairlead.core.placement.model import Answer, EndWish, Placement, Request, Waits
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.known_job import KnownJob
from fairlead.handlers.placement.loop import PlacementLoop
from fairlead.handlers.placement.store import LEAST_PAUSE_SECONDS, PlacementStore

BEGUN = "2026-01-01T00:00:00Z"


class Bench:
    """A store beside jobs and nodes that the test changes."""

    def __init__(self, *, slots: int = 2) -> None:
        self.seconds = 1000.0
        self.jobs: dict[str, dict[str, Any]] = {}
        self.nodes: Mapping[str, TransferNode] = {name: make_node(name, slots) for name in ("a", "b")}
        self.woken: list[ObjectKey] = []
        self.store = self.new_store()

    def new_store(self) -> PlacementStore:
        return PlacementStore(
            jobs=lambda: map(KnownJob.of, self.jobs.values()),
            nodes=lambda: self.nodes,
            wall=lambda: self.seconds,
            monotonic=lambda: self.seconds,
        )

    def ask(self, name: str, *, attempt: int = 1, **more: Any) -> Answer | None:
        request = Request(name, "lab", EndWish(node="a"), EndWish(node="b"), attempt, asked_at=self.seconds, **more)
        return self.store.answer(ObjectKey("lab", name), self.observed(name), request)

    def observed(self, name: str) -> Observed:
        return Observed(TransferJob.from_object(self.body(name)))

    def body(self, name: str) -> dict[str, Any]:
        ends = {end: {"volume": {"persistentVolumeClaim": {"claimName": end}}} for end in ("source", "destination")}
        metadata = {"name": name, "namespace": "lab", "uid": name, "creationTimestamp": BEGUN}
        return self.jobs.setdefault(name, {"metadata": metadata, "spec": ends, "status": {}})

    def start(self, name: str, answer: Answer | None) -> None:
        """What a worker does with an answer."""
        assert isinstance(answer, Placement), answer
        status = begun(answer)
        with self.store.starting(name, answer, status):
            self.body(name)["status"] = status.to_object()
        assert self.store.answer(ObjectKey("lab", name), self.observed(name), None) is None

    def end(self, name: str) -> None:
        del self.body(name)["status"]["attemptStartTime"]

    def wait(self) -> None:
        self.seconds += LEAST_PAUSE_SECONDS


def begun(answer: Placement) -> TransferJobStatus:
    ends = (PlacedEnd(node=end.node, interfaces=end.interfaces) for end in (answer.source, answer.destination))
    source, destination = ends
    placement = PlacementStatus(source=source, destination=destination)
    return TransferJobStatus.model_validate({"attempts": answer.attempt, "attemptStartTime": BEGUN, "placement": placement.to_object()})


def make_node(name: str, slots: int) -> TransferNode:
    interfaces = tuple(NodeInterface(each, 10**10, carrier=True, may_carry_data=True) for each in ("data0", "data1"))
    return TransferNode(name, ready=True, slots=slots, interfaces=interfaces)


def test_slots_are_given_once_and_again_when_they_are_free() -> None:
    bench = Bench(slots=1)
    bench.start("first", bench.ask("first"))
    assert isinstance(bench.ask("second"), Waits)
    bench.wait()
    assert isinstance(bench.ask("second"), Waits)
    bench.end("first")
    bench.wait()
    bench.start("second", bench.ask("second"))


def test_two_jobs_that_ask_at_once_are_told_different_interfaces() -> None:
    bench = Bench()
    first, second = bench.ask("first"), bench.ask("second")
    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert {first.source.interfaces, second.source.interfaces} == {("data0",), ("data1",)}
    assert isinstance(bench.ask("third"), Waits)


def test_an_answer_holds_until_the_next_pass() -> None:
    bench = Bench()
    assert bench.ask("first") is bench.ask("first")


def test_after_a_restart_what_runs_counts_by_the_objects() -> None:
    bench = Bench(slots=1)
    bench.start("first", bench.ask("first"))
    bench.store = bench.new_store()
    assert isinstance(bench.ask("second"), Waits)


def test_a_job_that_an_earlier_version_began_counts_by_where_its_movers_were_seen() -> None:
    bench = Bench(slots=1)
    ends = {"source": {"node": "a", "interface": "data0"}, "destination": {"node": "b", "interface": "data0"}}
    bench.body("old")["status"] = {"attempts": 1, "attemptStartTime": BEGUN, "endpoints": ends}
    assert isinstance(bench.ask("new"), Waits)


def test_a_write_that_failed_leaves_the_attempt_where_it_was_to_begin() -> None:
    bench = Bench()
    answer = bench.ask("first")
    assert isinstance(answer, Placement)
    with pytest.raises(ConnectionError), bench.store.starting("first", answer, begun(answer)):
        raise ConnectionError
    bench.wait()
    other = bench.ask("other")
    assert isinstance(other, Placement)
    assert other.source.interfaces != answer.source.interfaces
    assert bench.ask("first") is answer


def test_a_job_that_was_suspended_before_it_began_gives_its_place_back() -> None:
    bench = Bench(slots=1)
    answer = bench.ask("first")
    assert isinstance(answer, Placement)
    with pytest.raises(ConnectionError), bench.store.starting("first", answer, begun(answer)):
        raise ConnectionError
    bench.body("first")["spec"]["suspend"] = True
    assert bench.store.answer(ObjectKey("lab", "first"), bench.observed("first"), None) is None
    bench.wait()
    assert isinstance(bench.ask("second"), Placement)


def test_a_job_that_waits_for_a_link_keeps_no_slot() -> None:
    bench = Bench(slots=1)
    assert isinstance(bench.ask("waiting", tentative=True), Placement)
    bench.start("ready", bench.ask("ready"))
    bench.wait()
    assert isinstance(bench.ask("waiting", tentative=True), Waits)


def test_without_nodes_nothing_is_said() -> None:
    bench = Bench()
    bench.nodes = {}
    assert bench.ask("first") is None


def test_a_job_that_is_gone_gives_its_place_back() -> None:
    bench = Bench(slots=1)
    bench.start("first", bench.ask("first"))
    bench.store.drop(ObjectKey("lab", "first"))
    del bench.jobs["first"]
    bench.wait()
    assert isinstance(bench.ask("second"), Placement)


def test_the_loop_wakes_those_for_whom_something_has_changed() -> None:
    bench = Bench(slots=1)
    loop = PlacementLoop(bench.store, bench.woken.append)
    bench.start("first", bench.ask("first"))
    bench.ask("second")
    bench.wait()
    loop.look()
    assert bench.woken == []
    bench.end("first")
    loop.look()
    assert bench.woken == []
    bench.wait()
    loop.look()
    assert bench.woken == [ObjectKey("lab", "second")]


def test_the_loop_rests_while_nobody_waits() -> None:
    bench = Bench()
    assert not bench.store.is_worth_renewing()
    bench.start("first", bench.ask("first"))
    bench.wait()
    assert not bench.store.is_worth_renewing()


def test_a_node_that_is_gone_is_noticed_by_the_next_pass() -> None:
    bench = Bench()
    wish = EndWish(site="north")
    bench.nodes = {name: replace(make_node(name, 2), site="north") for name in ("a", "b")}
    request = Request("job", "lab", wish, EndWish(node="elsewhere"))
    key = ObjectKey("lab", "job")
    first = bench.store.answer(key, bench.observed("job"), request)
    assert isinstance(first, Placement)
    assert first.source.node == "a"
    bench.nodes = {"b": bench.nodes["b"]}
    bench.wait()
    second = bench.store.answer(key, bench.observed("job"), request)
    assert isinstance(second, Placement)
    assert second.source.node == "b"


def test_those_for_whom_a_pass_for_another_job_has_changed_something_are_woken() -> None:
    bench = Bench(slots=1)
    loop = PlacementLoop(bench.store, bench.woken.append)
    bench.start("first", bench.ask("first"))
    bench.ask("second")
    bench.end("first")
    bench.wait()
    bench.ask("third")
    loop.look()
    assert bench.woken == [ObjectKey("lab", "second")]
    loop.look()
    assert bench.woken == [ObjectKey("lab", "second")]
