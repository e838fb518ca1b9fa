"""The rows of the bench: one plan in which every case has its turn in each repeat, in an order by the seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Final

from fairlead_dev.bench.lab.machine import LIBTORRENT_MODULE, LIBUDT_HEADER, load
from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.rows import Goal, Row, rounded
from fairlead_dev.bench.runner import Part
from fairlead_dev.bench.transports import bbr, suites
from fairlead_dev.bench.transports.figures import SCAVENGER_ROWS, Yielding, mean_load, order, row_of, scavenger_rows
from fairlead_dev.bench.transports.measure import (
    PROTOCOLS,
    LinkShape,
    Moved,
    MovedToSlow,
    SlowReceiver,
    cap_error,
    move,
    move_to_slow,
    switch_s,
)
from fairlead_dev.bench.transports.paths import LOSSES, LOSSY, LOSSY_S, QUICK_LOSSY_S, SCAVENGED
from fairlead_dev.bench.transports.peers import (
    Peers,
    made_peers,
    move_by_iperf3,
    move_by_libudt,
    move_by_nuttcp,
    move_by_quic,
    move_by_uftp,
)
from fairlead_dev.bench.transports.scavengers import Flow, Phases, give_way, ledbat, utp

SEED = 19
FULL_REPEATS, REPEATS, QUICK_REPEATS = 3, 2, 1
BULK = LinkShape(250, 20, "1BDP")
LOSSY_CUBIC_S, QUICK_LOSSY_CUBIC_S = 4.0, 1.0
"""The same, for all that goes by CUBIC, which takes some ten times as long there."""
SLOW_RECEIVER = SlowReceiver(packet_us=120, queue_packets=64)
"""100 Mb/s of full packets, of which 64 wait for 8 ms at most."""
TO_SLOW = LinkShape(200, 20, "1BDP", receiver=SLOW_RECEIVER)
TO_SLOW_S, QUICK_TO_SLOW_S = 6.0, 2.0
"""At the receiver's rate."""
BULK_STREAMS = 4
BULK_S, QUICK_BULK_S = 8.0, 2.0
PHASES = Phases(alone_s=20.0, beside_s=15.0, after_s=20.0, settle_s=5.0)
QUICK_PHASES = Phases(alone_s=6.0, beside_s=6.0, after_s=6.0, settle_s=2.0)
CAP_BPS, CAP_S = 100_000_000, 5.0
SWITCHES = 4
LIMIT_S = 5400.0
CONTROLS = {"tcp": ("cubic", "reno"), "quic": ("cubic", "ledbat++", "reno"), "udt": ("udt", "reported", "blast")}
FLOWS = {
    "ledbat": "the mover's scavenger",
    "utp": "uTP of libtorrent as it is, in plain, with a target of 100 ms and a receive window of 1 MiB, which comes first",
}
FIXED_BPS = int(LOSSY.bps * 0.95)
LIBUDT, QUIC_PEER, IPERF3 = "libudt", "s2n-quic", "iperf3"


@dataclass(frozen=True, slots=True)
class Lossy:
    """How the mover crosses the path with losses."""

    protocol: str
    control: str
    streams: int = 1
    more: tuple[str, ...] = ()


LOSSY_CASES: Final[Mapping[str, Lossy]] = {
    "udt_lossy": Lossy("UDT", "udt"),
    "udt_4_streams_lossy": Lossy("UDT", "udt", 4),
    "udt_reported_lossy": Lossy("UDT", "reported"),
    "udt_blast_lossy": Lossy("UDT", "blast"),
    "udt_fixed_lossy": Lossy("UDT", "fixed", more=("--bandwidth", str(FIXED_BPS))),
    "quic_lossy": Lossy("QUIC", "cubic", 4),
    "tcp_lossy": Lossy("TCP", "cubic", 4),
    "tcp_bbr_lossy": Lossy("TCP", "bbr", 4),
}
"""By their rows."""
SLOW_RECEIVER_CASES: Final[Mapping[str, tuple[str, str]]] = {
    "tcp": ("TCP", "cubic"),
    "quic": ("QUIC", "cubic"),
    "udt": ("UDT", "udt"),
    "udt_reported": ("UDT", "reported"),
}
"""Protocol and control of who moves bytes to the slow receiver over one stream, by their part of the rows' names."""


