"""The rows of the bench: one plan in which every case has its turn in each repeat, in an order by the seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from fairlead_dev.bench.lab.machine import load
from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.rows import Goal, Row, rounded
from fairlead_dev.bench.runner import Part
from fairlead_dev.bench.transports.figures import Yielding, mean_load, order, row_of, scavenger_rows
from fairlead_dev.bench.transports.measure import (
    PROTOCOLS,
    LinkShape,
    Moved,
    Phases,
    cap_error,
    compile_libudt_peer,
    give_way,
    move,
    move_by_libudt,
    switch_s,
)

SEED = 19
REPEATS, QUICK_REPEATS = 5, 1
BULK = LinkShape(250, 20, "1BDP")
SCAVENGED = {"": LinkShape(100, 20, "3BDP"), "_short_queue": LinkShape(100, 20, "1BDP")}
"""A queue of 120 ms, twice the scavenger's target, and one of 40 ms, which never reaches it."""
LOSSY = LinkShape(200, 50, "1BDP", loss=0.001)
LOSSY_S, QUICK_LOSSY_S = 8.0, 1.0
"""At the link's rate."""
BULK_STREAMS = 4
BULK_S, QUICK_BULK_S = 8.0, 2.0
PHASES = Phases(alone_s=20.0, beside_s=15.0, after_s=20.0, settle_s=5.0)
QUICK_PHASES = Phases(alone_s=6.0, beside_s=6.0, after_s=6.0, settle_s=2.0)
CAP_BPS, CAP_S = 100_000_000, 5.0
SWITCHES = 4
CONTROLS = {"tcp": ("cubic", "reno"), "quic": ("cubic", "ledbat++", "reno"), "udt": ("udt", "reported", "blast")}
LIBUDT = "libudt"


@dataclass(frozen=True, slots=True)
class Lossy:
    """How data cross the path with losses: by the mover with a congestion control, or by libudt, which has only its own."""

    protocol: str
    control: str
    streams: int = 1
    more: tuple[str, ...] = ()


LOSSY_CASES: Final[Mapping[str, Lossy]] = {
    "udt_lossy": Lossy("UDT", "udt"),
    "udt_4_streams_lossy": Lossy("UDT", "udt", 4),
    "udt_reported_lossy": Lossy("UDT", "reported"),
    "udt_blast_lossy": Lossy("UDT", "blast"),
    "udt_fixed_lossy": Lossy("UDT", "fixed", more=("--bandwidth", str(int(LOSSY.bps * 0.95)))),
    "quic_lossy": Lossy("QUIC", "cubic", 4),
    "tcp_lossy": Lossy("TCP", "cubic", 4),
    "tcp_bbr_lossy": Lossy("TCP", "bbr", 4),
}
"""By their rows."""
ROWS = (
    "quic_vs_tcp",
    *LOSSY_CASES,
    "udt_vs_libudt",
    *(f"{row}_{name.lower()}" for row in ("cpu_s_per_gb", "cap_error_p99", "switch_s") for name in PROTOCOLS),
    *(
        f"{row}{suffix}"
        for suffix in SCAVENGED
        for row in ("ledbat_alone", "ledbat_beside_cubic", "ledbat_delay_ms", "scavenger_gives_way_s", "scavenger_takes_back_s")
    ),
)
GOALS = {
    "quic_vs_tcp": Goal("at_least", 0.8, of="ratio"),
    "udt_lossy": Goal("at_least", 0.8, of="value"),
    "udt_vs_libudt": Goal("at_least", 1.0, of="ratio"),
    "ledbat_alone": Goal("at_least", 0.8, of="value"),
    "ledbat_beside_cubic": Goal("at_most", 0.10, of="value"),
    "ledbat_delay_ms": Goal("at_most", 60, of="value"),
    "scavenger_gives_way_s": Goal("at_most", 5, of="value"),
    **{
        f"{row}_{name.lower()}": Goal("at_most", bound, of="value")
        for row, bound in (("cap_error_p99", 0.02), ("switch_s", 1))
        for name in PROTOCOLS
    },
}


@dataclass
class Measured:
    """Every repeat of every case."""

    moved: dict[str, list[Moved]] = field(default_factory=lambda: defaultdict(list))
    lossy: dict[str, list[Moved]] = field(default_factory=lambda: defaultdict(list))
    cap: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    switch: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    yielded: dict[str, list[Yielding]] = field(default_factory=lambda: defaultdict(list))
    loads: list[float] = field(default_factory=list)


def cases() -> list[str]:
    """What has a turn in each repeat."""
    by_protocol = [f"{kind} {name}" for kind in ("move", "cap", "switch") for name in PROTOCOLS]
    return [*by_protocol, *(f"lossy {name}" for name in (*LOSSY_CASES, LIBUDT)), *(f"scavenge {suffix}" for suffix in SCAVENGED)]


