"""Polls running movers and their advisors. What they answer is information for people, never a verdict, and only its form is checked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeVar

from fairlead.api.reasons import Reason
from fairlead.core.observed import MoverPod, Role, latest_attempt_of, running_movers
from fairlead.core.reports import Advice, MoverEndpoint, MoverProgress, ReportRefusal, Reports
from fairlead.kube.observe.advice import DecisionAnswer, read_advice
from fairlead.kube.observe.answers import EndpointAnswer, ProgressAnswer, read_endpoint, read_progress
from fairlead.kube.observe.fetch import FetchError, fetch
from fairlead.kube.observe.forms import LARGEST_BODY_BYTES, ReportError, parse_message
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_HTTP
from fairlead.kube.observe.turns import NotNowError, PollTarget, PollTurns

TIMEOUT_SECONDS = 2.0
KEPT_SECONDS = 30.0
"""For how long the last good report of a mover counts at least while it gives no other."""
UNHEARD_SECONDS = 20.0
"""For how long it was asked in vain before a report that is as old as that counts no more: a job that is polled once in minutes is asked
several times by then."""
MOST_EXCUSED = 10
"""Answers of a pod in a row that may have come too late for want of time in this process: beyond that it is silent all the same."""
SETTLED_SECONDS = 600.0
"""An endpoint does not change, as no mover is started again in its pod: where both ends run it is asked for again after so long."""
UNSETTLED_SECONDS = 15.0
"""And where one end runs alone: it may be alone because its endpoint was refused."""

Report = MoverEndpoint | MoverProgress | Advice
ReportT = TypeVar("ReportT", MoverEndpoint, MoverProgress, Advice)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whom a page was asked of, and when its answer came, in Unix time."""

    job_uid: str
    pod: MoverPod
    at: float


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that a pod serves: its name in messages, its path, and the most bytes of its body. `take` reads what that says, None if it is
    of another job, attempt or role, and raises ReportError.
    """

    name: str
    path: str
    take: Callable[[bytes, _Asked], Report | None]
    most_bytes: int


def _take_endpoint(body: bytes, asked: _Asked) -> MoverEndpoint | None:
    return read_endpoint(parse_message(EndpointAnswer, body), asked.pod.role)


def _take_progress(body: bytes, asked: _Asked) -> MoverProgress | None:
    return read_progress(parse_message(ProgressAnswer, body), asked.at, asked.job_uid, asked.pod.attempt, asked.pod.role)


def _take_decision(body: bytes, _: _Asked) -> Advice:
    return read_advice(parse_message(DecisionAnswer, body))


_ENDPOINT = _Page("endpoint", "/v1/endpoint", _take_endpoint, 4 * 1024)
_PROGRESS = _Page("progress", "/v1/progress", _take_progress, 8 * 1024)
_DECISION = _Page("decision", "/v1/decision", _take_decision, LARGEST_BODY_BYTES)
PATHS: Final = tuple(page.path for page in (_ENDPOINT, _PROGRESS, _DECISION))


@dataclass(frozen=True, slots=True)
class _Heard:
    """The last good report of a page, with when it was read in Unix time, and what was wrong with the one after it. `unheard_since` is
    when it was first asked for in vain after that, None if it was not. Of thousands the answers themselves would take ten times as much."""

    report: Report | None = None
    read_at: float = 0.0
    problem: str | None = None
    unheard_since: float | None = None


class _Outcome(Enum):
    """What asking a server came to."""

    ANSWERED = auto()
    SILENT = auto()
    NOT_ASKED = auto()


_Memory = dict[tuple[str, str], _Heard]
"""By pod UID and path."""


class AdvisorSilences:
    """Remembers, by job, which sender was first seen to transfer without a decision, and when. Forgotten with the operator."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def forget(self, job_uid: str) -> None:
        """Forgets a job whose movers do not run any more."""
        self._since.pop(job_uid, None)

    def note(self, job_uid: str, sender: MoverPod | None, progress: MoverProgress | None, *, decided: bool) -> float:
        """Takes in one poll of a running sender (None if there is none) and returns the seconds so far.

        `progress` is the mover's answer, `decided` whether the advisor answered. Without the sender's own answer nothing is proven.
        """
        if sender is None or decided or (progress is not None and not progress.flows):
            self._since.pop(job_uid, None)
            return 0.0
        if progress is None:
            return 0.0
        known = self._since.get(job_uid)
        if known is None or known[0] != sender.uid:
            known = self._since[job_uid] = sender.uid, progress.read_at
        return max(0.0, progress.read_at - known[1])