@dataclass(frozen=True, slots=True)
class LossyPeer:
    """How a peer crosses the path with losses, and the row of the mover that it stands beside."""

    move: Callable[[MoverLab, Peers, int], Moved]
    """Moves so many bytes, or for the time that they take about."""
    beside: str
    note: str
    by_cubic: bool = False


LOSSY_PEERS: Final[Mapping[str, LossyPeer]] = {
    "iperf3_lossy": LossyPeer(
        lambda lab, _, size: move_by_iperf3(lab, LOSSY, "cubic", 4, round(10 * size * 8 / LOSSY.bps)),
        "tcp_lossy",
        "iperf3 in plain, cubic, streams: 4",
        by_cubic=True,
    ),
    "iperf3_bbr_lossy": LossyPeer(
        lambda lab, _, size: move_by_iperf3(lab, LOSSY, "bbr", 4, round(size * 8 / LOSSY.bps)),
        "tcp_bbr_lossy",
        "iperf3 in plain, bbr, streams: 4",
    ),
    "nuttcp_lossy": LossyPeer(
        lambda lab, _, size: move_by_nuttcp(lab, LOSSY, 4, size), "tcp_lossy", "nuttcp in plain, cubic, streams: 4", by_cubic=True
    ),
    "uftp_lossy": LossyPeer(
        lambda lab, peers, size: move_by_uftp(lab, peers.memory, LOSSY, FIXED_BPS, size),
        "udt_fixed_lossy",
        f"uftp in plain, a file from memory into memory until its receiver has it whole, at {FIXED_BPS} bit/s",
    ),
}
"""By their rows. libudt is apart: it is the reference of a row of the mover."""
UDT_LOSSY = tuple(name for name, how in LOSSY_CASES.items() if how.protocol == "UDT")
UDT_TO_SLOW = tuple(who for who, (protocol, _) in SLOW_RECEIVER_CASES.items() if protocol == "UDT")
UDT_ROWS = (*UDT_LOSSY, "udt_vs_libudt", *(f"{row}_slow_receiver" for who in UDT_TO_SLOW for row in (who, f"resent_{who}")))
ROWS = (
    "quic_vs_tcp",
    "quic_vs_peer",
    "tcp_vs_iperf3",
    *LOSSY_CASES,
    *LOSSY_PEERS,
    "udt_vs_libudt",
    *(f"{row}_slow_receiver" for who in SLOW_RECEIVER_CASES for row in (who, f"resent_{who}")),
    *(f"{row}_{name.lower()}" for row in ("cpu_s_per_gb", "cap_error_p99", "switch_s") for name in PROTOCOLS),
    *(f"{row}{suffix}" for suffix in SCAVENGED for rows in SCAVENGER_ROWS.values() for row in rows),
)
GOALS = {
    "quic_vs_tcp": Goal("at_least", 0.8, of="ratio"),
    "quic_vs_peer": Goal("at_least", 1.0, of="ratio"),
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
    **suites.GOALS,
    **bbr.GOALS,
}


@dataclass
class Measured:
    """Every repeat of every case."""

    moved: dict[str, list[Moved]] = field(default_factory=lambda: defaultdict(list))
    lossy: dict[str, list[Moved]] = field(default_factory=lambda: defaultdict(list))
    to_slow: dict[str, list[MovedToSlow]] = field(default_factory=lambda: defaultdict(list))
    cap: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    switch: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    yielded: dict[tuple[str, str], list[Yielding]] = field(default_factory=lambda: defaultdict(list))
    """By the flow and the path's suffix."""
    loads: list[float] = field(default_factory=list)


