"""Memory to memory over a veth pair: what the data connections alone can do, plain and encrypted."""

from __future__ import annotations

from statistics import median

from fairlead_dev.bench.lab.mover import HANDSHAKE, FinishedTransfer, MoverLab, start_script
from fairlead_dev.bench.mover.peers.speed import CIPHERS, cipher_bps, iperf, iperf_version
from fairlead_dev.bench.rows import Row, rounded
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.netlab.processes import running, wait_until

LIMIT_S = 60
GBPS = 1e9


def send(bench: MoverLab, net: Net, size_bytes: int, streams: int, encryption: str) -> FinishedTransfer:
    """Zeros into nothing. Raises LabError."""
    both = ("--encryption", encryption)
    with bench.mover.transfer(net, bench.scratch, "null", *both) as transfer:
        transfer.send(f"zero:{size_bytes}", "--streams", str(streams), *both)
        return transfer.finish(LIMIT_S)


def chosen_cipher(bench: MoverLab, net: Net) -> str:
    """The cipher that the mover's connections agree on, read off a server hello."""
    seen = bench.scratch / "suites"
    with running(start_script(HANDSHAKE, net.device, namespace=net.sender, output=seen)):
        wait_until(lambda: "ready" in seen.read_text(), "the tap on the handshake", 10)
        send(bench, net, 1 << 20, 1, "Required")
        wait_until(lambda: len(seen.read_text().split()) > 1, "a TLS server hello", 10)
        suites = {int(word) for word in seen.read_text().split()[1:]}
    if len(suites) != 1 or not suites <= CIPHERS.keys():
        raise LabError(f"the connections use the suites {sorted(suites)}, of which the bench knows {sorted(CIPHERS)}")
    return CIPHERS[suites.pop()]


def measure(bench: MoverLab) -> list[Row]:
    """memory_1, memory_4, memory_4_tls and the processor time of each."""
    plain_bytes, tls_bytes = bench.pick(12 << 30, 2 << 30), bench.pick(8 << 30, 2 << 30)
    wire: dict[int, list[float]] = {1: [], 4: []}
    plain: dict[int, list[FinishedTransfer]] = {1: [], 4: []}
    tls: list[FinishedTransfer] = []
    cipher_speeds: list[float] = []
    with veth() as net, iperf(net, bench.scratch) as reference:
        cipher = chosen_cipher(bench, net)
        for _ in range(bench.pick(5, 1)):
            for streams in (1, 4):
                wire[streams].append(reference.send(streams, plain_bytes)[0] / GBPS)
                plain[streams].append(send(bench, net, plain_bytes, streams, "None"))
                bench.report(f"{streams} streams: iperf3 {wire[streams][-1]:.1f}, mover {plain[streams][-1].bulk_bps / GBPS:.1f} Gb/s")
            cipher_speeds.append(cipher_bps(cipher, 1) / GBPS)
            tls.append(send(bench, net, tls_bytes, 4, "Required"))
            bench.report(f"TLS, 4 streams: {cipher} {cipher_speeds[-1]:.1f}, mover {tls[-1].bulk_bps / GBPS:.1f} Gb/s")
    iperf_name = f"iperf3 {iperf_version()}"
    rows = [_row(f"memory_{n}", plain[n], plain_bytes, wire[n], f"against {iperf_name} -P {n}, no TLS") for n in (1, 4)]
    note = f"against openssl speed {cipher} on one core, the suite that the connections agreed on"
    return [*rows, _row("memory_4_tls", tls, tls_bytes, cipher_speeds, note)]


def _row(name: str, runs: list[FinishedTransfer], size_bytes: int, references: list[float], note: str) -> Row:
    speeds = [ends.bulk_bps / GBPS for ends in runs]
    value, reference = median(speeds), median(references)
    size_gb = size_bytes / 1e9
    return Row(
        name,
        round(value, 3),
        "Gb/s",
        round(reference, 3),
        round(value / reference, 3),
        note,
        {
            "runs": rounded(speeds),
            "reference_runs": rounded(references),
            "cpu_s_per_gb_send": round(median([ends.sender.cpu_s / size_gb for ends in runs]), 3),
            "cpu_s_per_gb_receive": round(median([ends.receiver.cpu_s / size_gb for ends in runs]), 3),
        },
    )
