"""Which columns a table shows in how much room."""

from __future__ import annotations

import pytest

from fairlead.plugin.columns import FittedColumn, fitted

COLUMNS = (
    FittedColumn("JOB", least=10),
    FittedColumn("", least=4),
    FittedColumn("RATE", rank=1),
    FittedColumn("CAP", rank=2),
    FittedColumn("%"),
)
NATURAL = (20, 14, 4, 3, 3)


@pytest.mark.parametrize(
    ("room", "widths"),
    [
        (200, {0: 20, 1: 14, 2: 4, 3: 3, 4: 3}),
        (52, {0: 20, 1: 14, 2: 4, 3: 3, 4: 3}),
        (42, {0: 15, 1: 9, 2: 4, 3: 3, 4: 3}),
        (32, {0: 10, 1: 4, 2: 4, 3: 3, 4: 3}),
        (31, {0: 12, 1: 6, 2: 4, 4: 3}),
        (26, {0: 12, 1: 6, 4: 3}),
        (9, {0: 10, 1: 4, 4: 3}),
    ],
)
def test_what_may_be_cut_shrinks_evenly_and_what_matters_least_leaves_first(room: int, widths: dict[int, int]) -> None:
    assert fitted(COLUMNS, NATURAL, room) == widths


def test_nothing_that_is_short_is_made_longer() -> None:
    assert fitted(COLUMNS[:2], (3, 2), 80) == {0: 3, 1: 2}
