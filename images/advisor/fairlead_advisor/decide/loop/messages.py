"""What goes into the loop's machine and what comes out of it."""

from dataclasses import dataclass

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.loop.observe import HeldBack
from fairlead_advisor.decide.model import Decision, PathMeasurement
from fairlead_advisor.decide.monitor.change_detector import PathSample
from fairlead_advisor.decide.optimizer import CountTrial, Observation
from fairlead_advisor.decide.switching import ControlSwitch, SwitchVerdict
from fairlead_advisor.decide.transfer import MoverStats, TransportSettings

ANSWERED_WITHIN_S = 10.0
"""The time over which `Sampled.answered_ratio` is taken."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The mover's statistics, and what the path monitor measured.

    `rtts_ms`: of the echo replies that came since the sample before. `answered_ratio`: the answered share of the requests of the last
    ANSWERED_WITHIN_S, 0 without any. `called`: the data of another job of ours that sends to the same peer pause now;
    `beside_own_bbr`: one has BBR.
    """

    stats: MoverStats
    rtts_ms: tuple[float, ...] = ()
    answered_ratio: float = 0.0
    called: bool = False
    beside_own_bbr: bool = False


@dataclass(frozen=True, slots=True)
class SamplingFailed:
    """The mover did not answer, or not as the contract has it."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The answer of the classifier; None if the window could not be classified, `failed` if the classifier is to blame."""

    background: Background | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ProbeFinished:
    """A paused probe: for how long data were held back, and what was measured; `path` is None if nothing was, `failure` says why."""

    paused_s: float
    path: PathMeasurement | None
    background: Background | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class TransportApplied:
    """The settings that are in force now."""

    in_force: TransportSettings


@dataclass(frozen=True, slots=True)
class TransportRefused:
    """The mover refused the setting `field`, and nothing was changed."""

    field: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class TransportFailed:
    """The mover did not answer (`retryable`), or not as the contract has it."""

    message: str
    retryable: bool


TransportAnswer = TransportApplied | TransportRefused | TransportFailed
Event = Sampled | SamplingFailed | Classified | ProbeFinished | TransportAnswer


@dataclass(frozen=True, slots=True)
class SetTransport:
    """Request: change settings of the live sockets."""

    wanted: TransportSettings


@dataclass(frozen=True, slots=True)
class Classify:
    """Request: classify the last `window_s` of the path monitor's samples, while data flow."""

    window_s: float


@dataclass(frozen=True, slots=True)
class ProbePaused:
    """Request: hold the data back, probe and classify the path, and let the data flow again; `calls`: our other jobs are to pause too."""

    calls: bool = False


@dataclass(frozen=True, slots=True)
class Publish:
    """The decision from now on; `anew`: it goes on record as a decision of its own, `measured`: it rests on what was measured now."""

    path: PathMeasurement
    decision: Decision
    applied: bool
    anew: bool = False
    measured: bool = False


@dataclass(frozen=True, slots=True)
class ReportObservation:
    """What the transfer was like between two samples; `held` is None from a mover that does not report it."""

    seen: Observation
    held: HeldBack | None


@dataclass(frozen=True, slots=True)
class ReportStreams:
    """A stream count was tried."""

    outcome: CountTrial


@dataclass(frozen=True, slots=True)
class ReportSwitch:
    """The congestion control of the live sockets was switched."""

    before: str
    switch: ControlSwitch


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """The trial of a switch is over."""

    verdict: SwitchVerdict


@dataclass(frozen=True, slots=True)
class ReportProbe:
    """A paused probe: `why` in general and `story` in figures; `sure`: its answer is relied on, `news`: it altered the choice.

    The samples of the probe go on record before it.
    """

    why: str
    story: str
    paused_s: float
    background: Background | None
    sure: bool
    news: bool
    failure: str


@dataclass(frozen=True, slots=True)
class ReportBuffers:
    """The send buffers of the live sockets were set, in bytes; `before` None: the kernel grew them."""

    before: int | None
    after: int
    needed: int
    why: str


@dataclass(frozen=True, slots=True)
class Warn:
    """A line for the log."""

    message: str


Request = SetTransport | Classify | ProbePaused
Report = Publish | ReportObservation | ReportStreams | ReportSwitch | ReportVerdict | ReportProbe | ReportBuffers | Warn
Action = Request | Report


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample on its way through the stages."""

    stats: MoverStats
    seen: Observation
    held: HeldBack | None
    sample: PathSample
    answered_ratio: float
    called: bool = False
    beside_own_bbr: bool = False
