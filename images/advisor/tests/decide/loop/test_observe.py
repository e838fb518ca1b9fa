from dataclasses import replace

import pytest

from fairlead_advisor.decide.loop.observe import StatsReading, observe, rtt_floor
from fairlead_advisor.decide.transfer import MoverStats, StreamStats


def stats(*streams: StreamStats) -> MoverStats:
    return MoverStats("Transferring", frozenset({"cubic"}), streams)


def stream(number: int, megabytes: float | None, retransmits: int = 0, rtt_s: float | None = None) -> StreamStats:
    return StreamStats(number, None if megabytes is None else round(megabytes * 1e6), retransmits, rtt_s, rtt_s)


@pytest.mark.parametrize(
    ("before", "after", "goodput_mbps"),
    [
        pytest.param([stream(0, 1), stream(1, 2)], [stream(0, 2), stream(1, 4)], 12.0, id="two streams"),
        pytest.param([stream(0, 1)], [stream(0, 1), stream(1, 0.5)], 2.0, id="a new stream"),
        pytest.param([stream(0, 9)], [stream(0, 0.5)], 2.0, id="a stream connected anew counts from zero"),
        pytest.param([stream(0, 1), stream(1, 8)], [stream(0, 2)], 4.0, id="a stream that ended"),
        pytest.param([stream(0, None)], [stream(0, None)], 0.0, id="nothing is known of the bytes"),
    ],
)
def test_the_goodput_is_what_all_streams_sent(before: list[StreamStats], after: list[StreamStats], goodput_mbps: float) -> None:
    seen = observe(StatsReading(10.0, stats(*before)), StatsReading(12.0, stats(*after)), [], None)
    assert seen.goodput_bps == pytest.approx(goodput_mbps * 1e6)
    assert (seen.seconds, seen.streams) == (2.0, len(after))


@pytest.mark.parametrize(
    ("then_s", "now_s", "goodput_mbps"),
    [
        pytest.param(40.0, 41.0, 8.0, id="by the mover's clock, as the first answer came late"),
        pytest.param(40.0, 1.0, 16.0, id="the mover was started anew"),
        pytest.param(None, 41.0, 16.0, id="the mover before gave no time"),
        pytest.param(40.0, None, 16.0, id="the mover gives no time"),
    ],
)
def test_the_goodput_is_over_the_time_between_the_readings(then_s: float | None, now_s: float | None, goodput_mbps: float) -> None:
    before = StatsReading(10.5, replace(stats(stream(0, 1)), read_at_s=then_s))
    after = StatsReading(11.0, replace(stats(stream(0, 2)), read_at_s=now_s))
    assert observe(before, after, [], None).goodput_bps == pytest.approx(goodput_mbps * 1e6)


def test_the_loss_is_the_retransmitted_share_of_segments() -> None:
    before, after = stats(stream(0, 0, retransmits=5)), stats(stream(0, 1.448, retransmits=15))
    assert observe(StatsReading(0.0, before), StatsReading(1.0, after), [], None).loss_ratio == pytest.approx(10 / 1010)


@pytest.mark.parametrize(
    ("rtts_ms", "floor_s", "socket_rtt_s", "busy_ratio"),
    [
        pytest.param([60.0, 60.5, 62.9, 100.0], 0.06, None, 0.25, id="a queue of more than a twentieth of the path"),
        pytest.param([1.0, 1.5, 2.5, 3.0], 0.001, None, 0.5, id="at least a millisecond"),
        pytest.param([], 0.06, 0.09, 1.0, id="without echo, the sockets' RTT"),
        pytest.param([60.0], 0.06, 0.09, 0.0, id="echo before sockets"),
        pytest.param([], 0.06, None, None, id="no RTT at all"),
        pytest.param([60.0], None, 0.09, None, id="no idea of the idle path"),
    ],
)
def test_a_busy_path_is_one_whose_queue_stands(
    rtts_ms: list[float], floor_s: float | None, socket_rtt_s: float | None, busy_ratio: float | None
) -> None:
    after = stats(stream(0, 1, rtt_s=socket_rtt_s))
    assert observe(StatsReading(0.0, stats(stream(0, 0))), StatsReading(1.0, after), rtts_ms, floor_s).busy_ratio == busy_ratio


@pytest.mark.parametrize(("cap_bps", "busy_ratio"), [(None, 0.0), (8e6, 1.0), (8.8e6, 1.0), (10e6, 0.0)])
def test_a_transfer_at_its_cap_has_nothing_to_gain(cap_bps: float | None, busy_ratio: float) -> None:
    before, after = (MoverStats("Transferring", frozenset(), (stream(0, sent),), cap_bps) for sent in (0, 1))
    assert observe(StatsReading(0.0, before), StatsReading(1.0, after), [60.0], 0.06).busy_ratio == busy_ratio


@pytest.mark.parametrize(
    ("own_ms", "echo_ms", "cap_bps", "paths", "waits_apart"),
    [
        pytest.param((66.0, 70.0), (60.5,) * 9 + (61.4,), None, 1, True, id="own packets wait, the echo does not"),
        pytest.param((66.0, 70.0), (60.5,) * 8 + (65.0,) * 2, None, 1, False, id="the echo waits now and then"),
        pytest.param((62.2,), (61.0,) * 10, None, 1, True, id="a short queue, and less than half of it for the echo"),
        pytest.param((62.2,), (61.2,) * 10, None, 1, False, id="a short queue, and more than half of it for the echo"),
        pytest.param((61.1,), (60.0,) * 10, None, 1, False, id="less than a fiftieth of the RTT"),
        pytest.param((90.0,), (67.0,) * 10, None, 1, True, id="a quarter of a long queue"),
        pytest.param((66.0, 70.0), (60.5,) * 4, None, 1, False, id="too few answers"),
        pytest.param((66.0, 70.0), (60.5,) * 10, 10e6, 1, False, id="near its cap packets wait in the sender"),
        pytest.param((66.0, 70.0), (60.5,) * 10, 20e6, 1, True, id="far below its cap"),
        pytest.param((66.0, 70.0), (60.5,) * 10, None, 2, False, id="several paths, and the echo of one"),
        pytest.param((None,), (60.5,) * 10, None, 1, False, id="no RTT of one's own"),
    ],
)
def test_where_own_packets_alone_wait_the_bottleneck_keeps_flows_apart(
    own_ms: tuple[float | None, ...], echo_ms: tuple[float, ...], cap_bps: float | None, paths: int, waits_apart: bool
) -> None:
    rtts_s = [None if rtt_ms is None else rtt_ms / 1000 for rtt_ms in own_ms]
    streams = tuple(replace(stream(number, 1 / len(rtts_s), rtt_s=rtt_s), path=number % paths) for number, rtt_s in enumerate(rtts_s))
    after = MoverStats("Transferring", frozenset(), streams, cap_bps)
    assert observe(StatsReading(0.0, stats()), StatsReading(1.0, after), echo_ms, 0.06).waits_apart is waits_apart


def test_two_answers_at_once_are_no_division_by_zero() -> None:
    sample = StatsReading(1.0, stats(stream(0, 1)))
    assert observe(sample, sample, [], None).goodput_bps == 0.0


def test_the_floor_is_the_least_that_anything_has_seen() -> None:
    sockets = stats(stream(0, 0, rtt_s=0.07), stream(1, 0, rtt_s=0.065), stream(2, 0))
    assert rtt_floor([None, 0.08], sockets.streams, [64.0, 90.0]) == pytest.approx(0.064)
    assert rtt_floor([None], (), []) is None
