"""The state of the loop: frozen, replaced by every event."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

from fairlead_advisor.decide import optimizer
from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.buffers import BufferChoice
from fairlead_advisor.decide.loop import loaded
from fairlead_advisor.decide.loop.loaded import LoadedClassification
from fairlead_advisor.decide.loop.messages import Action, ProbeFinished, Tick
from fairlead_advisor.decide.loop.observe import HeldBack, StatsReading
from fairlead_advisor.decide.model import Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.monitor import change_detector, probe_budget
from fairlead_advisor.decide.monitor.caps import CapRange
from fairlead_advisor.decide.monitor.change_detector import PathChange
from fairlead_advisor.decide.monitor.probe_budget import ProbeBudget, ProbeReason
from fairlead_advisor.decide.restart import StuckFlow
from fairlead_advisor.decide.switching import SwitchState, SwitchStep

OLD = timedelta(minutes=5)
"""From here on what was measured before the data is no sure answer: who came since then came before the first second to compare."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """What the loop can use: `windows_s` of the classifier, None without one; `monitored`: the peer is known and its path is sampled."""

    windows_s: tuple[float, ...] | None = None
    monitored: bool = False


@dataclass(frozen=True, slots=True)
class BackgroundMonitor:
    """What is known of the other traffic, and of the switches that followed from it.

    `unsure`: the answers that are pooled with the next one. `cap_bps`, `caps`: the cap and the range it had since the change detector
    began; `recapped`: it began anew on a switch's trial. `objections`: by congestion control, what a trial measured against it.
    `denied_from_s`: since when loaded classification contradicts the change that is detected. `alert`: something may have changed;
    `left_alone`: it has, and the step is not worth a paused probe now.
    `unanswered`: the mover did not answer the last switch, which may succeed later. `owes_pause`: a call of another job of ours came when
    no probe was possible. `stuck`: for how long BBR has had next to nothing.
    `alone_bps`: what half of the streams had of the full path when they had as much as all, 0 where that has not been seen.
    `proof_from_s`: BBR is not put to the proof before. `strayed_to`: what the sockets had at the last sample if that was not `in_force`.
    """

    budget: ProbeBudget
    switching: SwitchState
    detector: change_detector.ChangeDetector
    loaded: LoadedClassification | None
    unsure: tuple[Background, ...]
    cap_bps: float | None
    caps: CapRange = field(default_factory=CapRange)
    recapped: bool = False
    objections: Mapping[str, str] = field(default_factory=dict)
    denied_from_s: float = math.inf
    alert: bool = False
    left_alone: bool = False
    warned: bool = False
    tries_more_streams: bool = False
    unanswered: bool = False
    owes_pause: bool = False
    stuck: StuckFlow = field(default_factory=StuckFlow)
    alone_bps: float = 0.0
    proof_from_s: float = -math.inf
    strayed_to: str = ""

    @property
    def in_force(self) -> str:
        """The congestion control that was chosen last, or that the sockets were found with since."""
        return self.switching.in_force

    @property
    def on_trial(self) -> bool:
        """Whether a switch or a restart has still to prove itself: nothing else is tried meanwhile."""
        return self.switching.trial is not None or self.stuck.trial is not None


@dataclass(frozen=True, slots=True)
class BufferRequests:
    """When the mover may be asked for other send buffers again, and whether a host that grants too little was reported."""

    not_before_s: float = -math.inf
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """The transfer so far. `capped_s` is for how long its cap held it back."""

    bits: float = 0.0
    seconds: float = 0.0
    held: HeldBack | None = None
    capped_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QuietLosses:
    """What own streams lost in `seconds`: in how many samples, and for how much of the time a queue stood. Not counted before `opens_s`."""

    opens_s: float = -math.inf
    seconds: float = 0.0
    bits: float = 0.0
    lost_bits: float = 0.0
    queued_s: float = 0.0
    samples: int = 0


@dataclass(frozen=True, slots=True)
class AwaitsLoaded:
    """The periodic loaded classification."""

    tick: Tick


@dataclass(frozen=True, slots=True)
class AwaitsDenial:
    """Loaded classification of a window that may contradict the `change`; `contradicted` says what the periodic one contradicts."""

    tick: Tick
    contradicted: str
    change: PathChange


@dataclass(frozen=True, slots=True)
class AwaitsProbe:
    """A paused probe, `why` in general and `story` in figures; a switch is compared with `goodput_bps`."""

    tick: Tick
    why: ProbeReason
    story: str
    goodput_bps: float


@dataclass(frozen=True, slots=True)
class ProbeJudgement:
    """What follows from a paused probe: `decision` is None without an answer."""

    tick: Tick
    why: ProbeReason
    story: str
    finished: ProbeFinished
    at_s: float
    change: PathChange | None
    background: Background | None
    decision: Decision | None
    step: SwitchStep


@dataclass(frozen=True, slots=True)
class AwaitsSwitch:
    """The switch that follows from a paused probe."""

    judgement: ProbeJudgement

    @property
    def tick(self) -> Tick:
        """The sample on its way."""
        return self.judgement.tick


@dataclass(frozen=True, slots=True)
class AwaitsReturn:
    """The switch that a trial ended with."""

    tick: Tick
    step: SwitchStep


@dataclass(frozen=True, slots=True)
class AwaitsBuffers:
    """Other send buffers."""

    tick: Tick
    choice: BufferChoice
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class AwaitsStreams:
    """Another stream count; `moved`: the trial that ended with another count than before it. `then` is the stage after it."""

    tick: Tick
    change: optimizer.CountChange
    moved: optimizer.CountTrial | None
    then: "LoopStage"


@dataclass(frozen=True, slots=True)
class AwaitsRestart:
    """The first half of a restart of BBR, and with `back` the second."""

    tick: Tick
    why: str
    back: bool


@dataclass(frozen=True, slots=True)
class AwaitsProof:
    """A switch on trial that no answer chose; `then` is the stage that follows if it is not made."""

    tick: Tick
    step: SwitchStep
    then: "LoopStage"


Pending = (
    AwaitsLoaded | AwaitsDenial | AwaitsProbe | AwaitsSwitch | AwaitsReturn | AwaitsBuffers | AwaitsStreams | AwaitsRestart | AwaitsProof
)


@dataclass(frozen=True, slots=True)
class LoopState:
    """One transfer under way.

    `decision` is what was last decided as a whole; `published` is the same with the stream count that was published last. `floor_s` is the
    least RTT that anything has measured; with `floor_by_echo` the echo alone, since what the sockets have is of an earlier route, or of
    other paths as well. `why_streams` explains the stream count. Nothing is learnt from samples that began before `interrupted_s`.
    `answered_s` is when the background was measured that the transfer began with, and `flows` whether data have begun to flow.
    `notes` are the latest parts of the decision's message that tell what came to be in force.
    """

    equipment: Equipment
    path: PathMeasurement
    decision: Decision
    published: Decision
    applied: bool
    limits: TransportLimits
    history: History
    monitor: BackgroundMonitor
    published_s: float
    interrupted_s: float
    answered_s: float
    flows: bool = False
    floor_s: float | None = None
    floor_by_echo: bool = False
    why_streams: str = ""
    notes: tuple[str, ...] = ()
    before: StatsReading | None = None
    search: optimizer.StreamSearch | None = None
    buffers: BufferRequests = BufferRequests()
    losses: QuietLosses = QuietLosses()
    totals: Totals = Totals()
    pending: Pending | None = None


class LoopStage(Enum):
    """Where a sample goes next."""

    MONITOR = auto()
    BUFFERS = auto()
    LOSSES = auto()
    STREAMS = auto()
    PUBLICATION = auto()
    PROOF = auto()
    RESTART = auto()
    INTERRUPTED = auto()
    """Data were held back, or another congestion control is in force."""
    WAITING = auto()
    """For the answer to the last action."""
    DONE = auto()


class Turn(NamedTuple):
    """What a stage makes of a sample."""

    state: LoopState
    actions: tuple[Action, ...]
    then: LoopStage


def begin(
    path: PathMeasurement,
    decision: Decision,
    limits: TransportLimits,
    history: History,
    equipment: Equipment,
    *,
    applied: bool,
    now_s: float,
    now: datetime,
    decided_at: datetime | None = None,
) -> LoopState:
    """The state before the data, or after a restart in the middle of them. `now_s` is monotonic, `now` the wall clock.

    `decided_at` is when what this transfer measured itself was decided on; None: now.
    """
    background = decision.background
    answered_at = (background.measured_at if background else None) or decided_at or now
    switching = SwitchState(decision.congestion_control)
    windows_s = equipment.windows_s if equipment.monitored else None
    monitor = BackgroundMonitor(
        budget=ProbeBudget(now_s, doubt(decision, now - answered_at)),
        switching=switching,
        detector=change_detector.begin(now_s, path.rtt_minimum_s, probe_budget.awaited(switching.in_force)),
        loaded=None if windows_s is None else loaded.begin(windows_s, now_s, switching.in_force),
        unsure=poolable(decision.background),
        cap_bps=limits.cap_bps,
    )
    return LoopState(
        equipment=equipment,
        path=path,
        decision=decision,
        published=decision,
        applied=applied,
        limits=limits,
        history=history,
        monitor=monitor,
        published_s=now_s,
        interrupted_s=now_s,
        answered_s=now_s - (now - answered_at).total_seconds(),
        floor_s=path.rtt_minimum_s,
    )


def is_alone(decision: Decision) -> bool:
    """Whether the decision is for a path of which a sure answer was that nobody else is there."""
    return decision.reason is DecisionReason.CLASSIFIED and decision.background is not None and decision.background.is_nobody


def poolable(background: Background | None) -> tuple[Background, ...]:
    """An unsure answer, for the next one to be pooled with; one from a novel path would make every later answer abstain."""
    return (background,) if background is not None and background.abstained and not background.novel else ()


def doubt(decision: Decision, age: timedelta) -> ProbeReason | None:
    """Why to probe though nothing changes, with a background that was measured so long ago."""
    if decision.background is None:
        return ProbeReason.UNKNOWN
    if age > OLD:
        return ProbeReason.OLD
    return ProbeReason.UNSURE if decision.abstained else None
