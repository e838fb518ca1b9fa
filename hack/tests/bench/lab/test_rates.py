from __future__ import annotations

import pytest

from fairlead_dev.bench.lab.rates import InterfaceSample, excess_and_lack, first_data_s, parse, percentile, settled_s, windows


def steady(rate_bps: float, seconds: float, *, start_s: float = 0.0, start_bytes: int = 0, step_s: float = 0.005) -> list[InterfaceSample]:
    count = round(seconds / step_s)
    return [InterfaceSample(start_s + n * step_s, start_bytes + int(n * step_s * rate_bps / 8)) for n in range(count + 1)]


def test_link_headers_and_a_torn_last_line_do_not_count() -> None:
    assert parse("1.5 1028 2\n1.6 2056 4\n1.7 30") == [InterfaceSample(1.5, 1000), InterfaceSample(1.6, 2000)]


def test_the_first_data_is_what_exceeds_the_handshakes() -> None:
    samples = [InterfaceSample(0.0, 500), InterfaceSample(1.0, 900), InterfaceSample(2.0, 2500)]
    assert first_data_s(samples, 1000) == 2.0
    assert first_data_s(samples, 5000) is None


def test_every_window_of_a_steady_flow_has_its_rate() -> None:
    found = list(windows(steady(8e6, 3), 1.0, 0.05, 0.0, 3.0))
    assert len(found) == 41
    assert all(rate == pytest.approx(8e6, rel=1e-3) for _, rate in found)


def test_a_burst_shows_in_the_windows_that_hold_it_and_no_others() -> None:
    samples = [InterfaceSample(0, 0), InterfaceSample(2, 2000), InterfaceSample(2.01, 3000), InterfaceSample(4, 5000)]
    rates = dict(windows(samples, 1.0, 0.5, 0.0, 4.0))
    assert rates[0.0] == pytest.approx(8000)
    assert rates[1.5] > 15000
    assert rates[3.0] == pytest.approx(8 * 2000 / 1.99, rel=1e-3)


def test_errors_have_the_sign_of_what_is_too_much() -> None:
    assert excess_and_lack([110.0, 90.0], 100) == pytest.approx([0.1, -0.1])


def change(at_s: float) -> list[InterfaceSample]:
    before = steady(1e8, at_s)
    return before + steady(5e8, 3, start_s=at_s, start_bytes=before[-1].ip_bytes)[1:]


@pytest.mark.parametrize("delay_s", [0.0, 0.3, 1.5])
def test_a_change_counts_from_the_file_to_the_window_that_has_the_new_rate(delay_s: float) -> None:
    found = settled_s(change(2.0 + delay_s), 2.0, 1e8, 5e8, window_s=0.1, limit_s=2.5)
    assert found is not None
    assert delay_s <= found <= delay_s + 0.1


def test_a_rate_that_falls_back_has_not_settled() -> None:
    up = change(2.0)
    down = up + steady(1e8, 1, start_s=up[-1].time_s, start_bytes=up[-1].ip_bytes)[1:]
    assert settled_s(down, 2.0, 1e8, 5e8, window_s=0.1, limit_s=3.8) is None


def test_a_change_that_never_came_has_not_settled() -> None:
    assert settled_s(steady(1e8, 5), 2.0, 1e8, 5e8, window_s=0.1, limit_s=2.5) is None


@pytest.mark.parametrize(
    ("values", "share", "expected"), [([3.0], 0.99, 3.0), ([float(n) for n in range(100)], 0.99, 99.0), ([1.0, 9.0, 5.0], 0.5, 5.0)]
)
def test_percentiles_are_values_that_occurred(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected
