"""Which block of ports a pod gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from job_builders import UID

from fairlead.core.ports import BLOCK, choose_port_base, taken_on


class TestPorts:
    def test_the_same_seed_gives_the_same_block_and_another_attempt_usually_another(self) -> None:
        chosen = [choose_port_base(f"{UID}/{attempt}/receiver", frozenset(), first=24000, last=25999) for attempt in (1, 1, 2, 3, 4)]
        assert chosen[0] == chosen[1]
        assert len(set(chosen)) >= 3

    @given(seed=st.text(), taken=st.sets(st.integers(0, 24).map(lambda block: 24000 + BLOCK * block)))
    def test_a_block_is_free_and_within_the_range_or_there_is_none(self, seed: str, taken: set[int]) -> None:
        base = choose_port_base(seed, taken, first=24000, last=24099)
        if len(taken) == 25:
            assert base is None
        else:
            assert base is not None
            assert base not in taken
            assert 24000 <= base <= 24099 - BLOCK + 1
            assert (base - 24000) % BLOCK == 0

    def test_a_range_smaller_than_a_block_has_no_port(self) -> None:
        assert choose_port_base("x", frozenset(), first=24000, last=24002) is None

    def test_pods_without_a_node_count_on_every_node_and_a_pod_without_a_node_avoids_all(self) -> None:
        in_use = {"dtn-a": frozenset({1}), "dtn-b": frozenset({2}), "": frozenset({3})}
        assert taken_on("dtn-a", in_use) == {1, 3}
        assert taken_on(None, in_use) == {1, 2, 3}
        assert taken_on("dtn-c", {}) == frozenset()
