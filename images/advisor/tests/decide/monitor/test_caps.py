import itertools

import pytest

from fairlead_advisor.decide.monitor.caps import CapRange, moved


def spanned(goodput_of: dict[float | None, float], *caps_bps: float | None) -> CapRange:
    """One after the other, with the goodput that the transfer has under each."""
    span = CapRange()
    for before_bps, after_bps in itertools.pairwise(caps_bps):
        span = moved(span, before_bps, after_bps, goodput_of[before_bps])
    return span


HELD = {None: 95e6, **{cap * 1e6: 0.95e6 * cap for cap in (40, 80, 84, 90, 92, 100, 110, 119, 200)}}
FREE = dict.fromkeys((None, 40e6, 80e6, 90e6, 100e6, 110e6, 200e6, 1e9), 30e6)


@pytest.mark.parametrize(
    ("goodput_of", "caps_bps", "wide"),
    [
        pytest.param(HELD, (100e6, 40e6), True, id="a cut"),
        pytest.param(HELD, (100e6, 200e6), True, id="a raise of a cap that held it"),
        pytest.param(HELD, (100e6, None), True, id="a cap that held it is lifted"),
        pytest.param(HELD, (None, 40e6), True, id="a cap well below what it has"),
        pytest.param(HELD, (None, 100e6), False, id="a cap of just what it has"),
        pytest.param(HELD, (200e6, 90e6, 100e6, 92e6), True, id="far down, and then about there"),
        pytest.param(HELD, (100e6, 110e6, 100e6, 92e6, 100e6), False, id="small changes to and fro"),
        pytest.param(HELD, (100e6, 119e6, 110e6, 100e6, 90e6, 84e6), True, id="small steps that add up"),
        pytest.param(FREE, (100e6, 40e6, 1e9, None, 80e6), False, id="a cap that never holds it"),
        pytest.param(HELD, (100e6, 0.0), True, id="nothing may flow any more"),
    ],
)
def test_only_a_cap_that_holds_the_transfer_and_moves_by_a_fifth_alters_what_it_sees(
    goodput_of: dict[float | None, float], caps_bps: tuple[float | None, ...], wide: bool
) -> None:
    assert spanned(goodput_of, *caps_bps).wide is wide


def test_a_scene_without_a_change_spans_nothing() -> None:
    assert CapRange().wide is False
