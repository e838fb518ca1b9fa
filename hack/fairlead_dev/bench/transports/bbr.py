"""BBR of quinn beside that of the kernel: where packets are lost, and beside a CUBIC flow. Both in turn, in an order by a seed."""

from __future__ import annotations

from functools import partial
from typing import Final

from fairlead_dev.bench.lab.mover import MoverLab
from fairlead_dev.bench.rows import Goal, Row, rounded
from fairlead_dev.bench.transports.figures import Yielding, order, row_of
from fairlead_dev.bench.transports.measure import Moved, move
from fairlead_dev.bench.transports.paths import LOSSES, LOSSY, LOSSY_S, QUICK_LOSSY_S, SCAVENGED
from fairlead_dev.bench.transports.scavengers import Phases, give_way, stream

ROWS = ("quic_bbr_lossy", "quic_bbr_beside_cubic")
GOALS = {"quic_bbr_lossy": Goal("at_least", 0.95), "quic_bbr_beside_cubic": Goal("at_most", 1.25)}
"""What it takes to be chosen by the advisor: as fast as the kernel's, and no less fair."""
PROTOCOLS: Final = ("TCP", "QUIC")
LOSSY_STREAMS = 4
DEEP = SCAVENGED[""]
PHASES = Phases(alone_s=10.0, beside_s=25.0, after_s=1.0, settle_s=10.0)
QUICK_PHASES = Phases(alone_s=3.0, beside_s=4.0, after_s=1.0, settle_s=2.0)
REPEATS, QUICK_REPEATS = 3, 1
SEED = 20
LIMIT_S = 1200.0


def measure(lab: MoverLab) -> list[Row]:
    """The rows. Raises LabError."""
    moved: dict[str, list[Moved]] = {protocol: [] for protocol in PROTOCOLS}
    beside: dict[str, list[Yielding]] = {protocol: [] for protocol in PROTOCOLS}
    cases = [f"{kind} {protocol}" for kind in ("lossy", "beside") for protocol in PROTOCOLS]
    for case in order(cases, lab.pick(REPEATS, QUICK_REPEATS), SEED):
        kind, _, protocol = case.partition(" ")
        if kind == "lossy":
            size_bytes = int(LOSSY.bps / 8 * lab.pick(LOSSY_S, QUICK_LOSSY_S))
            moved[protocol].append(one := move(lab, LOSSY, protocol, LOSSY_STREAMS, size_bytes, "--congestion-control", "bbr"))
            lab.report(f"{case}: {one.goodput_bps / 1e6:.0f} Mb/s")
        else:
            flow = partial(stream, protocol, "bbr")
            beside[protocol].append(shared := give_way(lab, flow, DEEP, lab.pick(PHASES, QUICK_PHASES)))
            lab.report(f"{case}: {shared.beside:.0%} of the link, the other flow {shared.cubic:.0%}")
    return rows_of(moved, beside)


def rows_of(moved: dict[str, list[Moved]], beside: dict[str, list[Yielding]]) -> list[Row]:
    """The rows of what was measured, QUIC's BBR beside TCP's."""
    of_link = {protocol: [run.goodput_bps / LOSSY.bps for run in runs] for protocol, runs in moved.items()}
    taken = {protocol: [run.beside for run in runs] for protocol, runs in beside.items()}
    cubic = {f"cubic_share_runs_{protocol.lower()}": rounded(run.cubic for run in runs) for protocol, runs in beside.items()}
    note = f"payload, of the link; {LOSSY_STREAMS} streams, {LOSSES}; quinn's BBR beside the kernel's"
    shared = f"{DEEP.rate_mbps} Mb/s, {2 * DEEP.one_way_ms} ms, {DEEP.buffer}"
    beside_note = f"payload, of the link; one stream beside one CUBIC flow of iperf3, {shared}; quinn's BBR beside the kernel's"
    return [
        row_of("quic_bbr_lossy", of_link["QUIC"], "share", note, reference=of_link["TCP"]),
        row_of("quic_bbr_beside_cubic", taken["QUIC"], "share", beside_note, reference=taken["TCP"], more=cubic),
    ]
