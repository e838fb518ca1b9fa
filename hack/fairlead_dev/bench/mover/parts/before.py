"""The mover beside an earlier one: the same transfers over TCP with both in turn, so that what the machine does meets both alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from fairlead_dev.bench.intervals import interval_95, rounded_interval
from fairlead_dev.bench.lab.mover import MoverLab, MoverProgram
from fairlead_dev.bench.lab.trees import BenchTree, big_file, small_files
from fairlead_dev.bench.mover.parts.memory import send
from fairlead_dev.bench.mover.peers.comparison import Runs, copy
from fairlead_dev.bench.mover.peers.mover import MoverCopier
from fairlead_dev.bench.rows import Row, rounded
from fairlead_dev.errors import NotAvailableError
from fairlead_dev.netlab.pair import Net, veth
from fairlead_dev.testbed.scenario.expand import draws

SEED = 20261126
PAIRS, QUICK_PAIRS = 9, 1
LIMIT_S = 120
GBPS = 1e9

Move = Callable[[MoverProgram], float]
"""One transfer by a mover; what it got in bit/s."""

CASES: Mapping[str, str] = {
    "before_memory_1": "from memory to memory, one stream, not encrypted",
    "before_memory_4": "from memory to memory, four streams, not encrypted",
    "before_memory_4_tls": "from memory to memory, four streams in TLS",
    "before_disk": "one file, until it is on the disk",
    "before_small": "many small files, until they are on the disk",
}


def measure(bench: MoverLab) -> list[Row]:
    """before_…: goodput in parts of the earlier mover's, in pairs whose order is drawn. Raises NotAvailableError without that one."""
    if bench.before is None:
        raise NotAvailableError("an earlier mover is wanted: name it with --before FILE")
    chance = draws(SEED, "before")
    with ExitStack() as stack:
        moves = _moves(bench, stack.enter_context(veth()))
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
        for _ in range(bench.pick(PAIRS, QUICK_PAIRS)):
            for name in chance.sample(list(CASES), len(CASES)):
                pairs[name].append(_pair(moves[name], bench.mover, bench.before, earlier_first=chance.random() < 0.5))
                now, then = pairs[name][-1]
                bench.report(f"{name}: {now / GBPS:.2f} Gb/s, the earlier mover {then / GBPS:.2f}")
    return [_row(name, pairs[name], CASES[name]) for name in CASES]


def _moves(bench: MoverLab, net: Net) -> dict[str, Move]:
    big = big_file(bench.scratch / "big", bench.pick(4 << 30, 1 << 28))
    small = small_files(bench.scratch / "small", bench.pick(50_000, 2_000), 4096)

    def memory(size_bytes: int, streams: int, encryption: str) -> Move:
        return lambda mover: send(replace(bench, mover=mover), net, size_bytes, streams, encryption).bulk_bps

    def tree(what: BenchTree) -> Move:
        def move(mover: MoverProgram) -> float:
            runs = Runs()
            copy(MoverCopier(mover), net, what, bench.scratch, runs, limit_s=LIMIT_S)
            return what.total_bytes * 8 / runs.seconds

        return move

    plain_bytes, tls_bytes = bench.pick(12 << 30, 1 << 30), bench.pick(8 << 30, 1 << 30)
    return {
        "before_memory_1": memory(plain_bytes, 1, "None"),
        "before_memory_4": memory(plain_bytes, 4, "None"),
        "before_memory_4_tls": memory(tls_bytes, 4, "Required"),
        "before_disk": tree(big),
        "before_small": tree(small),
    }


def _pair(move: Move, now: MoverProgram, then: MoverProgram, *, earlier_first: bool) -> tuple[float, float]:
    if earlier_first:
        before_bps = move(then)
        return move(now), before_bps
    return move(now), move(then)


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The median of the ratios within the pairs."""
    return median(now / then for now, then in pairs)


def _row(name: str, pairs: Sequence[tuple[float, float]], what: str) -> Row:
    now, then = ([pair[at] / GBPS for pair in pairs] for at in (0, 1))
    return Row(
        name,
        round(median(now), 3),
        "Gb/s",
        round(median(then), 3),
        round(ratio(pairs), 4),
        f"{what}, beside the earlier mover; the ratio is the median of those of the pairs",
        {"interval_95": rounded_interval(interval_95(pairs, ratio)), "runs": rounded(now), "reference_runs": rounded(then)},
    )
