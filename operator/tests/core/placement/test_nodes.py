"""Which nodes a job gets, whose turn it is, and what it waits for."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement_builders import make_interface, make_node, make_nodes, make_request

from fairlead.api.reasons import Reason
from fairlead.core.placement import Board, place_all
from fairlead.core.placement.model import Answer, EndPlacement, EndWish, Holding, LabelRule, Placement, Request, Waits
from fairlead.core.placement.turns import PATIENCE_SECONDS, in_turn

NORTH = EndWish(site="north")
SOUTH = EndWish(site="south")


def north_and_south(**more: object) -> dict[str, object]:
    return {
        "n1": make_node("n1", make_interface("data0", 10), site="north", labels={"disk": "nvme"}, **more),
        "n2": make_node("n2", make_interface("data0", 40), site="north", labels={"disk": "hdd"}, **more),
        "s1": make_node("s1", make_interface("data0", 40), site="south", labels={"disk": "nvme"}, **more),
    }


def place(nodes: dict[str, object], source: EndWish, destination: EndWish, **more: object) -> Answer:
    return Board(nodes, ()).place(make_request("job", source, destination, **more))  # type: ignore[arg-type]


def nodes_of(answer: Answer) -> tuple[str | None, str | None]:
    assert isinstance(answer, Placement), answer
    return answer.source.node, answer.destination.node


@pytest.mark.parametrize(
    ("case", "source", "destination", "expected"),
    [
        ("of a site the node with the most to spare", NORTH, SOUTH, ("n2", "s1")),
        ("of those with labels", EndWish(site="north", labels=(("disk", "nvme"),)), SOUTH, ("n1", "s1")),
        ("beside a node that is given", EndWish(node="s1"), NORTH, ("s1", "n2")),
        ("before a node that is given", NORTH, EndWish(node="s1"), ("n2", "s1")),
        ("a given node of the site that is asked for", EndWish(node="n1", site="north"), SOUTH, ("n1", "s1")),
        ("of those that can mount the volume", EndWish(affinity=((LabelRule("disk", "In", ("hdd",)),),)), SOUTH, ("n2", "s1")),
        ("two nodes where anything is fine", EndWish(), EndWish(), ("n2", "s1")),
        ("any node where the scheduler must find out", EndWish(scheduler_may_choose=True), SOUTH, (None, "s1")),
    ],
)
def test_takes(case: str, source: EndWish, destination: EndWish, expected: tuple[str | None, str | None]) -> None:
    assert nodes_of(place(north_and_south(), source, destination)) == expected


def test_a_job_without_interfaces_of_nodes_takes_the_node_with_the_most_free_slots() -> None:
    nodes = north_and_south()
    board = Board(nodes, [Holding("other", (EndPlacement("n1"),))])  # type: ignore[arg-type]
    assert nodes_of(board.place(make_request("job", NORTH, SOUTH, uses_interfaces=False))) == ("n2", "s1")


def test_the_peer_of_a_network_is_found_on_any_node_of_the_site() -> None:
    nodes = make_nodes(
        make_node("n1", make_interface("data0", 100, network="lan"), site="north"),
        make_node("n2", make_interface("data0", 10, network="wan"), site="north"),
        make_node("s1", make_interface("data0", 10, network="wan"), site="south"),
    )
    assert nodes_of(place(dict(nodes), NORTH, SOUTH)) == ("n2", "s1")
    assert nodes_of(place(dict(nodes), NORTH, EndWish(node="s1"))) == ("n2", "s1")


@pytest.mark.parametrize(
    ("reason", "needs_person", "words", "nodes", "source"),
    [
        (Reason.NO_NODE_MATCHES, True, "source.site: no DataTransferNode has site west", north_and_south(), EndWish(site="west")),
        (Reason.NO_NODE_MATCHES, True, "has the labels disk=tape", north_and_south(), EndWish(labels=(("disk", "tape"),))),
        (Reason.NO_NODE_MATCHES, False, "none is ready (n1, n2)", north_and_south(ready=False), NORTH),
        (Reason.NO_NODE_MATCHES, True, "the volume lives on node s1", north_and_south(), EndWish(node="s1", site="north")),
        (Reason.NO_SLOT_FREE, False, "is 0: an administrator keeps movers away", north_and_south(slots=0), NORTH),
    ],
)
def test_waits_where_no_node_matches_and_says_what_helps(
    reason: Reason, needs_person: bool, words: str, nodes: dict[str, object], source: EndWish
) -> None:
    waits = place(nodes, source, EndWish(node="elsewhere"))
    assert isinstance(waits, Waits)
    assert (waits.reason, waits.needs_person) == (reason, needs_person)
    assert words in waits.message


def test_a_job_on_a_full_node_waits_and_one_beside_it_does_not() -> None:
    nodes = make_nodes(make_node("a", slots=1), make_node("b"), make_node("c"))
    requests = [make_request(f"job-{n}", EndWish(node="a"), EndWish(node="b")) for n in range(2)]
    requests.append(make_request("job-2", EndWish(node="c"), EndWish(node="b")))
    _, answers = place_all(nodes, (), requests, 0.0)
    waits = answers["job-1"]
    assert isinstance(waits, Waits)
    assert waits.reason == Reason.NO_SLOT_FREE
    assert "source: all 1 slots of node a are taken" in waits.message
    assert isinstance(answers["job-2"], Placement)


def test_both_ends_on_one_node_need_two_slots() -> None:
    waits = place(dict(make_nodes(make_node("a", slots=1))), EndWish(node="a"), EndWish(node="a"))
    assert isinstance(waits, Waits)
    assert waits.needs_person
    assert isinstance(place(dict(make_nodes(make_node("a", slots=2))), EndWish(node="a"), EndWish(node="a")), Placement)


def test_one_namespace_leaves_a_quarter_of_the_slots_to_others() -> None:
    nodes = make_nodes(make_node("a"), make_node("b", slots=100))
    greedy = [make_request(f"g-{n}", EndWish(node="a"), EndWish(node="b"), namespace="greedy") for n in range(20)]
    late = make_request("late", EndWish(node="a"), EndWish(node="b"), namespace="modest")
    _, answers = place_all(nodes, (), [*greedy, late], 0.0)
    assert sum(isinstance(answers[each.uid], Placement) for each in greedy) == 6
    assert isinstance(answers["late"], Placement)
    refused = next(answer for answer in answers.values() if isinstance(answer, Waits))
    assert refused.reason == Reason.SLOT_SHARE_USED_UP
    assert "greedy have 6 of the 8 slots of node a" in refused.message


def test_a_namespace_whose_share_of_one_node_is_used_up_gets_another_node() -> None:
    nodes = make_nodes(make_node("n1", site="north", slots=4), make_node("n2", site="north", slots=4), make_node("s", slots=100))
    requests = [make_request(f"job-{n}", NORTH, EndWish(node="s")) for n in range(8)]
    _, answers = place_all(nodes, (), requests, 0.0)
    counts = Counter(nodes_of(answer)[0] for answer in answers.values() if isinstance(answer, Placement))
    assert counts == {"n1": 3, "n2": 3}


def test_nodes_that_one_namespace_may_not_have_are_no_worse_for_another() -> None:
    rates_gbps = {"wan": 40, "lan": 10, "thin": 5}
    nodes = {
        f"{site}-{name}": make_node(
            f"{site}-{name}", make_interface("data0", rate, network="lan" if name == "lan" else "wan"), site=site, slots=4
        )
        for site in ("north", "south")
        for name, rate in rates_gbps.items()
    }
    board = Board(nodes, [Holding("busy", (EndPlacement("north-wan"),))] * 3)
    assert nodes_of(board.place(make_request("first", NORTH, SOUTH, namespace="busy", rate_bps=1e9))) == ("north-lan", "south-lan")
    assert nodes_of(board.place(make_request("next", NORTH, SOUTH, namespace="other", rate_bps=1e9))) == ("north-wan", "south-wan")


def test_a_node_that_takes_no_pods_is_left_out() -> None:
    assert nodes_of(place(north_and_south(), NORTH, SOUTH, unready_nodes=frozenset({"n2"}))) == ("n1", "s1")
    waits = place(north_and_south(), NORTH, SOUTH, unready_nodes=frozenset({"n1", "n2"}))
    assert isinstance(waits, Waits)
    assert waits.reason == Reason.NO_NODE_MATCHES


def test_a_node_on_which_the_attempt_before_failed_is_taken_only_for_want_of_others() -> None:
    assert nodes_of(place(north_and_south(), NORTH, SOUTH, avoid_nodes=frozenset({"n2"}))) == ("n1", "s1")
    assert nodes_of(place(north_and_south(), NORTH, SOUTH, avoid_nodes=frozenset({"n1", "n2", "s1"}))) == ("n2", "s1")


def test_a_job_that_waits_for_something_else_too_takes_nothing() -> None:
    board = Board(make_nodes(make_node("dtn-a", slots=1), make_node("dtn-b", slots=1)), ())
    assert isinstance(board.place(make_request("waiting", tentative=True)), Placement)
    assert isinstance(board.place(make_request("ready")), Placement)


def test_namespaces_take_turns_and_the_longest_wait_comes_first_in_each() -> None:
    requests = [
        make_request("a-new", namespace="a", asked_at=100.0),
        make_request("a-old", namespace="a", asked_at=40.0),
        make_request("a-important", namespace="a", asked_at=100.0, priority=2),
        make_request("b", namespace="b", asked_at=100.0),
        make_request("c", namespace="c", asked_at=0.0),
    ]
    held = [Holding("c", ())]
    assert [request.uid for request in in_turn(requests, held, 100.0)] == ["a-important", "b", "c", "a-old", "a-new"]


def test_a_job_that_waits_for_two_nodes_is_not_passed_over_for_ever() -> None:
    """Without a slot kept for it, jobs that need one of its nodes alone would take each that becomes free."""
    nodes = make_nodes(make_node("a", slots=1), make_node("b", slots=1), make_node("c"))
    both = make_request("both", EndWish(node="a"), EndWish(node="b"), asked_at=0.0)
    other = make_request("other", EndWish(node="a"), EndWish(node="c"), namespace="rival", asked_at=500.0)
    busy = [Holding("rival", (EndPlacement("b"),))]
    _, early = place_all(nodes, busy, [both, other], PATIENCE_SECONDS - 1)
    assert isinstance(early["both"], Waits)
    assert isinstance(early["other"], Placement)
    _, late = place_all(nodes, busy, [both, other], PATIENCE_SECONDS)
    assert isinstance(late["other"], Waits)


WISHES = st.one_of(st.sampled_from([EndWish(node=f"n{n}") for n in range(4)]), st.sampled_from([NORTH, SOUTH, EndWish()]))
REQUESTS = st.lists(
    st.builds(
        lambda number, source, destination, namespace, rate: make_request(
            f"job-{number}", source, destination, namespace=namespace, rate_bps=rate
        ),
        st.integers(0, 10_000),
        WISHES,
        WISHES,
        st.sampled_from(["a", "b", "c"]),
        st.one_of(st.none(), st.floats(1e8, 2e10)),
    ),
    max_size=40,
    unique_by=lambda request: request.uid,
)
SLOTS = st.lists(st.integers(1, 4), min_size=4, max_size=4)


def some_nodes(slots: list[int]) -> dict[str, object]:
    return {
        f"n{n}": make_node(f"n{n}", make_interface("data0"), make_interface("data1", 5), site="north" if n < 2 else "south", slots=slots[n])
        for n in range(4)
    }


@given(REQUESTS, SLOTS)
def test_no_node_has_more_movers_than_slots_and_nobody_holds_one_slot_of_two(requests: list[Request], slots: list[int]) -> None:
    nodes = some_nodes(slots)
    _, answers = place_all(nodes, (), requests, 0.0)  # type: ignore[arg-type]
    taken = Counter(end.node for answer in answers.values() if isinstance(answer, Placement) for end in (answer.source, answer.destination))
    assert all(count <= nodes[name].slots for name, count in taken.items())  # type: ignore[attr-defined,index]
    assert answers == place_all(nodes, (), list(reversed(requests)), 0.0)[1]  # type: ignore[arg-type]


@given(REQUESTS, SLOTS)
def test_jobs_in_all_directions_all_run_in_the_end(requests: list[Request], slots: list[int]) -> None:
    """Each pass starts some of those that wait, as long as any is left whose nodes have slots enough at all: nobody waits for a waiter."""
    nodes = some_nodes(slots)
    waiting = {request.uid: request for request in requests}
    for now in range(0, 10_000, 100):
        if not waiting:
            break
        _, answers = place_all(nodes, (), waiting.values(), float(now))  # type: ignore[arg-type]
        started = [uid for uid, answer in answers.items() if isinstance(answer, Placement)]
        stuck = [answer for answer in answers.values() if isinstance(answer, Waits) and not answer.needs_person]
        assert started or not stuck
        if not started:
            break
        for uid in started:
            del waiting[uid]
    assert all(waits.needs_person for waits in _answers(nodes, waiting) if isinstance(waits, Waits))


def _answers(nodes: dict[str, object], waiting: dict[str, Request]) -> list[Answer]:
    return list(place_all(nodes, (), waiting.values(), 0.0)[1].values())  # type: ignore[arg-type]


def test_a_job_that_can_never_run_is_kept_no_slot() -> None:
    nodes = make_nodes(make_node("a", slots=1), make_node("b"))
    impossible = make_request("impossible", EndWish(node="a"), EndWish(node="a"), asked_at=0.0)
    other = make_request("other", EndWish(node="a"), EndWish(node="b"), asked_at=PATIENCE_SECONDS)
    _, answers = place_all(nodes, (), [impossible, other], PATIENCE_SECONDS)
    assert isinstance(answers["other"], Placement)


def test_a_refusal_of_one_interface_does_not_refuse_another_one_of_the_same_node() -> None:
    source = make_node("s", make_interface("data0", network="lan"), make_interface("data1", network="wan"))
    nodes = make_nodes(source, make_node("n", make_interface("data0", network="wan"), site="north"))
    board = Board(nodes, ())
    assert isinstance(board.place(make_request("lan", EndWish(node="s", network="lan"), NORTH)), Waits)
    assert nodes_of(board.place(make_request("wan", EndWish(node="s", network="wan"), NORTH))) == ("s", "n")


@pytest.mark.parametrize("uses_interfaces", [True, False])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_only_node_of_one_end_is_left_to_it(uses_interfaces: bool, backwards: bool) -> None:
    nodes = {
        "a": make_node("a", make_interface("data0", 40), site="north", labels={"disk": "nvme"}),
        "b": make_node("b", make_interface("data0", 10), site="north", slots=7),
    }
    ends = (NORTH, EndWish(labels=(("disk", "nvme"),)))
    answer = place(nodes, *(ends[::-1] if backwards else ends), uses_interfaces=uses_interfaces)  # type: ignore[arg-type]
    assert nodes_of(answer) == (("a", "b") if backwards else ("b", "a"))


@pytest.mark.parametrize("uses_interfaces", [True, False])
def test_where_one_node_alone_fits_both_ends_it_takes_both(uses_interfaces: bool) -> None:
    nodes = dict(make_nodes(make_node("a", site="north"), make_node("b", site="south")))
    assert nodes_of(place(nodes, NORTH, NORTH, uses_interfaces=uses_interfaces)) == ("a", "a")


def test_a_job_that_needs_two_slots_of_a_node_is_not_told_of_a_share_that_it_has_not_used_up() -> None:
    holdings = [Holding(f"rival-{number}", (EndPlacement("a"),)) for number in range(7)]
    waits = Board(make_nodes(make_node("a")), holdings).place(make_request("job", EndWish(node="a"), EndWish(node="a")))
    assert isinstance(waits, Waits)
    assert waits.reason == Reason.NO_SLOT_FREE
    assert "source: all but 1 of the 8 slots of node a are taken, and the job needs 2 there" in waits.message


@pytest.mark.parametrize("rivals", [0, 2])
def test_what_a_namespace_at_its_share_is_told_does_not_change_with_what_others_have(rivals: int) -> None:
    """Thousands of its jobs may wait, and each writes its status when the reason changes."""
    holdings = [Holding("science", (EndPlacement("a"),))] * 6 + [Holding("rival", (EndPlacement("a"),))] * rivals
    waits = Board(make_nodes(make_node("a")), holdings).place(make_request("job", EndWish(node="a"), EndWish(node="elsewhere")))
    assert isinstance(waits, Waits)
    assert waits.reason == Reason.SLOT_SHARE_USED_UP
