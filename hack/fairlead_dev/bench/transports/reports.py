"""What the peers say of a transfer. Pure; a report that shows no transfer raises LabError."""

from __future__ import annotations

import json
import re

from fairlead_dev.bench.lab.rates import InterfaceSample
from fairlead_dev.errors import LabError

ALL = 0.99
"""Part of the bytes asked for that must have arrived by a report, which may be rounded."""
_NUTTCP = re.compile(r"\b(megabytes|real_seconds)=([\d.]+)")
_UFTP = re.compile(r"^Total elapsed time: ([\d.]+) seconds", re.MULTILINE)


def goodput_bps(name: str, moved_bytes: float, seconds: float, size_bytes: int) -> float:
    """Payload in bit/s; the peer was asked to move `size_bytes`."""
    if seconds <= 0 or moved_bytes < ALL * size_bytes:
        raise LabError(f"{name} moved {moved_bytes:.0f} of {size_bytes} bytes in {seconds:.3f} s")
    return moved_bytes * 8 / seconds


def iperf3_received(text: str, control: str) -> tuple[int, float]:
    """Bytes that arrived, and in bit/s, by the receiver's count in the client's JSON; the congestion control is read back."""
    try:
        report = json.loads(text)
    except ValueError:
        raise LabError(f"iperf3 said: {text[-200:]}") from None
    if "error" in report:
        raise LabError(f"iperf3 failed: {report['error']}")
    used = report["end"].get("sender_tcp_congestion")
    if used != control:
        raise LabError(f"iperf3 sent under {used}, not {control}")
    received = report["end"]["sum_received"]
    return int(received["bytes"]), goodput_bps("iperf3", received["bytes"], received["seconds"], 1)


def nuttcp_bps(text: str, size_bytes: int) -> float:
    """What arrived, by the line of the client's `-fparse`."""
    found = {name: float(figure) for name, figure in _NUTTCP.findall(text)}
    if len(found) != 2:
        raise LabError(f"nuttcp said: {text[-200:]}")
    return goodput_bps("nuttcp", found["megabytes"] * (1 << 20), found["real_seconds"], size_bytes)


def uftp_bps(text: str, size_bytes: int) -> float:
    """A file's bytes over the time until its receiver said that it had it whole, by the sender's log."""
    found = _UFTP.search(text)
    if found is None:
        raise LabError(f"uftp said: {text[-400:]}")
    return goodput_bps("uftp", size_bytes, float(found.group(1)), size_bytes)


def counted_bps(name: str, text: str, size_bytes: int) -> float:
    """What a program of ours over a peer's library prints last: the bytes that came, and the seconds from the first to the last."""
    words = text.split()
    try:
        return goodput_bps(name, int(words[-2]), float(words[-1]), size_bytes)
    except (IndexError, ValueError):
        raise LabError(f"{name} said: {text[-200:]}") from None


def payload_samples(text: str) -> list[InterfaceSample]:
    """Lines of `monotonic seconds, bytes`; a last line that is not whole is left out."""
    whole = text[: text.rfind("\n") + 1]
    return [InterfaceSample(float(moment), int(came)) for moment, came in (line.split() for line in whole.splitlines())]