def cases() -> list[str]:
    """What has a turn in each repeat."""
    by_protocol = [f"{kind} {name}" for kind in ("move", "cap", "switch") for name in PROTOCOLS]
    lossy = [f"lossy {name}" for name in (*LOSSY_CASES, *LOSSY_PEERS, LIBUDT)]
    to_slow = [f"slow_receiver {who}" for who in SLOW_RECEIVER_CASES]
    yielding = [f"{flow} {suffix}" for flow in SCAVENGER_ROWS for suffix in SCAVENGED]
    return [*by_protocol, f"move {QUIC_PEER}", f"move {IPERF3}", *lossy, *to_slow, *yielding]


def run_case(lab: MoverLab, peers: Peers, case: str, measured: Measured) -> None:
    """Measures one case once. Raises LabError."""
    kind, _, name = case.partition(" ")
    measured.loads.append(load())
    match kind:
        case "move":
            measured.moved[name].append(moved := cross_bulk(lab, peers, name))
            lab.report(f"{case}: {moved.goodput_bps / 1e6:.0f} Mb/s, {moved.cpu_s_per_gb:.1f} CPU-s/GB")
        case "lossy":
            measured.lossy[name].append(moved := cross_lossy(lab, peers, name))
            lab.report(f"{case}: {moved.goodput_bps / 1e6:.0f} Mb/s, {moved.cpu_s_per_gb:.1f} CPU-s/GB")
        case "slow_receiver":
            measured.to_slow[name].append(slowed := cross_to_slow(lab, name))
            lab.report(f"{case}: {slowed.goodput_bps / 1e6:.0f} Mb/s, {slowed.resent:.2%} sent again")
        case "cap":
            measured.cap[name].append(cap_error(lab, name, CAP_BPS, CAP_S))
            lab.report(f"{case}: {measured.cap[name][-1]:.2%}")
        case "switch":
            measured.switch[name].append(max(switch_s(lab, BULK, name, CONTROLS[name.lower()], SWITCHES)))
            lab.report(f"{case}: {measured.switch[name][-1]:.2f} s")
        case _:
            flow: Flow = ledbat if kind == "ledbat" else partial(utp, peers.memory)
            measured.yielded[kind, name].append(one := give_way(lab, flow, SCAVENGED[name], lab.pick(PHASES, QUICK_PHASES)))
            lab.report(f"{case}: {one}")


def cross_bulk(lab: MoverLab, peers: Peers, name: str) -> Moved:
    """Moves bytes over the path without losses, by a protocol of the mover or by a peer. Raises LabError."""
    seconds = lab.pick(BULK_S, QUICK_BULK_S)
    size_bytes = int(BULK.bps / 8 * seconds)
    if name == QUIC_PEER:
        return move_by_quic(lab, peers.quic, BULK, BULK_STREAMS, size_bytes)
    if name == IPERF3:
        return move_by_iperf3(lab, BULK, "cubic", BULK_STREAMS, round(seconds))
    return move(lab, BULK, name, BULK_STREAMS, size_bytes)


def cross_lossy(lab: MoverLab, peers: Peers, name: str) -> Moved:
    """Moves bytes over the path with losses, by one of `LOSSY_CASES`, one of `LOSSY_PEERS` or libudt. Raises LabError."""
    how, peer = LOSSY_CASES.get(name), LOSSY_PEERS.get(name)
    by_cubic = (how is not None and how.control == "cubic") or (peer is not None and peer.by_cubic)
    seconds = lab.pick(LOSSY_CUBIC_S, QUICK_LOSSY_CUBIC_S) if by_cubic else lab.pick(LOSSY_S, QUICK_LOSSY_S)
    size_bytes = int(LOSSY.bps / 8 * seconds)
    if how is not None:
        return move(lab, LOSSY, how.protocol, how.streams, size_bytes, "--congestion-control", how.control, *how.more)
    return peer.move(lab, peers, size_bytes) if peer is not None else move_by_libudt(lab, peers.libudt, LOSSY, size_bytes)