def run_case(lab: MoverLab, case: str, measured: Measured) -> None:
    """Measures one case once. Raises LabError."""
    kind, _, name = case.partition(" ")
    measured.loads.append(load())
    match kind:
        case "move":
            size_bytes = int(BULK.bps / 8 * lab.pick(BULK_S, QUICK_BULK_S))
            measured.moved[name].append(moved := move(lab, BULK, name, BULK_STREAMS, size_bytes))
            lab.report(f"{case}: {moved.goodput_bps / 1e6:.0f} Mb/s, {moved.cpu_s_per_gb:.1f} CPU-s/GB")
        case "lossy":
            size_bytes = int(LOSSY.bps / 8 * lab.pick(LOSSY_S, QUICK_LOSSY_S))
            measured.lossy[name].append(moved := cross_lossy(lab, name, size_bytes))
            lab.report(f"{case}: {moved.goodput_bps / 1e6:.0f} Mb/s, {moved.cpu_s_per_gb:.1f} CPU-s/GB")
        case "cap":
            measured.cap[name].append(cap_error(lab, name, CAP_BPS, CAP_S))
            lab.report(f"{case}: {measured.cap[name][-1]:.2%}")
        case "switch":
            measured.switch[name].append(max(switch_s(lab, BULK, name, CONTROLS[name.lower()], SWITCHES)))
            lab.report(f"{case}: {measured.switch[name][-1]:.2f} s")
        case _:
            measured.yielded[name].append(one := give_way(lab, SCAVENGED[name], lab.pick(PHASES, QUICK_PHASES)))
            lab.report(f"{case}: {one}")


def cross_lossy(lab: MoverLab, name: str, size_bytes: int) -> Moved:
    """Moves bytes over the path with losses, by one of `LOSSY_CASES` or by libudt. Raises LabError."""
    if name == LIBUDT:
        return move_by_libudt(lab, compile_libudt_peer(lab.scratch), LOSSY, size_bytes)
    how = LOSSY_CASES[name]
    return move(lab, LOSSY, how.protocol, how.streams, size_bytes, "--congestion-control", how.control, *how.more)


def measure(lab: MoverLab) -> list[Row]:
    """All rows."""
    measured = Measured()
    for case in order(cases(), lab.pick(REPEATS, QUICK_REPEATS), SEED):
        run_case(lab, case, measured)
    return rows_of(measured)


def rows_of(measured: Measured) -> list[Row]:
    """The rows of what was measured."""
    tcp, quic = measured.moved["TCP"], measured.moved["QUIC"]
    bulk = f"{BULK.rate_mbps} Mb/s, {2 * BULK.one_way_ms} ms, {BULK.buffer}"
    goodputs = [[run.goodput_bps / 1e6 for run in runs] for runs in (quic, tcp)]
    loads = {"mean_load": mean_load(measured.loads), "loads": rounded(measured.loads)}
    rows = [
        row_of("quic_vs_tcp", goodputs[0], "Mb/s", f"{BULK_STREAMS} streams each, {bulk}; TCP in TLS", reference=goodputs[1], more=loads)
    ]
    lossy = f"{LOSSY.rate_mbps} Mb/s, {2 * LOSSY.one_way_ms} ms, {LOSSY.loss:.1%} of packets lost"
    for name, how in LOSSY_CASES.items():
        shares = [run.goodput_bps / LOSSY.bps for run in measured.lossy[name]]
        note = f"payload, of the link; {how.protocol}, {how.control}, streams: {how.streams}, {lossy}"
        rows.append(row_of(name, shares, "share", " ".join((note, *how.more)), more={"cpu_s_per_gb": cpu_s_per_gb(measured.lossy[name])}))
    ours, theirs = ([run.goodput_bps / 1e6 for run in measured.lossy[name]] for name in ("udt_lossy", LIBUDT))
    more = {"cpu_s_per_gb_libudt": cpu_s_per_gb(measured.lossy[LIBUDT])}
    rows.append(row_of("udt_vs_libudt", ours, "Mb/s", f"one connection each, libudt in plain, {lossy}", reference=theirs, more=more))
    for name in PROTOCOLS:
        each = name.lower()
        cpu = [run.cpu_s_per_gb for run in measured.moved[name]]
        rows.append(row_of(f"cpu_s_per_gb_{each}", cpu, "CPU-s/GB", f"both ends, user and system, {bulk}"))
        note = f"over every second at {CAP_BPS / 1e6:g} Mb/s, 4 streams"
        rows.append(row_of(f"cap_error_p99_{each}", measured.cap[name], "share", note))
        note = f"longest of {SWITCHES} in each run, among {', '.join(CONTROLS[each])}, under load, read back"
        rows.append(row_of(f"switch_s_{each}", measured.switch[name], "s", note))
    for suffix, shape in SCAVENGED.items():
        note = f"{shape.rate_mbps} Mb/s, {2 * shape.one_way_ms} ms, {shape.buffer}, one CUBIC flow of iperf3"
        rows += scavenger_rows(measured.yielded[suffix], suffix, note)
    return rows


def cpu_s_per_gb(runs: list[Moved]) -> float:
    """The median of both ends' CPU time for a GB."""
    return round(median(run.cpu_s_per_gb for run in runs), 2)


PARTS = (Part("transports", ROWS, measure, 3000, ("iperf3", "ping", "g++")),)
