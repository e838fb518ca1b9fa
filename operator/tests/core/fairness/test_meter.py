"""The rates that follow from a counter's readings, and what of a link's rate is others'."""

from __future__ import annotations

import pytest
from fairness_builders import M

from fairlead.core.fairness.meter import CounterReading, Meter

NOW = 1000.0


class TestMeter:
    @pytest.mark.parametrize(
        ("samples", "expected"),
        [
            ([], None),
            ([(990, 0)], None),
            ([(990, 0), (995, 5_000_000)], 8e6),
            ([(980, 0), (990, 0), (995, 5_000_000)], 8e6),
            ([(999, 0), (1000, 1_000_000)], None),
            ([(900, 0), (905, 5_000_000)], 8e6),
        ],
    )
    def test_the_rate_is_that_of_about_the_window(self, samples: list[tuple[float, int]], expected: float | None) -> None:
        assert Meter(tuple(CounterReading(at, count) for at, count in samples)).rate_bps(5.0) == expected

    def test_a_counter_that_is_read_rarely_has_the_rate_between_its_last_readings_and_keeps_them(self) -> None:
        meter = Meter()
        for minute in range(10):
            meter = meter.noted(NOW + 60 * minute, 600_000_000 * minute)
        assert (meter.rate_bps(4.0), meter.unhindered_bps(10.0), len(meter.samples)) == (80e6, 80e6, 4)

    def test_a_counter_that_is_read_all_the_time_is_stale_without_a_recent_reading(self) -> None:
        meter = Meter().noted(NOW - 60, 0).noted(NOW - 30, 1)
        assert (meter.is_stale(NOW), meter.is_stale(NOW - 20), Meter().is_stale(NOW)) == (True, False, True)

    @pytest.mark.parametrize(
        ("readings", "expected_mbps"),
        [([], 3), ([(990, 1_000_000)], 3), ([(990, 0), (1000, 10_000_000)], 3), ([(990, 0), (1100, 110_000_000)], 8)],
    )
    def test_since_its_last_reading_and_without_two_a_counter_grows_as_it_is_told(
        self, readings: list[tuple[float, int]], expected_mbps: float
    ) -> None:
        meter = Meter(tuple(CounterReading(at, count) for at, count in readings))
        assert meter.mean_bps(1050, 1060, unread_bps=3 * M) == pytest.approx(expected_mbps * M)

    def test_the_unhindered_rate_leaves_out_what_was_held_back_on_purpose(self) -> None:
        meter = Meter().noted(NOW - 6, 0).noted(NOW - 3, 3_000_000, quiet_seconds=0.0).noted(NOW, 3_000_000, quiet_seconds=3.0)
        assert (meter.rate_bps(5.0), meter.unhindered_bps(5.0)) == (4e6, 8e6)
        assert meter.unhindered_bps(2.0) is None, "nothing was to be sent"

    def test_a_counter_that_fell_begins_anew(self) -> None:
        meter = Meter().noted(990, 10**9).noted(995, 5).noted(998, 3_000_005)
        assert meter.rate_bps(5.0) == 8e6

    @pytest.mark.parametrize(
        ("begin", "end", "until", "expected_mbps"),
        [
            (990, 992, None, 8),
            (991, 997, None, 8 * (4 + 2 * 2) / 6),
            (998, 1000, None, 16),
            (1000, 1004, None, 16),
            (1000, 1004, 1001, 4),
            (1002, 1004, 1001, 0),
            (980, 990, None, 0.8),
        ],
    )
    def test_the_mean_of_any_span_follows_from_the_nearest_looks(
        self, begin: float, end: float, until: float | None, expected_mbps: float
    ) -> None:
        meter = Meter((CounterReading(990, 1_000_000), CounterReading(995, 6_000_000), CounterReading(1000, 16_000_000)))
        assert meter.mean_bps(begin, end, until) == pytest.approx(expected_mbps * M)

    def test_fewer_than_two_looks_tell_no_rate(self) -> None:
        assert Meter().mean_bps(990, 995) == Meter((CounterReading(990, 5),)).mean_bps(980, 995) == 0.0

    def test_a_look_at_the_same_moment_changes_nothing(self) -> None:
        meter = Meter().noted(990, 5)
        assert meter.noted(990, 7) == meter
