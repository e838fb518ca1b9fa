"""Resident memory: with as many streams as there may be, and with a million files."""

from __future__ import annotations

from fairlead_dev.bench.lab.mover import FinishedTransfer, MoverLab
from fairlead_dev.bench.lab.trees import BenchTree, big_file, check, clear, small_files
from fairlead_dev.bench.rows import Row
from fairlead_dev.netlab.pair import veth

MIB = 1 << 20
STREAMS = 64
STREAMS_LIMIT_S = 180
FILES, FILE_BYTES = 1_000_000, 16
FILES_LIMIT_S = 600


def _transfer(bench: MoverLab, tree: BenchTree, limit_s: float, *options: str) -> FinishedTransfer:
    destination = bench.scratch / "destination"
    clear(destination)
    with veth() as net, bench.mover.transfer(net, bench.scratch, destination) as transfer:
        transfer.send(tree.path, *options)
        ends = transfer.finish(limit_s)
    check(tree, destination, content=True)
    return ends


def _row(name: str, ends: FinishedTransfer, note: str) -> Row:
    sender, receiver = (round(end.peak_rss_bytes / MIB, 1) for end in (ends.sender, ends.receiver))
    return Row(
        name,
        max(sender, receiver),
        "MiB",
        note=f"{note}: sender {sender}, receiver {receiver} (VmHWM)",
        more={"send": sender, "receive": receiver},
    )


def measure_streams(bench: MoverLab) -> list[Row]:
    """rss_64_streams: one big file, disk to disk, over 64 streams."""
    tree = big_file(bench.scratch / "big", bench.pick(4 << 30, 1 << 30))
    ends = _transfer(bench, tree, STREAMS_LIMIT_S, "--streams", str(STREAMS))
    return [_row("rss_64_streams", ends, f"{tree.total_bytes >> 20} MiB, disk to disk, TLS")]


def measure_files(bench: MoverLab) -> list[Row]:
    """rss_1m_files: a million files in a thousand folders."""
    tree = small_files(bench.scratch / "million", bench.pick(FILES, 50_000), FILE_BYTES)
    ends = _transfer(bench, tree, FILES_LIMIT_S)
    seconds = round(float(ends.verdict["seconds"]), 1)
    return [_row("rss_1m_files", ends, f"{tree.files} files of {FILE_BYTES} bytes in {seconds} s")]
