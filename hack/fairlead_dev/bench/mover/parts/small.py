"""Many small files, on a LAN and on a long path, against others and against one big file of the same total."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.lab.trees import BenchTree, big_file, small_files
from fairlead_dev.bench.mover.peers.comparison import Runs, available, copy
from fairlead_dev.bench.mover.peers.copier import Copier
from fairlead_dev.bench.mover.peers.gridftp import Gridftp
from fairlead_dev.bench.mover.peers.mover import MoverCopier
from fairlead_dev.bench.mover.peers.rclone import Rclone
from fairlead_dev.bench.mover.peers.xrootd import Xrootd
from fairlead_dev.bench.rows import Row, not_available, rounded
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.wan.emulator import emulated_pair

FILES, FILE_BYTES = 100_000, 4096
LAN_BPS = 1_000_000_000
WAN_RATE, WAN_ONE_WAY_DELAY = "500M", "50ms"
COPY_LIMIT_S = 240
SUBSET_FILES, SUBSET_LIMIT_S = 2000, 30
"""What others get on the long path: with a round trip or more a file, all files would take them hours."""


def _others(rclone: int, xrootd: int, gridftp: int) -> list[Copier]:
    """The others with as many files at a time as was best for each on that path, up to what they allow."""
    return [Rclone(rclone), Xrootd(1, xrootd), Gridftp(1, gridftp)]


def measure_lan(bench: MoverLab) -> list[Row]:
    """small_lan_vs_…, small_vs_big_lan, and the latter without the limit of a LAN."""
    tree = small_files(bench.scratch / "small", bench.pick(FILES, 10_000), FILE_BYTES)
    big = big_file(bench.scratch / "one", tree.total_bytes)
    others = _others(4, 4, 4)
    mover = MoverCopier(bench.mover)
    ready, absent = available(others)
    runs, one = {copier.name: Runs() for copier in [mover, *ready]}, Runs()
    with veth(rate_bps=LAN_BPS) as net:
        for _ in range(bench.pick(3, 1)):
            copy(mover, net, big, bench.scratch, one, limit_s=COPY_LIMIT_S)
            bench.report(f"mover, one file: {one.durable_s[-1]:.2f} s")
            for copier in [mover, *(other for other in ready if not runs[other.name].suffices)]:
                _copy_all(bench, copier, net, tree, runs[copier.name])
    rows = [_against("small_lan", other, runs, absent, what=f"{tree.files} files") for other in others]
    return [*rows, _against_one("small_vs_big_lan", runs["mover"], one, "on 1 Gb/s"), _unlimited(bench, tree, big)]


def _copy_all(bench: MoverLab, copier: Copier, net: Net, tree: BenchTree, runs: Runs) -> None:
    copy(copier, net, tree, bench.scratch, runs, limit_s=COPY_LIMIT_S)
    done = "" if runs.copied[-1].finished else f", cut off after {runs.files[-1]} files"
    bench.report(f"{copier.name}: {runs.durable_s[-1]:.2f} s{done}")


def _unlimited(bench: MoverLab, tree: BenchTree, big: BenchTree) -> Row:
    mover, runs, one = MoverCopier(bench.mover), Runs(), Runs()
    with veth() as net:
        for _ in range(bench.pick(3, 1)):
            copy(mover, net, big, bench.scratch, one, limit_s=COPY_LIMIT_S)
            copy(mover, net, tree, bench.scratch, runs, limit_s=COPY_LIMIT_S)
            bench.report(f"no limit of the wire: one file {one.durable_s[-1]:.2f} s, small files {runs.durable_s[-1]:.2f} s")
    return _against_one("small_vs_big_unlimited", runs, one, "on a veth pair without a limit")


def measure_wan(bench: MoverLab) -> list[Row]:
    """small_wan_vs_…: the mover moves all files, the others as many as they can in a bounded time."""
    tree = small_files(bench.scratch / "small", bench.pick(FILES, 10_000), FILE_BYTES)
    part = small_files(bench.scratch / "part", bench.pick(SUBSET_FILES, 300), FILE_BYTES)
    others = _others(64, 128, 64)
    mover = MoverCopier(bench.mover)
    ready, absent = available(others)
    runs, few = {copier.name: Runs() for copier in [mover, *ready]}, Runs()
    with emulated_pair(bench.emulator, bench.scratch, rate=WAN_RATE, one_way_delay=WAN_ONE_WAY_DELAY) as net:
        for repetition in range(bench.pick(3, 1)):
            _copy_all(bench, mover, net, tree, runs["mover"])
            if repetition == 0:
                copy(mover, net, part, bench.scratch, few, limit_s=COPY_LIMIT_S)
            for other in ready:
                copy(other, net, part, bench.scratch, runs[other.name], limit_s=bench.pick(SUBSET_LIMIT_S, 10))
                bench.report(f"{other.name}: {runs[other.name].files[-1]} files in {runs[other.name].durable_s[-1]:.1f} s")
    limit_s = bench.pick(SUBSET_LIMIT_S, 10)
    what = f"{tree.files} files, the other {part.files} or as many as it moved in {limit_s} s, by files per second"
    return [_against("small_wan", other, runs, absent, few=few, what=what) for other in others]


def _against(prefix: str, other: Copier, runs: Mapping[str, Runs], absent: Mapping[str, str], *, few: Runs | None = None, what: str) -> Row:
    name = f"{prefix}_vs_{other.name}"
    if other.name in absent:
        return not_available(name, "files/s", absent[other.name])
    mover, its = runs["mover"], runs[other.name]
    if not mover.all_finished:
        raise LabError(f"the mover did not end within {COPY_LIMIT_S} s")
    value, reference = mover.files_per_s, its.files_per_s
    more = {"runs_s": rounded(mover.durable_s), "reference_runs_s": rounded(its.durable_s), "reference_files": its.files}
    if few is not None:
        same = few.files_per_s / reference
        more |= {"ratio_same_files": round(same, 3), "mover_same_files_s": rounded(few.durable_s)}
        what += f" (the mover with those alone: {same:.3g} x)"
    note = f"{what}; {other.name} {other.version()}: {other.integrity}"
    return Row(name, round(value, 1), "files/s", round(reference, 1), round(value / reference, 3), note, more)


def _against_one(name: str, mover: Runs, one: Runs, where: str) -> Row:
    value, reference = mover.files[0] * FILE_BYTES * 8 / mover.seconds / 1e9, mover.files[0] * FILE_BYTES * 8 / one.seconds / 1e9
    note = f"{mover.files[0]} files of {FILE_BYTES} bytes against one file of the same total, {where}"
    more = {"runs_s": rounded(mover.durable_s), "reference_runs_s": rounded(one.durable_s)}
    return Row(name, round(value, 3), "Gb/s", round(reference, 3), round(value / reference, 3), note, more)
