import asyncio
import math
import time
from collections.abc import Callable

import pytest

from fairlead_advisor.errors import ProbeError, UsageError
from fairlead_advisor.probe.schedule import Timetable
from fairlead_advisor.probe.socket import Clocks, EchoEndpoint, ProbeResult, probe, received_at_ns
from fairlead_advisor.probe.trace import Trace
from tests.support.command import PATIENCE_S
from tests.support.echo_server import KEY, OTHER_KEY, Answer, Behaviour, echo_server, prompt, reply_to, silent, standalone_echo

S = 1_000_000_000


async def probed(behaviour: Behaviour, rate_hz: float = 50, seconds: float = 1) -> ProbeResult:
    async with echo_server(behaviour) as server:
        result = await probe(EchoEndpoint("127.0.0.1", server.port), KEY, Timetable(rate_hz, seconds), Clocks())
    assert server.accounts_for(result.trace)
    return result


async def test_every_request_on_a_clean_path_becomes_a_sample_at_the_rate_asked() -> None:
    result = await probed(prompt)
    times_s = list(result.trace.send_times_s)
    assert len(times_s) + result.counters.skipped == 50
    assert len(result.trace.answered_rtts_ms()) == len(times_s)
    # The timetable is absolute: late requests do not make the later ones late, unless the machine paused and some were skipped.
    if not result.counters.skipped:
        assert min(time_s - 0.02 * index for index, time_s in enumerate(times_s[-10:], 40)) == pytest.approx(0, abs=0.05)


async def test_a_delay_of_the_path_is_what_the_samples_show() -> None:
    result = await probed(lambda _sequence, request: [Answer(reply_to(request), delay_s=0.4)])
    assert min(result.trace.answered_rtts_ms()) >= 400


async def test_losses_are_rows_without_a_sample() -> None:
    result = await probed(lambda sequence, request: [] if sequence % 5 == 0 else [Answer(reply_to(request))])
    for sequence, (_, rtt_ms) in enumerate(result.trace.rows()):
        assert (rtt_ms is None) == (sequence % 5 == 0)


async def test_foreign_and_duplicate_datagrams_are_counted_and_change_nothing() -> None:
    def noisy(_sequence: int, request: bytes) -> list[Answer]:
        garbage = [Answer(reply_to(request, OTHER_KEY)), Answer(request), Answer(b"x" * 1000)]
        return [*garbage, Answer(reply_to(request)), Answer(reply_to(request))]

    result = await probed(noisy)
    sent = len(result.trace)
    assert len(result.trace.answered_rtts_ms()) == sent
    assert result.counters.foreign == 3 * sent
    # The probe ends with the last sample: that one's duplicate may come too late to be seen.
    assert sent - 1 <= result.counters.duplicate <= sent


async def test_replies_out_of_order_find_their_requests() -> None:
    others: list[float] = []
    async with asyncio.timeout(PATIENCE_S):
        # A busy machine may hold up all replies of a probe.
        while min(others, default=math.inf) >= 100:
            result = await probed(lambda sequence, request: [Answer(reply_to(request), delay_s=0.1 if sequence % 2 == 0 else 0)])
            rtts_ms = [rtt_ms for _, rtt_ms in result.trace.rows()]
            delayed, others = ([rtt_ms for rtt_ms in rtts_ms[first::2] if rtt_ms is not None] for first in (0, 1))
            assert min(delayed) >= 100


async def test_a_late_reply_is_counted_and_its_row_stays_lost() -> None:
    first: list[tuple[float, bytes]] = []
    later = 0
    read = asyncio.Event()

    def answers(sequence: int, request: bytes) -> list[Answer]:
        nonlocal later
        now_s = asyncio.get_running_loop().time()
        if sequence == 0:
            first.append((now_s, request))
            return []
        later += now_s > first[0][0] + 2.2
        if later == 3:
            # Replies are read in order, and before the next request is sent.
            read.set()
        return [*([Answer(reply_to(first[0][1]))] if later == 1 else []), *prompt(sequence, request)]

    async def enough(_so_far: Callable[[], Trace]) -> bool:
        return await read.wait()

    async with echo_server(answers) as server:
        endpoint = EchoEndpoint("127.0.0.1", server.port)
        result = await asyncio.wait_for(probe(endpoint, KEY, Timetable(20, 600), Clocks(), enough), 240)
    rtts_ms = [rtt_ms for _, rtt_ms in result.trace.rows()]
    assert rtts_ms[0] is None
    assert any(rtt_ms is not None for rtt_ms in rtts_ms)
    assert result.counters.late >= 1


async def test_a_silent_peer_is_given_two_seconds_after_the_last_request() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    result = await probed(silent)
    assert loop.time() - started >= result.trace.send_times_s[-1] + 2
    assert result.trace.answered_rtts_ms() == []


async def test_a_port_where_nothing_listens_is_noticed() -> None:
    # An address of this test alone, so that nobody else listens on the port that is free again.
    async with echo_server() as server:
        port = server.port
    result = await probe(EchoEndpoint("127.0.0.3", port), KEY, Timetable(20, 1), Clocks())
    assert result.trace.answered_rtts_ms() == []
    assert result.counters.refused > 0


