"""Disk to disk: one big file, verified and on the disk, against the machine's own limits and against others."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.lab.trees import BenchTree, big_file, clear
from fairlead_dev.bench.mover.peers.comparison import Runs, available, copy
from fairlead_dev.bench.mover.peers.copier import Copier
from fairlead_dev.bench.mover.peers.gridftp import Gridftp
from fairlead_dev.bench.mover.peers.mover import MoverCopier
from fairlead_dev.bench.mover.peers.rclone import Rclone
from fairlead_dev.bench.mover.peers.speed import DISK_WAYS, disk_bps, iperf
from fairlead_dev.bench.mover.peers.xrootd import Xrootd
from fairlead_dev.bench.rows import Row, not_available, rounded
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import veth

STREAMS = 4
COPY_LIMIT_S = 120
GBPS = 1e9


def measure(bench: MoverLab) -> list[Row]:
    """disk_4gib, disk_vs_… and the processor time per gigabyte."""
    others: list[Copier] = [Rclone(STREAMS), Xrootd(STREAMS, 4), Gridftp(STREAMS, 4)]
    mover = MoverCopier(bench.mover)
    ready, absent = available(others)
    tree = big_file(bench.scratch / "big", bench.pick(4 << 30, 1 << 30))
    runs = {copier.name: Runs() for copier in [mover, *ready]}
    disk: dict[str, list[float]] = {way: [] for way in DISK_WAYS}
    wire: list[float] = []
    with veth() as net:
        for _ in range(bench.pick(3, 1)):
            clear(bench.scratch / "destination")
            for way, speed_bps in disk_bps(tree.path / "big", bench.scratch / "destination" / "reference").items():
                disk[way].append(speed_bps / GBPS)
            with iperf(net, bench.scratch) as reference:
                wire.append(reference.send(STREAMS, tree.total_bytes)[0] / GBPS)
            bench.report(f"disk {disk['cached'][-1]:.2f} cached, {disk['direct'][-1]:.2f} direct, wire {wire[-1]:.2f} Gb/s")
            for copier in [mover, *(other for other in ready if not runs[other.name].suffices)]:
                done = runs[copier.name]
                copy(copier, net, tree, bench.scratch, done, limit_s=COPY_LIMIT_S)
                if not done.all_finished:
                    raise LabError(f"{copier.name} did not copy {tree.total_bytes} bytes within {COPY_LIMIT_S} s")
                bench.report(f"{copier.name}: {done.copied[-1].wall_s:.2f} s, on the disk after {done.durable_s[-1]:.2f} s")
    return [
        _limits(tree, runs["mover"], disk, wire),
        *(_against(other, tree, runs, absent) for other in others),
        *_processor(tree, runs["mover"]),
    ]


def _gbps(tree: BenchTree, seconds: float) -> float:
    return tree.total_bytes * 8 / seconds / GBPS


def _limits(tree: BenchTree, mover: Runs, disk: dict[str, list[float]], wire: list[float]) -> Row:
    way = max(disk, key=lambda way: median(disk[way]))
    limits = {f"disk (dd, {way}, fsync, the same file)": median(disk[way]), "wire (iperf3)": median(wire)}
    slower = min(limits, key=limits.__getitem__)
    value, reference = _gbps(tree, mover.seconds), limits[slower]
    more = {"runs_s": rounded(mover.durable_s), "wire_gbps": rounded(wire), "bytes": tree.total_bytes}
    more |= {f"disk_{way}_gbps": rounded(speeds) for way, speeds in disk.items()}
    return Row("disk_4gib", round(value, 3), "Gb/s", round(reference, 3), round(value / reference, 3), f"against the {slower}", more)


def _against(other: Copier, tree: BenchTree, runs: Mapping[str, Runs], absent: Mapping[str, str]) -> Row:
    name = f"disk_vs_{other.name}"
    if other.name in absent:
        return not_available(name, "Gb/s", absent[other.name])
    mover, its = runs["mover"], runs[other.name]
    value, reference = _gbps(tree, mover.seconds), _gbps(tree, its.seconds)
    at_exit = its.exit_s / mover.exit_s
    note = f"{other.name} {other.version()}: {other.integrity}; both until on the disk, {at_exit:.2f} x if its own end counts, unsynced"
    more = {
        "ratio_at_exit": round(at_exit, 3),
        "reference_runs_s": rounded(its.durable_s),
        "reference_exit_s": rounded([c.wall_s for c in its.copied]),
    }
    return Row(name, round(value, 3), "Gb/s", round(reference, 3), round(value / reference, 3), note, more)


def _processor(tree: BenchTree, mover: Runs) -> list[Row]:
    size_gb = tree.total_bytes / 1e9
    rows = []
    for row, ends in (("send", [c.sender for c in mover.copied]), ("receive", [c.receiver for c in mover.copied])):
        used = [end.cpu_s / size_gb for end in ends if end is not None]
        rows.append(
            Row(f"cpu_s_per_gb_{row}", round(median(used), 3), "s/GB", note="disk to disk, TLS, block hashes", more={"runs": rounded(used)})
        )
    return rows
