"""Shares as a function of the buffer."""

import math

import pytest

from fairlead_dev.bench.decisions.buffers import AT_BDP, CASES, SharePoint, cells, fit, points_of

from ..documented import page_text, rows_of, tables


def made(slope: float, at_one: float, buffers: tuple[float, ...]) -> list[SharePoint]:
    return [SharePoint(f"p{bdp}", bdp, 1 / (1 + math.exp(-(slope * math.log(bdp) + at_one)))) for bdp in buffers]


def test_a_line_that_is_there_is_found() -> None:
    found = fit(made(1.5, -2.0, (0.2, 0.4, 0.8, 1.6, 3.2, 4.0)))
    for bdp, share in found.shares.items():
        assert share == pytest.approx(1 / (1 + math.exp(2.0 - 1.5 * math.log(bdp))))
        assert found.intervals[bdp] == pytest.approx((share, share))
    assert found.deep == 3


def test_one_deep_path_alone_leaves_deep_buffers_unknown() -> None:
    shallow = made(0.0, -2.0, (0.2, 0.4, 0.5, 0.8, 1.0))
    found = fit([*shallow, SharePoint("deep", 3.0, 0.5)])
    low, high = found.intervals[3.0] or (0.0, 0.0)
    assert high - low > 0.2


def test_buffers_that_are_all_alike_fit_nothing() -> None:
    with pytest.raises(ValueError, match="same buffer"):
        fit(made(1.0, 0.0, (1.0, 1.0, 1.0)))


def test_the_pages_table_is_the_fit_of_the_committed_matrix() -> None:
    rows = list(rows_of("decisions-full.json").values())
    shown = {cells[0]: cells[1:] for cells in tables(page_text("explanation/decisions-bench.md"))}
    assert len(AT_BDP) == 3
    for background, policy in CASES:
        assert shown[f"{policy.upper()} beside `{background}`"] == cells(fit(points_of(rows, background, policy)))