def cross_to_slow(lab: MoverLab, who: str) -> MovedToSlow:
    """Moves bytes to the slow receiver, by one of `SLOW_RECEIVER_CASES`. Raises LabError."""
    protocol, control = SLOW_RECEIVER_CASES[who]
    size_bytes = int(SLOW_RECEIVER.bps / 8 * lab.pick(TO_SLOW_S, QUICK_TO_SLOW_S))
    return move_to_slow(lab, TO_SLOW, protocol, control, size_bytes)


def measure(lab: MoverLab) -> list[Row]:
    """All rows."""
    return rows_of(run_cases(lab, cases(), FULL_REPEATS if lab.full else REPEATS))


def run_cases(lab: MoverLab, which: Sequence[str], repeats: int) -> Measured:
    """Measures cases in an order by the seed, so many times each. Raises LabError."""
    measured = Measured()
    with made_peers(lab.scratch) as peers:
        for case in order(which, lab.pick(repeats, QUICK_REPEATS), SEED):
            run_case(lab, peers, case, measured)
    return measured


def rows_of(measured: Measured) -> list[Row]:
    """The rows of what was measured."""
    goodputs = {name: [run.goodput_bps / 1e6 for run in runs] for name, runs in measured.moved.items()}
    bulk = f"{BULK.rate_mbps} Mb/s, {2 * BULK.one_way_ms} ms, {BULK.buffer}"
    each = f"{BULK_STREAMS} streams each, {bulk}"
    loads = {"mean_load": mean_load(measured.loads), "loads": rounded(measured.loads)}
    rows = [
        row_of(name, goodputs[ours], "Mb/s", note, reference=goodputs[theirs], more=more)
        for name, ours, theirs, note, more in (
            ("quic_vs_tcp", "QUIC", "TCP", f"{each}; TCP in TLS", loads),
            (
                "quic_vs_peer",
                "QUIC",
                QUIC_PEER,
                f"{each}, a connection for each; beside s2n-quic, CUBIC",
                cpu_of(measured.moved[QUIC_PEER]),
            ),
            ("tcp_vs_iperf3", "TCP", IPERF3, f"{each}; TCP in TLS beside iperf3 in plain, CUBIC", cpu_of(measured.moved[IPERF3])),
        )
    ]
    rows += lossy_rows(measured.lossy, LOSSY_CASES)
    for name, peer in LOSSY_PEERS.items():
        shares, beside = ([run.goodput_bps / LOSSY.bps for run in measured.lossy[each]] for each in (name, peer.beside))
        note = f"payload, of the link, beside the mover's {peer.beside}; {peer.note}, {LOSSES}"
        rows.append(row_of(name, shares, "share", note, reference=beside, more={"cpu_s_per_gb": cpu_s_per_gb(measured.lossy[name])}))
    rows.append(libudt_row(measured.lossy))
    rows += slow_receiver_rows(measured.to_slow, SLOW_RECEIVER_CASES)
    for name in PROTOCOLS:
        each = name.lower()
        cpu = [run.cpu_s_per_gb for run in measured.moved[name]]
        rows.append(row_of(f"cpu_s_per_gb_{each}", cpu, "CPU-s/GB", f"both ends, user and system, {bulk}"))
        note = f"over every second at {CAP_BPS / 1e6:g} Mb/s, 4 streams"
        rows.append(row_of(f"cap_error_p99_{each}", measured.cap[name], "share", note))
        note = f"longest of {SWITCHES} in each run, among {', '.join(CONTROLS[each])}, under load, read back"
        rows.append(row_of(f"switch_s_{each}", measured.switch[name], "s", note))
    for suffix, shape in SCAVENGED.items():
        for flow in SCAVENGER_ROWS:
            note = f"{FLOWS[flow]}; {shape.rate_mbps} Mb/s, {2 * shape.one_way_ms} ms, {shape.buffer}, one CUBIC flow of iperf3"
            rows += scavenger_rows(flow, measured.yielded[flow, suffix], suffix, note)
    return rows


