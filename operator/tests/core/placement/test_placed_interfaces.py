"""Which interfaces of two given nodes carry a job."""

from __future__ import annotations

import pytest
from placement_builders import GIGABIT, make_interface, make_node, make_nodes, make_request

from fairlead.api.reasons import Reason
from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.placement import Board, place_all
from fairlead.core.placement.model import EndPlacement, EndWish, Holding, Placement, Waits

AUTO = EndWish(node="dtn-a"), EndWish(node="dtn-b")


def chosen(source: list[NodeInterface], destination: list[NodeInterface], *ends: EndWish) -> tuple[str, str]:
    board = Board(make_nodes(make_node("dtn-a", *source), make_node("dtn-b", *destination)), ())
    answer = board.place(make_request("job", *(ends or AUTO)))
    assert isinstance(answer, Placement), answer
    (one,), (other,) = answer.source.interfaces, answer.destination.interfaces
    return one, other


def refusal(source: list[NodeInterface], destination: list[NodeInterface], *ends: EndWish) -> Waits:
    board = Board(make_nodes(make_node("dtn-a", *source), make_node("dtn-b", *destination)), ())
    answer = board.place(make_request("job", *(ends or AUTO)))
    assert isinstance(answer, Waits), answer
    return answer


def two(**second: object) -> list[NodeInterface]:
    """Two interfaces that are the same but for what is given of the second."""
    return [make_interface("data0"), make_interface("data1", **second)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("case", "source", "destination", "expected"),
    [
        ("the first of equals", two(), two(), ("data0", "data0")),
        ("the faster one", two(rate_gbps=40), two(rate_gbps=40), ("data1", "data1")),
        ("the first where the other end is slower than all", two(rate_gbps=40), [make_interface("data0", 5)], ("data0", "data0")),
        ("one with a carrier", [make_interface("data0", carrier=False), make_interface("data1")], two(), ("data1", "data0")),
        ("one whose carrier is not known", [make_interface("data0", carrier=None)], two(), ("data0", "data0")),
        (
            "one that was found before a faster one that is only declared",
            [make_interface("data0", 100, carrier=None, network="wan"), make_interface("data1", 10)],
            [make_interface("data0", 100, network="wan")],
            ("data1", "data0"),
        ),
        ("one that may carry data", [make_interface("data0", may_carry_data=False), make_interface("data1", 1)], two(), ("data1", "data0")),
        (
            "one of the same network before a faster one that is declared for none",
            [make_interface("data0", 100), make_interface("data1", 10, network="wan")],
            [make_interface("data0", 10, network="wan")],
            ("data1", "data0"),
        ),
        (
            "none of another network, however fast",
            [make_interface("data0", 100, network="lan"), make_interface("data1", 1, network="wan")],
            [make_interface("data0", 10, network="wan")],
            ("data1", "data0"),
        ),
        (
            "one of the same subnet before a faster one elsewhere",
            [make_interface("data0", 100, "198.18.0.1/24"), make_interface("data1", 10, "198.18.1.1/24")],
            [make_interface("data0", 10, "198.18.1.2/24")],
            ("data1", "data0"),
        ),
        (
            "one of the same address family",
            [make_interface("data0", 100, "2001:db8::1/64"), make_interface("data1", 10, "198.18.1.1/24")],
            [make_interface("data0", 10, "198.18.7.2/24")],
            ("data1", "data0"),
        ),
        (
            "no subnet by link-local addresses, which are on every link",
            [make_interface("data0", 10, "198.18.0.1/24", "fe80::1/64"), make_interface("data1", 10, "198.18.1.1/24", "fe80::2/64")],
            [make_interface("data0", 10, "198.18.1.2/24", "fe80::3/64")],
            ("data1", "data0"),
        ),
        ("the MTU of the peer among equals", two(mtu=9000), [make_interface("data0", mtu=9000)], ("data0", "data0")),
        (
            "the MTU of the peer where both are known",
            [make_interface("data0", mtu=1500), make_interface("data1", mtu=9000)],
            [make_interface("data0", mtu=9000)],
            ("data1", "data0"),
        ),
        (
            "more to spare before the MTU of the peer",
            [make_interface("data0", 40, mtu=1500), make_interface("data1", 10, mtu=9000)],
            [make_interface("data0", 40, mtu=9000)],
            ("data0", "data0"),
        ),
        (
            "one of a known rate before one that counts as 1G",
            [make_interface("data0", None), make_interface("data1", 10)],
            two(),
            ("data1", "data0"),
        ),
    ],
)
def test_auto_takes(case: str, source: list[NodeInterface], destination: list[NodeInterface], expected: tuple[str, str]) -> None:
    assert chosen(source, destination) == expected


