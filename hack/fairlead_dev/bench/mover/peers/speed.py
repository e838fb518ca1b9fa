"""What the mover's speed is held against: iperf3 for the wire, openssl for the cipher, dd for the disk."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from fairlead_dev.bench.lab.servers import IPERF_PORT, await_listening
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, ProcessUsage, run, running

RECORD_BYTES = 16 << 10
"""The largest TLS record."""
LIMIT_S = 60
CIPHERS = {0x1301: "aes-128-gcm", 0x1302: "aes-256-gcm", 0x1303: "chacha20-poly1305"}
"""TLS 1.3's suites (RFC 8446, appendix B.4) by openssl's name for their cipher."""


class Iperf:
    """An iperf3 server at the receiver."""

    def __init__(self, net: Net, scratch: Path) -> None:
        self._net, self._scratch = net, scratch

    def send(self, streams: int, size_bytes: int) -> tuple[float, ProcessUsage]:
        """Bits of payload a second that arrived, and the client's use of the machine."""
        result = self._scratch / "iperf.json"
        result.unlink(missing_ok=True)
        what = ["-P", str(streams), "-n", str(size_bytes), "-C", "cubic", "-J"]
        client = Process(
            ["iperf3", "-c", self._net.receiver_address, "-p", str(IPERF_PORT), *what],
            log=self._scratch / "iperf.log",
            output=result,
            namespace=self._net.sender,
        )
        with running(client):
            usage = client.wait(LIMIT_S)
        answer = json.loads(result.read_text())
        if usage.exit_code != 0 or "error" in answer:
            raise LabError(f"iperf3 failed: {answer.get('error', usage.exit_code)}")
        return float(answer["end"]["sum_received"]["bits_per_second"]), usage


@contextlib.contextmanager
def iperf(net: Net, scratch: Path) -> Iterator[Iperf]:
    """A server for as long as the block."""
    server = Process(
        ["iperf3", "-s", "-B", net.receiver_address, "-p", str(IPERF_PORT)], log=scratch / "iperf-server.log", namespace=net.receiver
    )
    with running(server):
        await_listening(server, net.receiver, IPERF_PORT)
        yield Iperf(net, scratch)


def iperf_version() -> str:
    """By iperf3's own output."""
    found = re.search(r"iperf (\S+)", run(["iperf3", "--version"]))
    return found.group(1) if found else "unknown"


def cipher_bps(cipher: str, seconds: int) -> float:
    """Bits a second that one core encrypts in pieces of a TLS record."""
    output = run(["openssl", "speed", "-mr", "-evp", cipher, "-bytes", str(RECORD_BYTES), "-seconds", str(seconds)], timeout_s=LIMIT_S)
    return parse_speed(output) * 8


def parse_speed(output: str) -> float:
    """Bytes a second in the output of `openssl speed -mr`: `+F:22:AES-128-GCM:5963161600.00`."""
    found = re.search(r"^\+F:\d+:[^:]*:([0-9.]+)$", output, re.MULTILINE)
    if found is None:
        raise LabError(f"openssl speed said: {output.strip()[-200:]}")
    return float(found.group(1))


DISK_WAYS = {"cached": ["conv=fsync"], "direct": ["oflag=direct", "conv=fsync"]}
"""Ways of writing, as options of dd: through the page cache, and past it."""


def disk_bps(source: Path, target: Path) -> dict[str, float]:
    """Bits a second of copying a file from the page cache to the disk, fsync included, in each way; the copies are removed."""
    speeds = {}
    log = target.with_suffix(".log")
    for way, options in DISK_WAYS.items():
        try:
            copier = Process(["dd", f"if={source}", f"of={target}", "bs=4M", "status=none", *options], log=log)
            with running(copier):
                usage = copier.succeed(LIMIT_S)
            speeds[way] = target.stat().st_size * 8 / usage.wall_s
        finally:
            target.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
    return speeds
