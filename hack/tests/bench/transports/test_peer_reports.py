"""What the peers' own reports are read as."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fairlead_dev.bench.lab.rates import InterfaceSample
from fairlead_dev.bench.transports.reports import counted_bps, goodput_bps, iperf3_received, nuttcp_bps, payload_samples, uftp_bps
from fairlead_dev.errors import LabError

SIZE_BYTES = 100_000_000


def iperf3(received_bytes: int = SIZE_BYTES, seconds: float = 4.0, control: str = "cubic") -> str:
    received = {"bytes": received_bytes, "seconds": seconds, "bits_per_second": 1.0}
    sent = {"bytes": SIZE_BYTES, "seconds": 3.0, "bits_per_second": 2.0}
    return json.dumps({"end": {"sum_sent": sent, "sum_received": received, "sender_tcp_congestion": control}})


NUTTCP = "megabytes=95.3125 real_seconds=28.27 rate_Mbps=28.2827 tx_cpu=0 rx_cpu=0 rtt_ms=100.33\n"
UFTP = """Transfer status:
Host: 0x00000001       Status: Completed   time:   9.183 seconds
Total elapsed time: 10.000 seconds
Overall throughput: 21269.26 KB/s
"""


def test_iperf3_is_read_by_what_its_receiver_counted() -> None:
    assert iperf3_received(iperf3(received_bytes=90_000_000, seconds=4.0), "cubic") == (90_000_000, pytest.approx(1.8e8))


def test_nuttcp_uftp_and_our_own_programs_are_read_by_bytes_and_seconds() -> None:
    assert nuttcp_bps(NUTTCP, SIZE_BYTES) == pytest.approx(28.2827e6, rel=1e-3)
    assert uftp_bps(UFTP, SIZE_BYTES) == pytest.approx(8e7)
    assert counted_bps("s2n-quic", "ready\n100000000\n8.000000\n", SIZE_BYTES) == pytest.approx(1e8)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: iperf3_received(iperf3(received_bytes=0), "cubic"), "moved 0 of"),
        (lambda: iperf3_received(iperf3(seconds=0.0), "cubic"), "in 0.000 s"),
        (lambda: iperf3_received(iperf3(control="reno"), "cubic"), "under reno, not cubic"),
        (lambda: iperf3_received(json.dumps({"error": "unable to connect"}), "cubic"), "unable to connect"),
        (lambda: iperf3_received("", "cubic"), "iperf3 said"),
        (lambda: nuttcp_bps("nuttcp-t: Error: connect", SIZE_BYTES), "Error: connect"),
        (lambda: nuttcp_bps("megabytes=0.0 real_seconds=1.0", SIZE_BYTES), "moved 0 of"),
        (lambda: nuttcp_bps(NUTTCP, 2 * SIZE_BYTES), "of 200000000"),
        (lambda: uftp_bps("Announce timed out", SIZE_BYTES), "Announce timed out"),
        (lambda: counted_bps("s2n-quic", "ready\n", SIZE_BYTES), "s2n-quic said"),
        (lambda: counted_bps("s2n-quic", "ready\n0\n1.0\n", SIZE_BYTES), "moved 0 of"),
        (lambda: goodput_bps("libudt", SIZE_BYTES, 0.0, SIZE_BYTES), "in 0.000 s"),
    ],
)
def test_a_run_that_carried_nothing_is_an_error_that_says_so(read: Callable[[], object], said: str) -> None:
    with pytest.raises(LabError, match=said):
        read()


def test_payload_is_sampled_by_whole_lines() -> None:
    assert payload_samples("10.0 0\n10.1 5000\n10.2 90") == [InterfaceSample(10.0, 0), InterfaceSample(10.1, 5000)]
    assert payload_samples("10.0") == []
