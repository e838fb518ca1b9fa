import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_advisor.features.series import GRID_HZ, Window, consecutive_windows
from fairlead_advisor.features.vector import NAMES, VERSION, extract, queue_range_ms
from fairlead_advisor.models.answer import CLASSES
from tests.support.background import caricature, shape, window


def named(found: Window) -> dict[str, float]:
    return dict(zip(NAMES, extract(found).tolist(), strict=True))


def first(class_name: str, **options: float) -> Window:
    return next(consecutive_windows(caricature(class_name, **options), options.get("seconds", 10.0)))


def test_the_names_of_a_version_are_distinct_and_stay() -> None:
    assert (VERSION, len(NAMES), len(set(NAMES))) == (2, 128, 128)


WINDOWS = st.tuples(
    st.sampled_from([5.0, 10.0, 33.0]),
    st.sampled_from([10.0, 20.0, 50.0]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-3, 1.0, 300.0, 1e7]),
    st.sampled_from(["constant", "noise", "two levels", "ramp", "spike"]),
    st.floats(0, 0.4),
)


@given(WINDOWS)
@settings(max_examples=60)
def test_any_window_gives_finite_features(case: tuple[float, float, int, float, str, float]) -> None:
    seconds, rate_hz, seed, scale_ms, kind, loss = case
    chance = np.random.default_rng(seed)
    count = round(seconds * rate_hz)
    values = {
        "constant": np.zeros(count),
        "noise": chance.exponential(1, count),
        "two levels": chance.integers(0, 2, count).astype(float),
        "ramp": np.arange(count) / count,
        "spike": np.where(np.arange(count) == count // 2, 1e3, 0.0),
    }[kind]
    rtts_ms = scale_ms * (1 + values)
    rtts_ms[chance.random(count) < loss] = np.nan
    rtts_ms[:10] = scale_ms
    features = extract(Window(np.arange(count) / rate_hz, rtts_ms, seconds))
    assert features.dtype == np.float32 and features.shape == (len(NAMES),)
    assert np.isfinite(features).all()


@pytest.mark.parametrize("class_name", CLASSES)
def test_the_clock_of_the_sender_does_not_matter(class_name: str) -> None:
    found = first(class_name)
    # A power of two and times of a fine binary grid, so that adding it is exact.
    times_s = np.round(found.send_times_s * 1024) / 1024
    before, after = (extract(Window(start + times_s, found.rtts_ms, found.seconds)) for start in (0.0, 4096.0))
    np.testing.assert_array_equal(before, after)


def test_levels_do_not_depend_on_the_size_of_the_queue_but_its_scale_is_told() -> None:
    values = 50 + 10 * shape("B0-C1", np.arange(200) / 20, 0.05)
    small, large = named(window(values)), named(window(50 + 3 * (values - 50)))
    assert large["level_p50"] == pytest.approx(small["level_p50"], abs=1e-6)
    assert large["correlation_1s"] == pytest.approx(small["correlation_1s"], abs=1e-6)
    assert large["log_spread_ms"] == pytest.approx(small["log_spread_ms"] + np.log10(3), abs=1e-6)


def test_bbrs_cycle_of_eight_round_trips_is_seen_on_paths_of_different_length() -> None:
    for base_ms in (60.0, 120.0, 200.0):
        bbr, cubic = (named(first(name, seconds=20.0, base_ms=base_ms)) for name in ("B1-C0", "B0-C1"))
        assert bbr["cycle_contrast_base"] > 0.5 > cubic["cycle_contrast_base"] + 0.3
        assert bbr["cycle_line_base"] > 0.5


def test_falls_are_counted_and_their_spacing_is_told() -> None:
    saw = named(first("C1-C1", seconds=20.0))
    assert saw["falls_per_s"] == pytest.approx(1 / 1.3, rel=0.1)
    assert 10 ** saw["fall_gap_log_s"] == pytest.approx(1.3, rel=0.1)
    assert saw["fall_over_rise"] > 0.2
    assert named(window(np.full(200, 50.0)))["falls_per_s"] == 0


def test_a_short_dip_to_an_empty_queue_is_found() -> None:
    levels = np.ones(200)
    levels[90:95] = 0
    dip = named(window(50 + 50 * levels))
    assert (dip["dips"], dip["dip_s"]) == (1, pytest.approx(0.25, abs=1 / GRID_HZ))
    levels[60:140] = 0
    assert named(window(50 + 50 * levels))["dips"] == 0


def test_losses_are_told() -> None:
    values = 50 + shape("B0-C1", np.arange(200) / 20, 0.05)
    values[[20, 21, 100, 150]] = np.nan
    told = named(window(values))
    assert told["loss_ratio"] == pytest.approx(0.02)
    assert told["loss_events_per_s"] == pytest.approx(0.3)
    assert told["loss_longest"] == pytest.approx(0.01)
    assert named(window(np.nan_to_num(values, nan=50)))["loss_ratio"] == 0


def test_a_faster_probe_gives_nearly_the_same_features() -> None:
    slow, fast = (named(first("B0-C1", rate_hz=rate_hz, seed=3)) for rate_hz in (20.0, 60.0))
    for name in ("log_spread_ms", "level_mean", "correlation_1s", "step_1s_std", "spectral_centroid_log_hz"):
        assert fast[name] == pytest.approx(slow[name], abs=0.15), name


@pytest.mark.parametrize(
    ("rise_ms", "range_ms"),
    [
        pytest.param(0.0, 0.0, id="no queue"),
        pytest.param(0.1, 0.094, id="less than clocks can tell"),
        pytest.param(1.0, 0.94, id="a packet or two"),
        pytest.param(50.0, 47.0, id="a deep buffer"),
    ],
)
def test_the_range_of_a_queue_is_from_its_1st_to_its_95th_percentile(rise_ms: float, range_ms: float) -> None:
    times_s = np.arange(300) / GRID_HZ
    ramp = Window(times_s, 20 + rise_ms * times_s / times_s[-1], 10.0)
    assert queue_range_ms(extract(ramp)[None]) == pytest.approx(range_ms, rel=0.02, abs=1e-3)
