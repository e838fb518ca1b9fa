"""What the bench of several paths makes of its samples."""

from pathlib import Path

import pytest

from fairlead_dev.bench.placement.multi import PathGoodputs, longest_pause_s, recovery_s, rows_of, wrong_bytes

RATE_BPS = 80.0
"""Ten bytes a second."""


def _samples(*rates: int) -> list[tuple[float, int]]:
    """So many bytes in each tenth of a second."""
    moved, samples = 0, [(0.0, 0)]
    for number, rate in enumerate(rates, start=1):
        moved += rate
        samples.append((number / 10, moved))
    return samples


@pytest.mark.parametrize(
    ("rates", "recovery", "pause"),
    [
        pytest.param([1] * 20, 0.0, 0.1, id="nothing is missed"),
        pytest.param([1] * 5 + [0] * 8 + [1] * 10, 0.8, 0.9, id="a pause"),
        pytest.param([1] * 5 + [0] * 8, 0.8, 0.0, id="never again"),
    ],
)
def test_a_cut_costs_the_time_until_the_rate_is_back_and_the_longest_pause(rates: list[int], recovery: float, pause: float) -> None:
    samples = _samples(*rates)
    assert recovery_s(samples, 0.5, RATE_BPS) == pytest.approx(recovery)
    assert longest_pause_s(samples, 0.5) == pytest.approx(pause)


def test_wrong_missing_and_additional_bytes_count(tmp_path: Path) -> None:
    source, arrived = tmp_path / "source", tmp_path / "arrived"
    for folder in (source, arrived):
        folder.mkdir()
    (source / "same").write_bytes(b"abc")
    (arrived / "same").write_bytes(b"abc")
    assert wrong_bytes(source, arrived) == 0
    (source / "other").write_bytes(b"abc")
    (arrived / "other").write_bytes(b"aXcd")
    (source / "missing").write_bytes(b"ab")
    assert wrong_bytes(source, arrived) == 4


def test_both_paths_are_set_beside_one_and_beside_mptcp_where_there_is_one() -> None:
    figures = PathGoodputs(alone=[[90e6], [100e6]], both=[170e6, 190e6, 180e6], mptcp=[150e6], beside_mptcp=[180e6])
    both, beside = rows_of("multi_equal", figures, [95e6] * 3)
    assert (both.value, both.ratio, beside.ratio) == (180.0, 1.895, 1.2)
    figures.mptcp, figures.no_mptcp = [], "mptcpize is missing"
    assert rows_of("multi_equal", figures, [95e6] * 3)[1].note == "not available: mptcpize is missing"


def test_a_round_in_which_the_machine_was_busy_is_compared_with_itself() -> None:
    figures = PathGoodputs(both=[190e6, 95e6, 95e6], mptcp=[180e6, 90e6, 180e6], beside_mptcp=[190e6, 95e6, 190e6])
    both, beside = rows_of("multi_equal", figures, [100e6, 50e6, 50e6])
    assert both.ratio == 1.9
    assert beside.ratio == 1.056
