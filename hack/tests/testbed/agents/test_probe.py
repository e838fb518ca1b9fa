import pytest

from fairlead_dev.testbed.agents.probe import chunks_of
from fairlead_dev.testbed.scenario.model import BURST_PACKET_BYTES, Burst


def test_a_train_is_handed_on_at_once_in_as_few_calls_as_a_socket_takes() -> None:
    assert chunks_of(Burst(start_s=2, packets=40)) == [(2_000_000_000, 40)]
    assert chunks_of(Burst(start_s=0, packets=120)) == [(0, 50), (0, 50), (0, 20)]


@pytest.mark.parametrize("rate_bps", [100_000, 1_000_000, 5_000_000, 50_000_000])
def test_a_burst_with_a_rate_is_spread_over_its_time(rate_bps: int) -> None:
    burst = Burst(start_s=1, packets=300, rate_bps=rate_bps)
    chunks = chunks_of(burst)
    assert sum(count for _, count in chunks) == 300
    sent = 0
    for due_ns, count in chunks:
        fair = (due_ns / 1e9 - 1) * rate_bps / 8 / BURST_PACKET_BYTES
        assert fair - 1 <= sent <= fair + 1
        sent += count
    assert chunks[-1][0] / 1e9 <= 1 + burst.seconds
