import pytest

from fairlead_advisor.decide.buffers import LARGEST_BYTES, SMALLEST_BYTES, choose, needed_before_data
from fairlead_advisor.decide.model import BufferLimits, History, PathMeasurement, TransportLimits

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
SILENT = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=None, samples=0)
MIB = 2**20


@pytest.mark.parametrize(
    ("path", "limits", "history", "streams", "expected"),
    [
        pytest.param(PATH, TransportLimits(), History(), 4, None, id="no rate is known"),
        pytest.param(SILENT, TransportLimits(cap_bps=1e9), History(), 4, None, id="no RTT is known"),
        pytest.param(PATH, TransportLimits(), History(capacity_bps=1e9), 4, 3_750_000, id="what the path carried, for each of four"),
        pytest.param(PATH, TransportLimits(cap_bps=100e6), History(capacity_bps=1e9), 1, 1_500_000, id="a cap"),
        pytest.param(PATH, TransportLimits(), History(capacity_bps=1e6), 4, SMALLEST_BYTES, id="hardly anything"),
        pytest.param(PATH, TransportLimits(), History(capacity_bps=1e12), 1, LARGEST_BYTES, id="a bound"),
    ],
)
def test_a_stream_needs_twice_its_part_of_the_path(
    path: PathMeasurement, limits: TransportLimits, history: History, streams: int, expected: int | None
) -> None:
    assert needed_before_data(path, limits, history, streams) == expected


@pytest.mark.parametrize(
    ("needed_mib", "host", "in_force_mib", "short", "told"),
    [
        pytest.param(None, BufferLimits(4 * MIB, 64 * MIB), None, False, "", id="nothing is known"),
        pytest.param(25, None, None, False, "", id="a mover that keeps its buffers"),
        pytest.param(4, BufferLimits(4 * MIB, 64 * MIB), None, False, "", id="the kernel's growth reaches"),
        pytest.param(25, BufferLimits(4 * MIB, 64 * MIB), 25, False, "25.0 MiB of send buffer a stream", id="only asking reaches"),
        pytest.param(25, BufferLimits(4 * MIB, 8 * MIB), 8, False, "8.0 MiB of send buffer", id="as much as may be asked for"),
        pytest.param(25, BufferLimits(4 * MIB, 2 * MIB), None, True, "raise net.ipv4.tcp_wmem", id="the kernel has more by itself"),
        pytest.param(25, BufferLimits(4 * MIB, 212_992), None, True, "gets 4.0 MiB", id="a usual host"),
        pytest.param(25, BufferLimits(64 * MIB, 64 * MIB), None, False, "", id="a tuned host"),
        pytest.param(8, BufferLimits(4 * MIB, 64 * MIB, set_bytes=16 * MIB), 16, False, "", id="never lowered"),
        pytest.param(50, BufferLimits(4 * MIB, 64 * MIB, set_bytes=16 * MIB), 50, False, "50.0 MiB", id="raised again"),
        pytest.param(50, BufferLimits(4 * MIB, 16 * MIB, set_bytes=16 * MIB), 16, True, "gets 32.0 MiB", id="at the host's end"),
        pytest.param(25, BufferLimits(4 * MIB, 64 * MIB, MIB, set_by_user=True), 1, True, "set by hand", id="the user's stays"),
        pytest.param(2, BufferLimits(4 * MIB, 64 * MIB, MIB, set_by_user=True), 1, False, "", id="the user's is enough"),
    ],
)
def test_the_kernel_keeps_the_buffer_unless_asking_gives_more(
    needed_mib: float | None, host: BufferLimits | None, in_force_mib: float | None, short: bool, told: str
) -> None:
    choice = choose(None if needed_mib is None else round(needed_mib * MIB), host)
    assert choice.in_force_bytes == (None if in_force_mib is None else in_force_mib * MIB)
    assert (choice.short, told in choice.message, bool(choice.message)) == (short, True, bool(told))


def test_a_choice_never_leaves_a_stream_with_less_than_the_kernel_would() -> None:
    for automatic in (0.25, 4, 64):
        for settable in (0.2, 2, 4, 64):
            for needed in (0.25, 1, 5, 40, 200):
                choice = choose(round(needed * MIB), BufferLimits(round(automatic * MIB), round(settable * MIB)))
                assert choice.in_force_bytes is None or 2 * choice.in_force_bytes > automatic * MIB