async def test_requests_leave_from_the_address_and_interface_asked_for() -> None:
    async with echo_server() as server:
        endpoint = EchoEndpoint("127.0.0.1", server.port, source_address="127.0.0.2", interface="lo")
        result = await probe(endpoint, KEY, Timetable(20, 1), Clocks())
    assert {address for address, _ in server.senders} == {"127.0.0.2"}
    assert result.trace.answered_rtts_ms()


@pytest.mark.parametrize(
    ("endpoint", "kind", "complaint"),
    [
        (EchoEndpoint("no such host", 1), UsageError, "cannot be resolved"),
        (EchoEndpoint("127.0.0.1", 1, interface="absent0"), UsageError, "--interface absent0"),
        (EchoEndpoint("127.0.0.1", 1, source_address="198.18.255.254"), ProbeError, "cannot send from 198.18.255.254"),
    ],
)
async def test_an_endpoint_that_cannot_be_used_is_refused(endpoint: EchoEndpoint, kind: type[Exception], complaint: str) -> None:
    with pytest.raises(kind, match=complaint):
        await probe(endpoint, KEY, Timetable(20, 1), Clocks())


async def test_cancelling_a_probe_ends_it_at_once() -> None:
    async with echo_server() as server:
        probing = asyncio.create_task(probe(EchoEndpoint("127.0.0.1", server.port), KEY, Timetable(20, 60), Clocks()))
        await server.asked.wait()
        probing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(probing, 240)


@pytest.mark.parametrize(
    ("kernel_ns", "expected_ns"),
    [
        pytest.param(None, 10 * S, id="no stamp: the time of reading"),
        pytest.param(99 * S + S // 2, 10 * S - S // 2, id="read half a second after it came"),
        pytest.param(100 * S, 10 * S, id="read as it came"),
        pytest.param(101 * S, 10 * S, id="the clock was set back"),
        pytest.param(42 * S, 10 * S, id="the clock was set forward"),
    ],
)
def test_the_kernels_stamp_tells_when_a_datagram_came(kernel_ns: int | None, expected_ns: int) -> None:
    assert received_at_ns(10 * S, 100 * S, kernel_ns) == expected_ns


def held_up_clocks(pauses_ns: list[int]) -> Clocks:
    """Clocks whose process is held up before each real-time reading, as long as `pauses_ns` says; each reading takes 100 ns."""
    now_ns = 0
    pauses = iter(pauses_ns)

    def monotonic_ns() -> int:
        nonlocal now_ns
        now_ns += 100
        return now_ns

    def realtime_ns() -> int:
        nonlocal now_ns
        now_ns += next(pauses) + 100
        return now_ns

    return Clocks(monotonic_ns, realtime_ns)


@pytest.mark.parametrize(
    "pauses_ns",
    [pytest.param([0], id="none"), pytest.param([S // 5, S // 5, 0], id="twice"), pytest.param([S // 5] * 5, id="every time")],
)
def test_a_process_held_up_between_two_clocks_does_not_make_a_datagram_seem_older(pauses_ns: list[int]) -> None:
    monotonic_ns, realtime_ns = held_up_clocks(pauses_ns).now_ns()
    assert 0 <= monotonic_ns - realtime_ns <= 100


async def test_a_reader_held_up_does_not_lengthen_the_samples() -> None:
    async def holding_the_loop_up() -> None:
        while True:
            time.sleep(0.2)  # noqa: ASYNC251 - holding the loop up is the point
            await asyncio.sleep(0)

    async with standalone_echo() as port:
        busy = asyncio.create_task(holding_the_loop_up())
        try:
            result = await probe(EchoEndpoint("127.0.0.1", port), KEY, Timetable(20, 3), Clocks())
        finally:
            busy.cancel()
    # None would be shorter than the loop is held up if it were the loop that reads. The others have what a busy machine adds.
    assert min(result.trace.answered_rtts_ms()) < 100


async def test_a_probe_ends_when_it_is_enough_and_has_what_was_answered_so_far() -> None:
    fifth = asyncio.Event()

    async def enough(so_far: Callable[[], Trace]) -> bool:
        await fifth.wait()
        return len(so_far()) >= 4

    def answers(sequence: int, request: bytes) -> list[Answer]:
        if sequence == 5:
            fifth.set()
        return prompt(sequence, request)

    async with echo_server(answers) as server:
        endpoint = EchoEndpoint("127.0.0.1", server.port)
        result = await asyncio.wait_for(probe(endpoint, KEY, Timetable(50, 600), Clocks(), enough), 240)
    assert 4 <= len(result.trace) == len(result.trace.answered_rtts_ms()) < 600


async def test_a_probe_that_is_never_enough_has_its_whole_length() -> None:
    async def never(_so_far: Callable[[], Trace]) -> bool:
        return False

    async with echo_server(prompt) as server:
        result = await probe(EchoEndpoint("127.0.0.1", server.port), KEY, Timetable(50, 1), Clocks(), never)
    assert len(result.trace) + result.counters.skipped == 50


async def test_what_goes_wrong_while_looking_ends_the_probe() -> None:
    async def wrong(_so_far: Callable[[], Trace]) -> bool:
        raise ProbeError("a reason")

    async with echo_server(prompt) as server:
        with pytest.raises(ProbeError, match="a reason"):
            await asyncio.wait_for(probe(EchoEndpoint("127.0.0.1", server.port), KEY, Timetable(50, 600), Clocks(), wrong), 240)