def lossy_rows(lossy: Mapping[str, list[Moved]], which: Iterable[str]) -> list[Row]:
    """What the mover got of the path with losses, in some of `LOSSY_CASES`."""
    rows = list[Row]()
    for name in which:
        how = LOSSY_CASES[name]
        shares = [run.goodput_bps / LOSSY.bps for run in lossy[name]]
        note = f"payload, of the link; {how.protocol}, {how.control}, streams: {how.streams}, {LOSSES}"
        rows.append(row_of(name, shares, "share", " ".join((note, *how.more)), more={"cpu_s_per_gb": cpu_s_per_gb(lossy[name])}))
    return rows


def libudt_row(lossy: Mapping[str, list[Moved]]) -> Row:
    """The mover's UDT beside libudt's on the path with losses."""
    ours, theirs = ([run.goodput_bps / 1e6 for run in lossy[name]] for name in ("udt_lossy", LIBUDT))
    more = {"cpu_s_per_gb_libudt": cpu_s_per_gb(lossy[LIBUDT])}
    return row_of("udt_vs_libudt", ours, "Mb/s", f"one connection each, libudt in plain, {LOSSES}", reference=theirs, more=more)


def measure_udt(lab: MoverLab) -> list[Row]:
    """The rows of UDT on the path with losses and to the slow receiver alone, in three repeats."""
    own = [*(f"lossy {name}" for name in (*UDT_LOSSY, LIBUDT)), *(f"slow_receiver {who}" for who in UDT_TO_SLOW)]
    measured = run_cases(lab, own, FULL_REPEATS)
    return [*lossy_rows(measured.lossy, UDT_LOSSY), libudt_row(measured.lossy), *slow_receiver_rows(measured.to_slow, UDT_TO_SLOW)]


def slow_receiver_rows(to_slow: Mapping[str, list[MovedToSlow]], which: Iterable[str]) -> list[Row]:
    """What each got of a slow receiver, and what it sent again, in some of `SLOW_RECEIVER_CASES`."""
    shape, rows = TO_SLOW, list[Row]()
    path = (
        f"{shape.rate_mbps} Mb/s, {2 * shape.one_way_ms} ms, {shape.buffer}, a receiver that takes a packet in "
        f"{SLOW_RECEIVER.packet_us} us and lets {SLOW_RECEIVER.queue_packets} wait"
    )
    for who in which:
        protocol, control = SLOW_RECEIVER_CASES[who]
        runs, by = to_slow[who], f"{protocol}, {control}, one stream, {path}"
        drops = {
            "dropped_by_receiver_runs": [round(run.by_receiver, 5) for run in runs],
            "dropped_by_path_runs": [round(run.by_path, 5) for run in runs],
        }
        resent = [round(run.resent, 5) for run in runs]
        shares = [run.goodput_bps / SLOW_RECEIVER.bps for run in runs]
        note = f"payload, of what the receiver takes of full packets; {by}"
        rows.append(row_of(f"{who}_slow_receiver", shares, "share", note, more=drops))
        note = f"payload sent for each byte delivered, less one; {by}"
        rows.append(row_of(f"resent_{who}_slow_receiver", resent, "ratio", note, more={"runs": resent}))
    return rows


def cpu_s_per_gb(runs: list[Moved]) -> float:
    """The median of both ends' CPU time for a GB."""
    return round(median(run.cpu_s_per_gb for run in runs), 2)


def cpu_of(runs: list[Moved]) -> dict[str, object]:
    """The same of a peer, beside a row of the mover."""
    return {"cpu_s_per_gb_peer": cpu_s_per_gb(runs)}


PROGRAMS = ("iperf3", "nuttcp", "uftp", "uftpd", "ping", "g++", LIBUDT_HEADER, LIBTORRENT_MODULE)
PARTS = (
    Part("transports", ROWS, measure, LIMIT_S, PROGRAMS),
    Part("suites", suites.ROWS, suites.measure, suites.LIMIT_S, suites.PROGRAMS),
    Part("udt", UDT_ROWS, measure_udt, LIMIT_S, ("ping", "g++", LIBUDT_HEADER), on_request=True),
    Part("bbr", bbr.ROWS, bbr.measure, bbr.LIMIT_S, ("iperf3", "ping"), on_request=True),
)
