"""The mover beside an earlier one: pairs, and what follows from them."""

from __future__ import annotations

import pytest

from fairlead_dev.bench.mover.parts import before


def test_a_pair_is_measured_in_either_order_and_kept_as_now_and_then() -> None:
    for earlier_first in (True, False):
        asked: list[str] = []

        def move(mover: object, asked: list[str] = asked) -> float:
            asked.append(str(mover))
            return {"now": 2.0, "then": 1.0}[str(mover)]

        assert before._pair(move, "now", "then", earlier_first=earlier_first) == (2.0, 1.0)  # type: ignore[arg-type]
        assert asked == (["then", "now"] if earlier_first else ["now", "then"])


def test_the_ratio_is_that_within_pairs_whatever_the_machine_did_between_them() -> None:
    assert before.ratio([(1.0, 1.0), (20.0, 10.0), (4.0, 4.0)]) == pytest.approx(1.0)
