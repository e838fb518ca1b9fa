"""What job workers ask of placement and what they are told. Nothing is kept that the objects do not show: a restart loses nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.dtn import TransferNode
from fairlead.core.observed import Observed
from fairlead.core.placement import Board, place_all
from fairlead.core.placement.model import Answer, Holding, Placement, Request, Waits
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.known_job import KnownJob

LEAST_PAUSE_SECONDS = 1.0
"""Between two passes over all jobs."""
_MOST_BUSY = 0.1
"""The part of the time that passes may take."""


class PlacementStore:
    """Answers requests from one board until it is `LEAST_PAUSE_SECONDS` old, then from the next pass over all that wait.

    `jobs` gives all jobs, `nodes` the data transfer nodes, `open_bps` what shared links leave to jobs on each interface, by
    node and name; `wall` is a clock in seconds of Unix time, `monotonic` one that
    only counts. Everything happens on one event loop: between an answer and the write that follows nobody else is told the same slot.
    """

    def __init__(
        self,
        *,
        jobs: Callable[[], Iterable[KnownJob]],
        nodes: Callable[[], Mapping[str, TransferNode]],
        wall: Callable[[], float],
        monotonic: Callable[[], float],
        open_bps: Callable[[], Mapping[tuple[str, str], float]] = dict,
    ) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._wall = wall
        self._monotonic = monotonic
        self._open_bps = open_bps
        self._board: Board | None = None
        self._made_at = 0.0
        self._took_seconds = 0.0
        self._requests: dict[ObjectKey, Request] = {}
        self._answers: dict[str, Answer] = {}
        self._starting: dict[str, Placement] = {}
        self._news: set[ObjectKey] = set()

    @property
    def waiting(self) -> int:
        """How many jobs wait for a place, or for something else beside it."""
        return sum(self._is_open(request) for request in self._requests.values())

    def answer(self, key: ObjectKey, observed: Observed, request: Request | None) -> Answer | None:
        """Where the job's next attempt runs, or why it waits; None where no data transfer node is known, or it asks for nothing."""
        uid = observed.job.metadata.uid
        starting = self._still_starting(uid, observed)
        if request is None or not self._nodes():
            self._forget_request(key)
            return starting if request is None else None
        if starting is not None:
            return starting
        before = self._requests.get(key)
        self._requests[key] = request
        if self._board is None or self._is_due():
            self.renew()
            self._news.discard(key)
            return self._answers[uid]
        known = self._answers.get(uid)
        # Since when it waits matters for the order of a pass alone, and what it has on this board it keeps until the next one.
        if known is not None and before is not None and _wants_the_same(before, request, has_place=isinstance(known, Placement)):
            return known
        answer = self._answers[uid] = self._board.place(request)
        return answer

    @contextmanager
    def starting(self, uid: str, answer: Answer | None, status: TransferJobStatus | None) -> Iterator[None]:
        """Holds to a placement while the status with which its attempt begins is written, and after a failure until it is."""
        begins = isinstance(answer, Placement) and status is not None and status.attempts == answer.attempt
        if begins and isinstance(answer, Placement):
            self._starting[uid] = answer
        yield
        self._starting.pop(uid, None)

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job that is gone."""
        request = self._forget_request(key)
        if request is not None:
            self._starting.pop(request.uid, None)

    def renew(self) -> None:
        """A pass over all jobs that wait."""
        began = self._monotonic()
        before = dict(self._answers)
        waiting = [request for request in self._requests.values() if request.uid not in self._starting]
        with without_collection():
            self._board, answers = place_all(self._nodes(), self._holdings(), waiting, self._wall(), self._open_bps())
        self._answers = answers
        self._made_at = self._monotonic()
        self._took_seconds = self._made_at - began
        self._news.update(
            key
            for key, request in self._requests.items()
            if request.uid in answers and _gist(before.get(request.uid)) != _gist(answers[request.uid])
        )

    def take_news(self) -> frozenset[ObjectKey]:
        """The jobs that passes have told something else than before, since the last call."""
        news, self._news = frozenset(self._news & self._requests.keys()), set()
        return news

    def is_worth_renewing(self) -> bool:
        """Whether jobs wait, and the last pass is long enough ago."""
        return self._board is not None and self._is_due() and any(map(self._is_open, self._requests.values()))

    def _is_open(self, request: Request) -> bool:
        return request.tentative or isinstance(self._answers.get(request.uid), Waits)

    def _is_due(self) -> bool:
        return self._monotonic() - self._made_at >= max(LEAST_PAUSE_SECONDS, self._took_seconds / _MOST_BUSY)

    def _holdings(self) -> list[Holding]:
        held: dict[str, Holding] = {}
        for job in self._jobs():
            if job.holding is not None:
                held[job.uid] = job.holding
            elif (placement := self._starting.get(job.uid)) is not None:
                held[job.uid] = Holding(job.namespace, (placement.source, placement.destination))
        return list(held.values())

    def _still_starting(self, uid: str, observed: Observed) -> Placement | None:
        """The placement of an attempt whose beginning may not be in the status yet, as the write failed or its answer was lost."""
        starting = self._starting.get(uid)
        if starting is None:
            return None
        status, next_attempt = observed.job.status, observed.latest_attempt + (0 if observed.attempt_under_way else 1)
        if status.finished or observed.job.spec.suspend or (status.attempts or 0) >= starting.attempt or next_attempt != starting.attempt:
            del self._starting[uid]
            return None
        return starting

    def _forget_request(self, key: ObjectKey) -> Request | None:
        request = self._requests.pop(key, None)
        if request is not None:
            self._answers.pop(request.uid, None)
        return request


@contextmanager
def without_collection() -> Iterator[None]:
    """Without a search for cycles among the many small objects that a pass makes and keeps, which would take a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _wants_the_same(before: Request, request: Request, *, has_place: bool) -> bool:
    tentative = request.tentative if not has_place or not before.tentative else before.tentative
    return replace(before, asked_at=request.asked_at, tentative=tentative) == request


def _gist(answer: Answer | None) -> object:
    """What of an answer matters to its job."""
    return (answer.source, answer.destination) if isinstance(answer, Placement) else answer.reason if answer is not None else None