class ReportReader:
    """Polls the pods of jobs, and keeps their last good reports.

    Only the address that the API server shows for a pod of ours is dialled, only ports from `ports`, and no redirect is followed.
    `wall` is Unix time; `on_failure` gets the path of every poll that got no usable answer; `turns` bounds the polls under way.
    `was_late` tells whether this process had too much else to do within the last seconds to conclude anything from an answer's absence.
    """

    def __init__(
        self,
        ports: range,
        *,
        wall: Callable[[], float],
        turns: PollTurns | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        on_failure: Callable[[str], None] = lambda path: None,
        was_late: Callable[[float], bool] = lambda seconds: False,
    ) -> None:
        self._was_late = was_late
        self._ports = ports
        self._wall = wall
        self._turns = turns if turns is not None else PollTurns(wall)
        self._timeout_seconds = timeout_seconds
        self._on_failure = on_failure
        self._memories: dict[str, _Memory] = {}
        self._silences = AdvisorSilences()
        self._silent_seconds: dict[str, float] = {}
        self._excused: Counter[str] = Counter()
        """By pod UID, how many of its answers in a row may have been missed here."""

    async def read(self, job_uid: str, pods: Sequence[MoverPod], tenant: str = "") -> Reports:
        """Asks the newest attempt's running pods at once, as far as it is their turn, and returns what is known then."""
        memory = self._memories.setdefault(job_uid, {})
        self._forget_pods(memory, {pod_uid for pod_uid, _ in memory} - {pod.uid for pod in pods})
        receiver, sender = running_movers(pods)
        asked_at, settled_seconds = self._wall(), SETTLED_SECONDS if receiver and sender else UNSETTLED_SECONDS
        _, _, advised = await asyncio.gather(
            self._ask(job_uid, receiver, PORT_HTTP, self._due(job_uid, receiver, settled_seconds), tenant),
            self._ask(job_uid, sender, PORT_HTTP, self._due(job_uid, sender, settled_seconds), tenant),
            self._ask(job_uid, sender, PORT_ADVISOR, (_DECISION,), tenant),
        )
        self._note_silence(job_uid, sender, asked_at, advised)
        return self.known(job_uid, pods)

    def known(self, job_uid: str, pods: Sequence[MoverPod]) -> Reports:
        """The last good reports of the newest attempt's running pods, none asked for in vain for long; None where there is none."""
        memory, now = self._memories.get(job_uid, {}), self._wall()
        receiver, sender = running_movers(pods)
        told, _ = _last(memory, sender, _DECISION, Advice, now)
        advice = told or _left_behind(pods)
        receiver_progress, receiver_age = _last(memory, receiver, _PROGRESS, MoverProgress, now)
        sender_progress, sender_age = _last(memory, sender, _PROGRESS, MoverProgress, now)
        return Reports(
            receiver_endpoint=_endpoint(memory, receiver),
            sender_endpoint=_endpoint(memory, sender),
            receiver=receiver_progress,
            sender=sender_progress,
            receiver_age_seconds=receiver_age,
            sender_age_seconds=sender_age,
            receiver_unheard_seconds=_unheard_seconds(memory, receiver, _PROGRESS, now),
            endpoint_unheard_seconds=_unheard_seconds(memory, receiver, _ENDPOINT, now),
            sender_unheard_seconds=_unheard_seconds(memory, sender, _PROGRESS, now),
            advisor_unheard_seconds=_unheard_seconds(memory, sender, _DECISION, now),
            path=advice.path if advice else None,
            decision=advice.decision if advice else None,
            outcome=advice.outcome if advice else None,
            advisor_silent_seconds=self._silent_seconds.get(job_uid, 0.0) if sender else 0.0,
            refusals=tuple(refusal for pod in (receiver, sender) for refusal in _refusals(memory, pod)),
        )

    def forget(self, job_uid: str) -> None:
        """Forgets a job whose movers do not run any more."""
        memory = self._memories.pop(job_uid, {})
        self._forget_pods(memory, {pod_uid for pod_uid, _ in memory})
        self._silent_seconds.pop(job_uid, None)
        self._silences.forget(job_uid)

    def _forget_pods(self, memory: _Memory, gone: set[str]) -> None:
        for pod_uid in gone:
            self._turns.forget(pod_uid)
            self._excused.pop(pod_uid, None)
        for key in [key for key in memory if key[0] in gone]:
            del memory[key]

    async def _ask(self, job_uid: str, pod: MoverPod | None, port_name: str, pages: Sequence[_Page], tenant: str) -> _Outcome:
        """Asks one server of a pod for `pages` in one turn."""
        if pod is None or pod.port_base is None or pod.port_base + OFFSETS[port_name] not in self._ports:
            return _Outcome.NOT_ASKED
        target = PollTarget(pod.uid, pod.port_base + OFFSETS[port_name], pod.ready, node=pod.node or "", tenant=tenant)
        try:
            async with self._turns.turn(target):
                # Mostly it is one, which needs no task of its own.
                reads = [self._read_page(job_uid, pod, target.port, page) for page in pages]
                outcomes = [await reads[0]] if len(reads) == 1 else await asyncio.gather(*reads)
        except NotNowError as error:
            return _Outcome.SILENT if error.is_silent else _Outcome.NOT_ASKED
        if _Outcome.SILENT in outcomes:
            self._turns.was_silent(target)
            return _Outcome.SILENT
        if _Outcome.NOT_ASKED in outcomes:
            return _Outcome.NOT_ASKED
        self._turns.answered(target)
        self._excused.pop(pod.uid, None)
        return _Outcome.ANSWERED

    def _due(self, job_uid: str, pod: MoverPod | None, settled_seconds: float) -> Sequence[_Page]:
        """What a mover is asked for: its progress, and its endpoint unless that is known for less than `settled_seconds`."""
        heard = _heard(self._memories.get(job_uid, {}), pod, _ENDPOINT)
        if heard is None or heard.report is None or heard.problem is not None:
            return (_ENDPOINT, _PROGRESS)
        return (_PROGRESS,) if 0.0 <= self._wall() - heard.read_at < settled_seconds else (_ENDPOINT, _PROGRESS)

    async def _read_page(self, job_uid: str, pod: MoverPod, port: int, page: _Page) -> _Outcome:
        """Takes in one page. A server that kept us waiting, or answered something unusable, is silent."""
        key, memory = (pod.uid, page.path), self._memories.setdefault(job_uid, {})
        heard = memory.get(key, _Heard())
        unheard = replace(heard, unheard_since=self._wall() if heard.unheard_since is None else heard.unheard_since)
        try:
            body = await self._fetch(pod.address or "", port, page.path, page.most_bytes)
            # When it came: counters make rates, so the time that other answers take must not count.
            asked = _Asked(job_uid, pod, self._wall())
            report = None if body is None else page.take(body, asked)
            memory[key] = replace(unheard, problem=None) if report is None else _Heard(report, asked.at)
        except FetchError as error:
            self._on_failure(page.path)
            if error.is_timeout and self._excused[pod.uid] < MOST_EXCUSED and self._was_late(self._timeout_seconds):
                # It may have answered in time.
                self._excused[pod.uid] += 1
                return _Outcome.NOT_ASKED
            memory[key] = unheard
            return _Outcome.SILENT if error.is_costly else _Outcome.ANSWERED
        except ReportError as error:
            self._on_failure(page.path)
            memory[key] = replace(unheard, problem=str(error))
            return _Outcome.SILENT
        return _Outcome.ANSWERED

    async def _fetch(self, host: str, port: int, path: str, most_bytes: int) -> bytes | None:
        """The body, None if the mover has no answer yet (503). Raises FetchError."""
        return await fetch(host, port, path, timeout_seconds=self._timeout_seconds, most_bytes=most_bytes)

    def _note_silence(self, job_uid: str, sender: MoverPod | None, asked_at: float, advised: _Outcome) -> None:
        """Takes in for how long the advisor has been silent, unless it was not asked or has heard too little of the sender itself."""
        if advised is _Outcome.NOT_ASKED and sender is not None:
            return
        memory = self._memories.get(job_uid, {})
        progress, _ = _last(memory, sender, _PROGRESS, MoverProgress, self._wall())
        fresh = progress if progress is not None and progress.read_at >= asked_at else None
        decision = _heard(memory, sender, _DECISION)
        decided = decision is not None and decision.report is not None and decision.read_at >= asked_at
        self._silent_seconds[job_uid] = self._silences.note(job_uid, sender, fresh, decided=decided)


