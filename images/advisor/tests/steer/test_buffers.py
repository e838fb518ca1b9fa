from collections.abc import Callable

import pytest

from fairlead_advisor.decide.loop.sending import REFUSED_S
from fairlead_advisor.decide.model import BufferLimits, Decision, TransportLimits
from fairlead_advisor.errors import TransportRefusedError
from tests.support.model_mover import Clock, ModelMover, Watched

MIB = 2**20
FIXED = TransportLimits(4, 4)
GRANTS = BufferLimits(automatic_bytes=4 * MIB, settable_bytes=64 * MIB)
USUAL = BufferLimits(automatic_bytes=4 * MIB, settable_bytes=212_992)


def flows(buffers: BufferLimits | None, path_bps: float = 4e9, held_back_ratio: float = 0.0) -> Callable[[ModelMover, Clock], None]:
    """Four streams with an RTT of 61 ms, each of which is bounded by its part of the path and by its buffer."""

    def prepare(mover: ModelMover, _clock: Clock) -> None:
        def goodput_bps(streams: int, _control: str) -> float:
            host = mover.buffers
            held = 1e12 if host is None else 2 * host.set_bytes if host.set_bytes else host.automatic_bytes
            return min(path_bps, streams * held * 8 / 0.061)

        mover.buffers, mover.goodput_bps, mover.held_back_ratio = buffers, goodput_bps, held_back_ratio

    return prepare


def asked(watched: Watched) -> list[int]:
    return [wanted.socket_buffer_bytes for _, wanted in watched.mover.patches if wanted.socket_buffer_bytes is not None]


def published(watched: Watched) -> Decision:
    assert watched.board.published is not None
    return watched.board.published.decision


def test_a_buffer_that_bounds_a_stream_is_raised_until_it_does_not_and_told(watch: Callable[..., Watched]) -> None:
    watched = watch(60, FIXED, prepare=flows(GRANTS, 20e9))
    sizes = asked(watched)
    # Twice what was in flight each time, of which the kernel then keeps twice as much.
    assert sizes == [pytest.approx(8 * MIB, rel=0.01), pytest.approx(32 * MIB, rel=0.01), 64 * MIB]
    assert 2 * sizes[-1] > 5e9 / 8 * 0.061, "more than what is in flight of one stream"
    assert published(watched).socket_buffer_bytes == sizes[-1]
    assert "of send buffer a stream, as the kernel stops at 4.0 MiB by itself" in published(watched).message
    assert [entry["to"] for entry in watched.entries("buffer")] == sizes
    assert watched.board.published is not None and watched.board.published.changes[0].what == "socket_buffer_bytes"


@pytest.mark.parametrize(
    ("buffers", "path_bps"),
    [
        pytest.param(GRANTS, 100e6, id="the kernel's growth reaches"),
        pytest.param(USUAL, 4e9, id="the host grants less by asking"),
        pytest.param(BufferLimits(4 * MIB, 64 * MIB, 2 * MIB, set_by_user=True), 4e9, id="the user's choice"),
        pytest.param(None, 4e9, id="a mover that keeps its buffers"),
    ],
)
def test_nothing_is_asked_where_that_is_of_no_use(watch: Callable[..., Watched], buffers: BufferLimits | None, path_bps: float) -> None:
    assert asked(watch(60, FIXED, prepare=flows(buffers, path_bps))) == []


@pytest.mark.parametrize(("ratio", "tells"), [(0.4, True), (0.02, False)])
def test_a_host_that_grants_too_little_is_told_once_when_it_is_seen_to_hold_back(
    watch: Callable[..., Watched], caplog: pytest.LogCaptureFixture, ratio: float, tells: bool
) -> None:
    watched = watch(60, FIXED, prepare=flows(USUAL, held_back_ratio=ratio))
    complaint = "raise net.ipv4.tcp_wmem and net.core.wmem_max on the sending node"
    assert (complaint in published(watched).message) is tells
    assert sum(complaint in record.getMessage() and record.levelname == "WARNING" for record in caplog.records) == int(tells)
    (end,) = watched.entries("end")
    assert (end["send_buffer_limited_ratio"], end["receive_window_limited_ratio"]) == (pytest.approx(ratio, abs=0.001), 0.0)


def test_a_refused_size_is_not_asked_for_again_soon(watch: Callable[..., Watched]) -> None:
    def prepare(mover: ModelMover, clock: Clock) -> None:
        flows(GRANTS)(mover, clock)
        mover.refusal = TransportRefusedError("socket_buffer_bytes", "OutOfRange", "no")

    watched = watch(REFUSED_S, FIXED, prepare=prepare)
    assert len(asked(watched)) == 1
    assert published(watched).socket_buffer_bytes is None
