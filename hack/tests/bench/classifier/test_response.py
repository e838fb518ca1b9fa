import numpy as np
import pytest

from fairlead_advisor.features.vector import NAMES
from fairlead_dev.bench.classifier.active.response import PACKET_BYTES, Probed, Sent, describe, in_packets, of_push, path_rate_bps

PACKETS = 40


def train(rate_bps: float, queue_ms: float = 10.0, rtt_ms: float = 40.0) -> Sent:
    """All sent at once behind a queue, and served one by one."""
    waits_ms = queue_ms + (1 + np.arange(PACKETS)) * PACKET_BYTES * 8 / rate_bps * 1000
    return Sent(None, np.full(PACKETS, 20.2, dtype=np.float64), np.asarray(rtt_ms + waits_ms, dtype=np.float64))


def probed(level_ms: object) -> Probed:
    times_s = np.arange(0, 30, 0.02)
    return Probed(times_s, np.array([level_ms(time_s) for time_s in times_s]))  # type: ignore[operator]


def push(rate_bps: float, top_ms: float, lost: int = 0) -> Sent:
    rtts_ms = np.full(100, top_ms)
    rtts_ms[:lost] = np.nan
    return Sent(rate_bps, np.linspace(21.5, 21.5396, 100), rtts_ms)


@pytest.mark.parametrize("rate_bps", [5e6, 20e6, 80e6])
def test_a_train_tells_the_rate_whatever_stood_before_it_in_the_queue(rate_bps: float) -> None:
    trains = [train(rate_bps, queue_ms) for queue_ms in (0.0, 10.0, 300.0)]
    assert path_rate_bps(trains) == pytest.approx(rate_bps)


def test_a_train_whose_end_was_lost_tells_it_too_and_one_that_hardly_arrived_tells_nothing() -> None:
    cut, gone = train(20e6), train(20e6)
    cut.rtts_ms[20:] = np.nan
    gone.rtts_ms[3:] = np.nan
    assert path_rate_bps([cut]) == pytest.approx(20e6)
    assert np.isnan(path_rate_bps([gone]))


def test_a_queue_that_falls_by_three_tenths_after_a_push_is_seen_and_one_that_stays_is_not() -> None:
    yields = of_push(probed(lambda time_s: 100.0 if time_s < 21.7 else 70.0), push(20e6, 110.0, lost=25), base_ms=50.0)
    stays = of_push(probed(lambda _time_s: 100.0), push(20e6, 110.0), base_ms=50.0)
    for key in ("after_2rtt", "after_0.6s", "lowest"):
        assert yields[key] == pytest.approx(-0.3)
        assert stays[key] == pytest.approx(0.0)
    assert (yields["lost"], stays["lost"]) == (0.25, 0.0)
    assert yields["rise"] == pytest.approx(0.1)
    assert yields["queue_before"] == pytest.approx(1.0)


def test_all_that_bursts_show_is_finite_and_has_the_same_names_even_if_nothing_came_back() -> None:
    bursts = [train(20e6), push(20e6, 110.0), push(5e6, 80.0)]
    lost = [Sent(burst.rate_bps, burst.send_times_s, np.full(len(burst.rtts_ms), np.nan)) for burst in bursts]
    found = [describe(probed(lambda _time_s: 60.0), of) for of in (bursts, lost)]
    assert list(found[0]) == list(found[1])
    assert all(np.isfinite(list(one.values())).all() for one in found)


def test_four_times_the_rate_is_four_times_the_window_and_takes_cubic_longer_to_return_to() -> None:
    features = np.zeros(len(NAMES), dtype=np.float32)
    features[NAMES.index("log_spread_ms")] = 2.0
    features[NAMES.index("log_spread_over_base")] = 0.0
    slow, fast = in_packets(features, 10.0, 10e6), in_packets(features, 10.0, 40e6)
    assert 10 ** slow["log_window"] == pytest.approx(10e6 / 12000 * 0.2)
    assert fast["log_window"] - slow["log_window"] == pytest.approx(np.log10(4))
    assert fast["log_return_s"] - slow["log_return_s"] == pytest.approx(np.log10(4) / 3)