def test_auto_takes_the_interface_beside_the_disk_among_equals() -> None:
    interfaces = [make_interface("data0", numa_node=0), make_interface("data1", numa_node=1)]
    assert chosen(interfaces, interfaces, EndWish(node="dtn-a", disk_numa_node=1), EndWish(node="dtn-b", disk_numa_node=0)) == (
        "data1",
        "data0",
    )


def test_a_named_interface_is_taken_however_slow() -> None:
    assert chosen(two(rate_gbps=1), two(), EndWish(node="dtn-a", interfaces=("data1",)), AUTO[1]) == ("data1", "data0")


def test_a_named_interface_of_which_nothing_is_known_is_left_to_the_mover_to_find() -> None:
    assert chosen(two(), two(), EndWish(node="dtn-a", interfaces=("bond7",)), AUTO[1])[0] == "bond7"


def test_a_network_leaves_the_choice_among_its_interfaces() -> None:
    interfaces = [make_interface("data0", 100), make_interface("data1", 5, network="wan"), make_interface("data2", 10, network="wan")]
    assert chosen(interfaces, interfaces, EndWish(node="dtn-a", network="wan"), AUTO[1]) == ("data2", "data2")


@pytest.mark.parametrize(
    ("ends", "source", "destination", "needs_person", "words"),
    [
        (AUTO, [make_interface("data0", carrier=False)], two(), False, "source: interface data0 of node dtn-a has no carrier"),
        (AUTO, [make_interface("data0", may_carry_data=False)], two(), False, "node dtn-a has no interface that may carry data"),
        (
            (EndWish(node="dtn-a", interfaces=("data0",)), AUTO[1]),
            [make_interface("data0", may_carry_data=False)],
            two(),
            True,
            "ask an administrator to list it in spec.interfaces of DataTransferNode dtn-a",
        ),
        (
            (EndWish(node="dtn-a", network="wan"), AUTO[1]),
            two(network="lan"),
            two(),
            True,
            "source.interfaceNetwork: no interface of node dtn-a",
        ),
        ((EndWish(node="elsewhere", network="wan"), AUTO[1]), two(), two(), True, "node elsewhere has no DataTransferNode"),
        (AUTO, [make_interface("data0", network="lan")], [make_interface("data0", network="wan")], False, "data0 of dtn-a on network lan"),
        (
            (EndWish(node="dtn-a", interfaces=("data0", "data1")), EndWish(node="dtn-b", interfaces=("data0", "data1"))),
            [make_interface("data0", network="lan"), make_interface("data1", network="wan")],
            [make_interface("data0", network="wan"), make_interface("data1", network="wan")],
            True,
            "data0 of dtn-a on network lan does not reach data0 of dtn-b on network wan, with which it is paired",
        ),
        (
            (EndWish(node="dtn-a", interfaces=("data0", "data1")), EndWish(node="dtn-b", interfaces=("data0", "data1"))),
            two(carrier=False),
            [make_interface("data0", carrier=False), make_interface("data1")],
            False,
            "each pair of the interfaces has one without a carrier (data1 of dtn-a, data0 of dtn-b): check their links",
        ),
        (
            (EndWish(node="dtn-a", interfaces=("data0", "data1")), EndWish(node="dtn-b", interfaces=("data0", "data1"))),
            [make_interface("data0", carrier=False), make_interface("data1", carrier=False)],
            two(),
            False,
            "source: interface data0, data1 of node dtn-a has no carrier",
        ),
        (
            (EndWish(node="dtn-a", interfaces=("data0", "data1")), EndWish(node="dtn-b", interfaces=("data0", "data1"))),
            [make_interface("data0", carrier=False), make_interface("data1", may_carry_data=False)],
            two(),
            True,
            "source: interface data1 of node dtn-a may not carry data",
        ),
    ],
)
def test_waits_where_no_interface_fits_and_says_what_helps(
    ends: tuple[EndWish, EndWish], source: list[NodeInterface], destination: list[NodeInterface], needs_person: bool, words: str
) -> None:
    waits = refusal(source, destination, *ends)
    assert (waits.reason, waits.needs_person) == (Reason.NO_INTERFACE_FITS, needs_person)
    assert words in waits.message


