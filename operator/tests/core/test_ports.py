"""Which block of ports a pod gets, and when a namespace has all that it may have."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_builders import UID

from fairlead.core.ports import BLOCK, NOT_PLACED, PortRange, PortsInUse, choose_port_base, is_share_used_up

RANGE = PortRange(24000, 25999)
SMALL = PortRange(24000, 24099)
BASES = [24000 + BLOCK * block for block in range(25)]
NOBODY = PortsInUse()


class TestPorts:
    def test_the_same_seed_gives_the_same_block_and_another_attempt_usually_another(self) -> None:
        chosen = [choose_port_base(f"{UID}/{attempt}/receiver", "dtn-a", NOBODY, frozenset(), RANGE) for attempt in (1, 1, 2, 3, 4)]
        assert chosen[0] == chosen[1]
        assert len(set(chosen)) >= 3

    @given(seed=st.text(), taken=st.sets(st.sampled_from(BASES)), own=st.sets(st.sampled_from(BASES)))
    def test_a_block_is_free_and_within_the_range_or_there_is_none(self, seed: str, taken: set[int], own: set[int]) -> None:
        base = choose_port_base(seed, "dtn-a", PortsInUse(placed={"dtn-a": taken}), own, SMALL)
        if len(taken | own) == 25:
            assert base is None
        else:
            assert base is not None
            assert base not in taken | own
            assert 24000 <= base <= 24099 - BLOCK + 1
            assert (base - 24000) % BLOCK == 0

    def test_a_range_smaller_than_a_block_has_no_port(self) -> None:
        assert choose_port_base("x", None, NOBODY, frozenset(), PortRange(24000, 24002)) is None

    def test_a_block_on_another_node_is_free(self) -> None:
        in_use = PortsInUse(placed={"dtn-b": frozenset(BASES)})
        assert choose_port_base("x", "dtn-a", in_use, frozenset(), SMALL) == choose_port_base("x", "dtn-a", NOBODY, frozenset(), SMALL)

    @given(seed=st.text(), awaited=st.sets(st.sampled_from(BASES), max_size=24), node=st.sampled_from(["dtn-a", None]))
    def test_a_block_that_nobody_asks_for_comes_first(self, seed: str, awaited: set[int], node: str | None) -> None:
        for where in (NOT_PLACED, "dtn-a"):
            base = choose_port_base(seed, node, PortsInUse(awaited={where: dict.fromkeys(awaited, 1)}), frozenset(), SMALL)
            assert base is not None
            assert base not in awaited

    @given(seed=st.text(), node=st.sampled_from(["dtn-a", None]))
    def test_pods_that_are_not_placed_keep_nobody_from_a_block(self, seed: str, node: str | None) -> None:
        everything = dict.fromkeys(BASES, 3)
        in_use = PortsInUse(awaited={NOT_PLACED: everything, "dtn-a": everything, "dtn-b": everything})
        assert choose_port_base(seed, node, in_use, frozenset(), SMALL) in BASES

    def test_a_pod_that_may_come_to_any_node_gets_the_block_that_fewest_have(self) -> None:
        in_use = PortsInUse(placed={"dtn-a": frozenset(BASES), "dtn-b": frozenset(BASES[1:])})
        assert choose_port_base("x", None, in_use, frozenset(), SMALL) == BASES[0]

    @given(seed=st.text(), node=st.sampled_from(["dtn-a", None]))
    def test_receivers_leave_the_last_block_of_a_node_to_senders(self, seed: str, node: str | None) -> None:
        assert choose_port_base(seed, node, NOBODY, frozenset(), SMALL, leaves_last=True) in BASES[:-1]
        full = PortsInUse(placed={"dtn-a": frozenset(BASES[:-1])})
        assert choose_port_base(seed, "dtn-a", full, frozenset(), SMALL, leaves_last=True) is None
        assert choose_port_base(seed, "dtn-a", full, frozenset(), SMALL) == BASES[-1]

    @given(seed=st.text(), found=st.sets(st.sampled_from(BASES)), node=st.sampled_from(["dtn-a", None]))
    def test_a_block_in_which_something_else_had_a_port_comes_last(self, seed: str, found: set[int], node: str | None) -> None:
        base = choose_port_base(seed, node, NOBODY, frozenset(), SMALL, by_strangers=found)
        assert base is not None
        assert base not in found or len(found) == len(BASES)

    def test_the_only_block_of_a_node_is_for_receivers_too(self) -> None:
        assert choose_port_base("x", "dtn-a", NOBODY, frozenset(), PortRange(24000, 24003), leaves_last=True) == 24000

    @given(ends=st.lists(st.sampled_from([("dtn-a", "dtn-b"), ("dtn-b", "dtn-a")]), min_size=1, max_size=12), order=st.randoms())
    def test_jobs_of_any_namespaces_never_wait_for_ports_in_a_ring(self, ends: list[tuple[str, str]], order: random.Random) -> None:
        """Each job of a namespace of its own: receivers first, then senders, in any order; a job with both gives its blocks back."""
        ports = PortRange(24000, 24000 + 3 * BLOCK - 1)
        blocks: dict[str, dict[int, int]] = {"dtn-a": {}, "dtn-b": {}}
        receivers: set[int] = set()
        waiting = set(range(len(ends)))

        def block_for(job: int, node: str, *, leaves_last: bool) -> int | None:
            in_use = PortsInUse(placed={name: frozenset(held) for name, held in blocks.items()})
            return choose_port_base(f"{job}", node, in_use, frozenset(), ports, leaves_last=leaves_last)

        while waiting:
            moved = False
            for job in order.sample(sorted(waiting), len(waiting)):
                source, destination = ends[job]
                if job not in receivers:
                    base = block_for(job, destination, leaves_last=True)
                    if base is not None:
                        blocks[destination][base] = job
                        receivers.add(job)
                        moved = True
            for job in order.sample(sorted(receivers & waiting), len(receivers & waiting)):
                source, destination = ends[job]
                if block_for(job, source, leaves_last=False) is not None:
                    blocks[destination] = {base: held for base, held in blocks[destination].items() if held != job}
                    waiting.discard(job)
                    moved = True
                    break
            assert moved, (blocks, waiting)


class TestShareOfANamespace:
    @pytest.mark.parametrize(
        ("ports", "most"),
        [
            (PortRange(24000, 25999, 25), 125),
            (PortRange(24000, 25999, 100), 500),
            (PortRange(24000, 24007, 25), 2),
            (PortRange(24000, 24003, 25), 1),
            (PortRange(24000, 24039, 25), 2),
            (PortRange(24000, 24001, 25), 0),
        ],
    )
    def test_it_is_a_part_of_the_range_and_enough_for_both_movers_of_a_job(self, ports: PortRange, most: int) -> None:
        assert ports.most_of_namespace == most

    @pytest.mark.parametrize(
        ("what", "held", "node", "used_up"),
        [
            ("nothing is held", {}, "dtn-a", False),
            ("one block is left", {"dtn-a": 4}, "dtn-a", False),
            ("all is held", {"dtn-a": 5}, "dtn-a", True),
            ("all is held on another node", {"dtn-b": 5}, "dtn-a", False),
            ("a pod for any node may come to this one", {"dtn-a": 4, NOT_PLACED: 1}, "dtn-a", True),
            ("a pod for any node may come to the one where all is held", {"dtn-b": 5}, None, True),
            ("pods for any node are enough", {NOT_PLACED: 5}, None, True),
            ("there is one left wherever it comes to", {"dtn-a": 2, "dtn-b": 3, NOT_PLACED: 1}, None, False),
        ],
    )
    def test_it_counts_by_node(self, what: str, held: dict[str, int], node: str | None, used_up: bool) -> None:
        ports = PortRange(24000, 24000 + 20 * BLOCK - 1, 25)
        assert is_share_used_up(node, PortsInUse(of_namespace=held), ports) is used_up, what

    @pytest.mark.parametrize(
        ("what", "held", "node", "waits"),
        [
            ("two blocks are left", {"dtn-a": 3}, "dtn-a", False),
            ("only the sender's block is left", {"dtn-a": 4}, "dtn-a", True),
            ("only the sender's block is left of a node that it may come to", {"dtn-b": 3, NOT_PLACED: 1}, None, True),
        ],
    )
    def test_a_receiver_leaves_a_block_for_a_sender(self, what: str, held: dict[str, int], node: str | None, waits: bool) -> None:
        ports = PortRange(24000, 24000 + 20 * BLOCK - 1, 25)
        assert is_share_used_up(node, PortsInUse(of_namespace=held), ports, leaves_blocks=1) is waits, what

    def test_a_share_of_a_single_block_is_for_receivers_too(self) -> None:
        assert not is_share_used_up("dtn-a", NOBODY, PortRange(24000, 24003), leaves_blocks=1)
