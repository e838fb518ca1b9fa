"""Which runs are made: transfers over each protocol on each path, and a flow of somebody else's beside what is chosen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead_dev.testbed.scenario.expand import draws
from fairlead_dev.testbed.sealed.engine_paths import EnginePath
from fairlead_dev.wan.two_hosts import AWAIT_TRANSPORT_S

EVIDENCE_REPEATS = 1
"""So many repeats of each protocol are what the choice goes by; it is scored on the others."""
DEFAULT_STREAMS = 4
MEASURED: tuple[ProtocolInForce, ...] = ("TCP", "QUIC")
"""What is moved over. UDT is for shares by a FairnessPolicy (rule 4 of the choice), and the caps here are the jobs' own limits."""

Company = Literal["nobody", "cubic", "auto", "cubic-unlimited"]
"""What is beside somebody else's CUBIC flow: nothing, one more such flow below the job's limit if it has one, the job, or one more such
flow without a limit."""
COMPANIES: tuple[Company, ...] = ("nobody", "cubic", "auto")
"""In which the flow is measured on every path; in the last one where the job has a limit, for comparison alone."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured. `scout_s`: a first transfer, by which the size of the others is chosen so that they last about `move_s`.

    Of the other flow the first `settle_s` do not count, and `flow_s` do: within that the advisor has probed, and the job's data flow.
    """

    repeats: int
    scout_s: float
    move_s: float
    harm_paths: int
    harm_repeats: int
    settle_s: int
    flow_s: int


FULL = Effort(repeats=3, scout_s=8.0, move_s=15.0, harm_paths=3, harm_repeats=3, settle_s=25, flow_s=30)
QUICK = Effort(repeats=2, scout_s=4.0, move_s=8.0, harm_paths=1, harm_repeats=1, settle_s=20, flow_s=10)


@dataclass(frozen=True, slots=True)
class MoveRun:
    """One transfer over a protocol."""

    path: str
    protocol: ProtocolInForce
    number: int

    @property
    def name(self) -> str:
        """Names its file."""
        return f"{self.path}__{self.protocol.lower()}__{self.number}"

    @property
    def scout(self) -> str:
        """Names the file of the first transfer, which all repeats share."""
        return f"{self.path}__{self.protocol.lower()}__scout"


@dataclass(frozen=True, slots=True)
class HarmRun:
    """One flow of somebody else's with its company."""

    path: str
    company: Company
    number: int

    @property
    def name(self) -> str:
        """Names its file."""
        return f"{self.path}__beside-{self.company}__{self.number}"


def allowed_protocols(path: EnginePath) -> tuple[ProtocolInForce, ...]:
    """What the choice may use by its own rules of fairness, whatever has been measured.

    TCP everywhere. QUIC where UDP is neither policed nor blocked: whoever polices UDP wants less of it, and rule 2 bars it there. Scarce
    processors and ties, rules 3 and 6, are no matter of fairness, so that a protocol which they keep from being used counts here as one
    that could have been.
    """
    return ("TCP",) if path.bars_udp else MEASURED


def default_options(protocol: ProtocolInForce, cap_bps: int | None) -> tuple[str, ...]:
    """What the sender of a default job starts with, without an advisor; the cap holds whatever the protocol."""
    cap = () if cap_bps is None else ("--bandwidth", str(cap_bps))
    return ("--protocol", protocol, "--streams", str(DEFAULT_STREAMS), "--congestion-control", "cubic", *cap)


def advised_options(protocol: ProtocolInForce, cap_bps: int | None) -> tuple[str, ...]:
    """The same with an advisor, which chooses before the first data."""
    return (*default_options(protocol, cap_bps), "--await-transport", str(AWAIT_TRANSPORT_S))


def move_runs(paths: Mapping[str, EnginePath], effort: Effort, seed: int) -> list[MoveRun]:
    """Every transfer. A repeat is a block of all paths and protocols in random order, so that what disturbs the machine meets all alike."""
    found: list[MoveRun] = []
    for number in range(effort.repeats):
        block = [MoveRun(name, protocol, number) for name in paths for protocol in MEASURED]
        draws(seed, "moves", number).shuffle(block)
        found += block
    return found


def companies(path: EnginePath) -> tuple[Company, ...]:
    """In which somebody else's flow is measured on a path."""
    return COMPANIES if path.cap_bps is None else (*COMPANIES, "cubic-unlimited")


def harm_runs(paths: Mapping[str, EnginePath], effort: Effort, seed: int) -> list[HarmRun]:
    """Every run of somebody else's flow, on paths that the seed chooses; each repeat is a block in random order."""
    chosen = draws(seed, "harm").sample(sorted(paths), min(effort.harm_paths, len(paths)))
    found: list[HarmRun] = []
    for number in range(effort.harm_repeats):
        block = [HarmRun(name, company, number) for name in chosen for company in companies(paths[name])]
        draws(seed, "harm order", number).shuffle(block)
        found += block
    return found


def one_of_each_kind(paths: Mapping[str, EnginePath]) -> dict[str, EnginePath]:
    """The first path with UDP policed, the first with UDP blocked, and the first that has neither but a cap: for a quick run."""
    kinds = (
        lambda path: path.police_udp is not None,
        lambda path: path.udp_blocked,
        lambda path: not path.bars_udp and path.cap_bps is not None,
    )
    names = [next((name for name, path in paths.items() if is_kind(path)), None) for is_kind in kinds]
    return {name: paths[name] for name in names if name is not None}


def transfer_bytes(rate_bps: float, move_s: float) -> int:
    """The size of a transfer that lasts about `move_s` at a rate.

    A slow one is longer, so that the operator would keep what it measures, up to a minute.
    """
    return round(max(rate_bps * move_s, min(_ENOUGH_BYTES * 8, rate_bps * _LONGEST_S), _LEAST_BYTES * 8) / 8)


_ENOUGH_BYTES = 12_000_000
_LEAST_BYTES = 1_000_000
_LONGEST_S = 60.0