def test_several_interfaces_are_taken_together() -> None:
    ends = (EndWish(node="dtn-a", interfaces=("data0", "data1")), EndWish(node="dtn-b", interfaces=("data1", "data0")))
    answer = Board(_two_nodes(), ()).place(make_request("job", *ends))
    assert isinstance(answer, Placement)
    assert (answer.source.interfaces, answer.destination.interfaces) == (("data0", "data1"), ("data1", "data0"))
    assert answer.spare_bps == 20 * GIGABIT


UNPLUGGED = make_interface("data0", carrier=False)
TWO_NAMED = EndWish(node="dtn-a", interfaces=("data0", "data1")), EndWish(node="dtn-b", interfaces=("data0", "data1"))


@pytest.mark.parametrize(
    ("case", "source", "destination", "note"),
    [
        ("at the source", [UNPLUGGED, make_interface("data1")], two(), "without data0 of dtn-a"),
        ("at the destination", two(), [UNPLUGGED, make_interface("data1")], "without data0 of dtn-b"),
        ("at both ends", [UNPLUGGED, make_interface("data1")], [UNPLUGGED, make_interface("data1")], "data0 of dtn-a, data0 of dtn-b"),
        ("that nobody declared", [make_interface("data0", carrier=False, may_carry_data=False), make_interface("data1")], two(), "dtn-a"),
    ],
)
def test_of_several_named_interfaces_the_pairs_with_a_carrier_are_used(
    case: str, source: list[NodeInterface], destination: list[NodeInterface], note: str
) -> None:
    board = Board(make_nodes(make_node("dtn-a", *source), make_node("dtn-b", *destination)), ())
    answer = board.place(make_request("job", *TWO_NAMED))
    assert isinstance(answer, Placement), answer
    assert (answer.source.interfaces, answer.destination.interfaces) == (("data1",), ("data1",))
    assert (answer.spare_bps, answer.capacity_bps) == (10 * GIGABIT, 10 * GIGABIT)
    assert note in answer.reason


def test_of_several_named_interfaces_those_of_a_node_that_nobody_describes_are_left_to_its_mover() -> None:
    ends = EndWish(node="elsewhere", interfaces=("data0", "data1")), TWO_NAMED[1]
    answer = Board(make_nodes(make_node("dtn-b", UNPLUGGED, make_interface("data1"))), ()).place(make_request("job", *ends))
    assert isinstance(answer, Placement), answer
    assert (answer.source.interfaces, answer.destination.interfaces) == (("data1",), ("data1",))


def test_jobs_spread_over_the_interfaces_of_a_node() -> None:
    requests = [make_request(f"job-{number}") for number in range(4)]
    _, answers = place_all(_two_nodes(), (), requests, 0.0)
    assert sorted(_source_interface(answer) for answer in answers.values()) == ["data0", "data0", "data1", "data1"]


