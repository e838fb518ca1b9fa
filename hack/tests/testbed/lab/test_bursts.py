import pytest

from fairlead_dev.testbed.lab.namespaces import burst_packets


@pytest.mark.parametrize(
    ("rate_bps", "packets"), [(1_000_000, 1), (80_000_000, 1), (120_000_000, 2), (500_000_000, 8), (1_000_000_000, 16)]
)
def test_a_sender_hands_on_single_packets_or_what_a_fast_path_carries_in_a_fifth_of_a_millisecond(rate_bps: int, packets: int) -> None:
    assert burst_packets(rate_bps) == packets
