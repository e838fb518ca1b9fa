"""What a round of the fairness loop starts from, the jobs, and what it concludes, their shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from fairlead.api.reasons import Reason
from fairlead.api.transferjob.status import CapBound
from fairlead.core.cap_excess import Arrived
from fairlead.core.fairness.meter import CounterReading
from fairlead.core.paths.model import End


class JobStage(Enum):
    """How far a job is, as far as links are concerned."""

    ASKING = "asking"
    """Nothing but the links keeps it from starting."""
    HOLDING = "holding"
    """It has started, or will again after a pause; no data flows."""
    FLOWING = "flowing"
    """Data flows."""


@dataclass(frozen=True, slots=True)
class InterfaceCount:
    """What one interface has carried in one direction, in bytes and when it was read, all traffic included."""

    node: str
    interface: str
    direction: str
    total: CounterReading


@dataclass(frozen=True, slots=True)
class AnnotatedCap:
    """The cap that the running sender's pod has, infinite without one, and since when it is known to."""

    bps: float
    since: float


class Contact(Enum):
    """Whether the sender of a job tells what it sends."""

    NOT_YET = "not yet"
    """Nobody has asked it since this operator began: nothing follows from that."""
    HEARD = "heard"
    """Its last report counts, however old it is: polls may be minutes apart."""
    SILENT = "silent"
    """It was asked in vain for long."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One path of a job that has several: it shares links by itself."""

    source: End
    destination: End
    cap_bps: float | None = None
    """The most that it may send by what was written last; None where that is not known."""
    annotated: AnnotatedCap | None = None
    """The cap in force by its sender's pod; None while no sender runs."""
    sent: CounterReading | None = None
    """IP bytes that this attempt has sent there; None while the sender does not report it."""


@dataclass(frozen=True, slots=True)
class Participant:
    """A job that shares links or asks to, or one lane of it, with the job's UID and its number for its own (`core.fairness.lanes`)."""

    uid: str
    namespace: str
    name: str
    source: End
    destination: End
    stage: JobStage
    weight: float = 100
    guarantee_bps: float = 0.0
    limit_bps: float = math.inf
    priority: int = 0
    gives_way: bool = False
    """It takes what the others leave."""
    asked_at: float = 0.0
    """Since when it waits, for ageing."""
    cap_bps: float | None = None
    """The cap in force by its status."""
    annotated: AnnotatedCap | None = None
    """The cap in force by its sender's pod; None while no sender runs."""
    attempt: int = 0
    sent: CounterReading | None = None
    """IP bytes that this attempt has sent, as the sender's sockets count; None while the sender does not report it."""
    contact: Contact = Contact.HEARD
    counts: tuple[InterfaceCount, ...] = ()
    arrived: Arrived | None = None
    """What the receiver reports of this attempt; None while it does not."""
    lanes: tuple[Lane, ...] = ()
    """Its paths, where there are several and their interfaces are known. It crosses their links, and no others."""
    parts: int = 1
    """Of a lane: how many lanes of the job are on that of its links which most of them cross."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits for a link."""

    link: str
    message: str
    impossible: bool = False
    """However long it waits, its guarantee will not fit."""


@dataclass(frozen=True, slots=True)
class Admissions:
    """Who may start and who waits, by UID."""

    admitted: frozenset[str] = frozenset()
    waiting: dict[str, Waiting] = field(default_factory=dict)
    not_raised: dict[str, str] = field(default_factory=dict)
    """Why jobs that have started do not get the higher guarantee which they want."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What keeps a job's cap from being higher."""

    by: CapBound
    tenant: str | None = None
    """The tenant of the policy that the job belongs to; None without a policy."""
    link: str | None = None
    """The link where it is; None for the job's own limit."""


class Admission(StrEnum):
    """Whether a job may start as far as links are concerned."""

    UNDECIDED = "Undecided"
    ADMITTED = "Admitted"
    WAITING = "Waiting"


@dataclass(frozen=True, slots=True)
class JobShare:
    """What one job may send on the shared links now, or why it waits."""

    admission: Admission
    cap_bps: int | None = None
    """Its share; None if it, or one of its lanes, crosses no link of the policy."""
    path_caps_bps: tuple[int | None, ...] = ()
    """Of a job with lanes: the share of each, which `cap_bps` is the sum of; None for one that crosses no link of the policy."""
    hold: bool = False
    """Leave the cap as it is: nothing is known yet that would change it."""
    at_receiver: bool = False
    """One of the links is what the receiver gets: its pod has the share too."""
    ceiling_bps: int | None = None
    """More than its share can ever be, others' traffic and other jobs left out; None if it crosses no link of the policy."""
    bound: Bound | None = None
    """What keeps its share from being higher; None if it crosses no link of the policy."""
    reason: Reason = Reason.WAITING_FOR_LINK
    message: str = ""
    """Why it waits, or why it has started and gets less than it asks for."""