@pytest.mark.parametrize(
    ("left_gbps", "expected"), [({}, "data0"), ({"data0": 4}, "data1"), ({"data0": 4, "data1": 3}, "data0"), ({"data0": 400}, "data0")]
)
def test_what_a_shared_link_does_not_leave_to_jobs_is_not_to_spare(left_gbps: dict[str, int], expected: str) -> None:
    """Others' traffic and headroom, as the last round has them."""
    open_bps = {("dtn-a", name): gbps * 1e9 for name, gbps in left_gbps.items()} | {("unknown", "data0"): 1.0}
    _, answers = place_all(_two_nodes(), (), [make_request("job", *AUTO)], 0.0, open_bps)
    answer = answers["job"]
    assert isinstance(answer, Placement)
    assert answer.source.interfaces == (expected,)


def test_what_runs_already_counts() -> None:
    running = Holding("science", (EndPlacement("dtn-a", ("data0",)), EndPlacement("dtn-b", ("data0",))))
    answer = Board(_two_nodes(), [running]).place(make_request())
    assert (answer.source, answer.destination) == (EndPlacement("dtn-a", ("data1",)), EndPlacement("dtn-b", ("data1",)))


def test_a_job_with_a_limit_leaves_the_rest_of_its_interface() -> None:
    slow = Holding("science", (EndPlacement("dtn-a", ("data0",)), EndPlacement("dtn-b", ("data0",))), rate_bps=GIGABIT)
    nodes = make_nodes(*(make_node(name, make_interface("data0", 10), make_interface("data1", 5)) for name in ("dtn-a", "dtn-b")))
    answer = Board(nodes, [slow]).place(make_request())
    assert isinstance(answer, Placement)
    assert answer.reason == "dtn-a data0 → dtn-b data0: 9 Gb/s spare of 10 Gb/s; data0 → data1 has 5 Gb/s"


def test_an_interface_that_failed_is_taken_again_only_for_want_of_others() -> None:
    avoiding = make_request(avoid_interfaces=frozenset({("dtn-a", "data0")}))
    assert _source_interface(Board(_two_nodes(), ()).place(avoiding)) == "data1"
    alone = make_nodes(make_node("dtn-a"), make_node("dtn-b"))
    assert _source_interface(Board(alone, ()).place(avoiding)) == "data0"


def test_where_an_agent_is_silent_and_nothing_is_declared_the_mover_chooses() -> None:
    nodes = {"dtn-a": TransferNode("dtn-a"), "dtn-b": make_node("dtn-b")}
    answer = Board(nodes, ()).place(make_request())
    assert isinstance(answer, Placement)
    assert (answer.source, answer.destination) == (EndPlacement("dtn-a"), EndPlacement("dtn-b", ("data0",)))
    assert "the agent of dtn-a does not report" in answer.reason


def test_beside_a_node_that_nobody_describes_one_that_was_found_is_taken_before_one_that_is_only_declared() -> None:
    board = Board(make_nodes(make_node("dtn-a", make_interface("data0", 100, carrier=None), make_interface("data1", 10))), ())
    answer = board.place(make_request("job", EndWish(node="dtn-a"), EndWish(node="elsewhere")))
    assert isinstance(answer, Placement)
    assert answer.source.interfaces == ("data1",)


def test_a_node_that_nobody_describes_is_left_to_its_mover() -> None:
    answer = Board(make_nodes(make_node("dtn-b")), ()).place(make_request())
    assert (answer.source, answer.destination) == (EndPlacement("dtn-a"), EndPlacement("dtn-b", ("data0",)))


def _two_nodes() -> dict[str, TransferNode]:
    return dict(make_nodes(make_node("dtn-a", *two()), make_node("dtn-b", *two())))


def _source_interface(answer: Placement | Waits) -> str:
    assert isinstance(answer, Placement), answer
    return answer.source.interfaces[0]