def _heard(memory: _Memory, pod: MoverPod | None, page: _Page) -> _Heard | None:
    return memory.get((pod.uid, page.path)) if pod is not None else None


def _last(memory: _Memory, pod: MoverPod | None, page: _Page, kind: type[ReportT], now: float) -> tuple[ReportT | None, float]:
    """The last good report of a page and its age in seconds; None if it has been asked for in vain for too long."""
    heard = _heard(memory, pod, page)
    if heard is None or not isinstance(heard.report, kind):
        return None, 0.0
    age_seconds = max(0.0, now - heard.read_at)
    is_lost = heard.unheard_since is not None and now - heard.unheard_since >= UNHEARD_SECONDS
    return (None, 0.0) if is_lost and age_seconds > KEPT_SECONDS else (heard.report, age_seconds)


def _unheard_seconds(memory: _Memory, pod: MoverPod | None, page: _Page, now: float) -> float | None:
    heard = _heard(memory, pod, page)
    return None if heard is None or heard.unheard_since is None else max(0.0, now - heard.unheard_since)


def _endpoint(memory: _Memory, pod: MoverPod | None) -> MoverEndpoint | None:
    """The endpoint, however old: it is the pod's as long as the pod runs."""
    heard = _heard(memory, pod, _ENDPOINT)
    return heard.report if heard is not None and isinstance(heard.report, MoverEndpoint) else None


def _refusals(memory: _Memory, pod: MoverPod | None) -> tuple[ReportRefusal, ...]:
    """The pages of a pod that were refused when they were last read."""
    if pod is None:
        return ()
    pages = ((page, memory.get((pod.uid, page.path))) for page in (_ENDPOINT, _PROGRESS, _DECISION))
    problems = ((page.name, heard.problem) for page, heard in pages if heard is not None and heard.problem is not None)
    return tuple(
        ReportRefusal(pod.role.value, Reason.REPORT_MALFORMED, f"what it answers at /v1/{name} is refused: {problem}")
        for name, problem in problems
    )


def _left_behind(pods: Sequence[MoverPod]) -> Advice | None:
    """What the latest sender's sidecar left when it ended."""
    latest = latest_attempt_of(pods)
    return next((pod.advice for pod in pods if pod.role is Role.SENDER and pod.attempt == latest), None)
