"""Which attacks run."""

from __future__ import annotations

import pytest
from e2e.attacks.lib.catalogue import Attack, CatalogueError
from e2e.attacks.lib.selection import named, quarter

ATTACKS = [
    Attack(f"{layer}-doors/{number}", layer, "t", "g", "n")
    for layer, count in (("processes", 9), ("apiserver", 4), ("cluster", 1))
    for number in range(count)
]


def test_attacks_are_named_by_id_pattern_or_layer() -> None:
    assert named(ATTACKS, []) == ATTACKS
    assert [attack.id for attack in named(ATTACKS, ["cluster", "*-doors/8"])] == ["processes-doors/8", "cluster-doors/0"]
    with pytest.raises(CatalogueError, match="tls"):
        named(ATTACKS, ["cluster", "tls"])


def test_a_quarter_has_its_part_of_every_layer_and_follows_from_the_seed() -> None:
    chosen = quarter(ATTACKS, 1, {})
    assert [sum(attack.layer == layer for attack in chosen) for layer in ("processes", "apiserver", "cluster")] == [3, 1, 1]
    assert quarter(list(reversed(ATTACKS)), 1, {}) == list(reversed(chosen))
    assert {attack.id for seed in range(99) for attack in quarter(ATTACKS, seed, {})} == {attack.id for attack in ATTACKS}


def test_attacks_that_take_long_are_not_in_the_quarter() -> None:
    seconds = {attack.id: 600.0 for attack in ATTACKS if not attack.id.endswith("0")}
    assert {attack.id for attack in quarter(ATTACKS, 1, seconds)} == {attack.id for attack in ATTACKS if attack.id.endswith("0")}


def test_attacks_on_the_cluster_may_take_longer() -> None:
    seconds = {attack.id: 60.0 for attack in ATTACKS}
    assert [attack.layer for attack in quarter(ATTACKS, 1, seconds)] == ["cluster"]
