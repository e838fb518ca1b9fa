"""Which jobs write into which directories, by what the watches have shown and by what is being begun."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fairlead.core.destinations import DestinationWriter, writer_before, writer_of
from fairlead.handlers.port_ledger import JobUid


class _ClaimWriters:
    """The writers of one claim by directory, so that those above and below one are found without going through all."""

    def __init__(self) -> None:
        self._by_directory: dict[tuple[str, ...], dict[JobUid, DestinationWriter]] = {}
        self._directories: list[tuple[str, ...]] = []
        """Sorted: those below a directory come right after it."""

    def __bool__(self) -> bool:
        return bool(self._directories)

    def put(self, job: JobUid, writer: DestinationWriter) -> None:
        """Takes in a writer that is not there."""
        if writer.directory not in self._by_directory:
            self._by_directory[writer.directory] = {}
            insort(self._directories, writer.directory)
        self._by_directory[writer.directory][job] = writer

    def drop(self, job: JobUid, directory: tuple[str, ...]) -> None:
        """Takes out a writer that is there."""
        of_directory = self._by_directory[directory]
        del of_directory[job]
        if not of_directory:
            del self._by_directory[directory]
            del self._directories[bisect_left(self._directories, directory)]

    def overlapping(self, directory: tuple[str, ...]) -> Iterator[tuple[JobUid, DestinationWriter]]:
        """The writers of the directory, of those that it lies in and of those in it."""
        for length in range(len(directory)):
            yield from self._by_directory.get(directory[:length], {}).items()
        for place in range(bisect_left(self._directories, directory), len(self._directories)):
            below = self._directories[place]
            if below[: len(directory)] != directory:
                return
            yield from self._by_directory[below].items()


class DestinationLedger:
    """Keeps two jobs from writing into one directory at a time. Everything happens on one event loop.

    `is_received` tells whether a receiver of the job may still be running, which outlives the job's end by some seconds.
    """

    def __init__(self, is_received: Callable[[JobUid], bool]) -> None:
        self._is_received = is_received
        self._writers: dict[JobUid, DestinationWriter] = {}
        self._by_claim: dict[tuple[str, str], _ClaimWriters] = defaultdict(_ClaimWriters)
        self._starting: set[JobUid] = set()
        self._waiting: dict[tuple[str, str], set[JobUid]] = {}
        """By the namespace and name of the job that each of them was told to wait for."""

    def put(self, job: JobUid, body: Mapping[str, Any]) -> None:
        """Takes in a version of a job."""
        self.drop(job, is_gone=False)
        writer = writer_of(body)
        if writer is not None:
            self._writers[job] = writer
            self._by_claim[job.namespace, writer.claim].put(job, writer)

    def drop(self, job: JobUid, *, is_gone: bool = True) -> None:
        """Forgets a job."""
        if is_gone:
            self._starting.discard(job)
        writer = self._writers.pop(job, None)
        if writer is not None:
            of_claim = self._by_claim[job.namespace, writer.claim]
            of_claim.drop(job, writer.directory)
            if not of_claim:
                del self._by_claim[job.namespace, writer.claim]

    def writer_before(self, job: JobUid) -> str | None:
        """The name of the job that this one has to wait for before it begins an attempt, None if it need not wait."""
        self._starting.discard(job)
        own = self._writers.get(job)
        if own is None:
            return None
        before = writer_before(own, self._others(job, own))
        if before is None:
            return None
        self._waiting.setdefault((job.namespace, before.name), set()).add(job)
        return before.name

    def take_next(self, namespace: str, name: str) -> list[str]:
        """Names of the jobs that waited for this one and need to wait no more, the oldest first. Each is told once."""
        waiting = self._waiting.pop((namespace, name), set())
        known = [(writer, job) for job in waiting if (writer := self._writers.get(job)) is not None]
        ahead: list[DestinationWriter] = []
        free: list[str] = []
        for own, job in sorted(known, key=lambda each: each[0].age):
            before = next((other for other in ahead if own.overlaps(other)), None) or writer_before(own, self._others(job, own))
            if before is None:
                free.append(own.name)
            else:
                self._waiting.setdefault((namespace, before.name), set()).add(job)
            if own.waits or own.has_begun:
                ahead.append(own)
        return free

    @contextmanager
    def starting(self, job: JobUid, *, begins: bool) -> Iterator[None]:
        """Keeps a directory for a job while the status with which its attempt begins is written, and after a failure until its next
        pass: the write may have landed."""
        if begins:
            self._starting.add(job)
        yield
        self._starting.discard(job)

    def _others(self, job: JobUid, own: DestinationWriter) -> Iterator[DestinationWriter]:
        for other, writer in self._by_claim[job.namespace, own.claim].overlapping(own.directory):
            if other == job:
                continue
            writes = writer.attempt_under_way or other in self._starting or self._is_received(other)
            yield replace(writer, attempt_under_way=True) if writes else writer
