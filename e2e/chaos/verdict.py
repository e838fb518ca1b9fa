"""What is held against a transfer that was disturbed: pure, over what both ends and the API server showed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from e2e.chaos.disturbances import Expectation
from e2e.lib import history
from e2e.lib.movers import most_senders_at_once
from fairlead_dev.clients.kubectl import Object
from fairlead_dev.clients.watch import WatchEvent
from fairlead_dev.trees.listing import Listing, compare

MISSED = "the transfer was over before its disturbance took place"
"""Why a round is skipped."""
Problem = Literal["", "wrong tree", "stuck", "noticed", "two senders", "failed", "left behind"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a round came to. `problem` is empty where all is well."""

    round: str
    problem: Problem
    detail: str
    ended: str
    """`Succeeded`, or the reason with which the job failed; empty where it did not end."""
    attempts: int
    seconds: float
    commit: str = ""
    """Of what was tried; empty until it is kept."""
    missed: bool = False
    """Whether the data had been sent before the disturbance took place: the round says nothing of it, and is drawn and run again."""

    def to_json(self) -> dict[str, Any]:
        """As a line of the run's file."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Self:
        """From such a line."""
        return cls(**line)


@dataclass(frozen=True, slots=True)
class Ending:
    """A transfer that has ended, as it was seen."""

    job: Object
    source_before: Listing
    source: Listing
    destination: Listing
    partial_files: Sequence[bytes]
    pods: Sequence[WatchEvent]

    @property
    def reason(self) -> str:
        """`Succeeded`, or the reason with which the job failed."""
        failed = history.condition(self.job, "Failed")
        return str(failed["reason"]) if failed is not None and failed["status"] == "True" else "Succeeded"

    @property
    def attempts(self) -> int:
        """How many the job needed."""
        return int(self.job.get("status", {}).get("attempts", 0))


def judged(ending: Ending, expected: Expectation) -> tuple[Problem, str]:
    """What is wrong with an ending, and the evidence."""
    senders = most_senders_at_once(ending.pods)
    if senders > 1:
        return "two senders", f"{senders} senders had not ended at the same time"
    if ending.reason == "Succeeded":
        sources = [ending.source, *([ending.source_before] if expected.source_changes else [])]
        differences = [[str(each) for each in compare(source, ending.destination)] for source in sources]
        if all(differences):
            return "wrong tree", "; ".join(min(differences, key=len)[:3])
    elif ending.reason not in expected.failures:
        return "failed", f"{ending.reason}: {_message(ending.job)}"
    elif wrong := _wrong_files(ending):
        return "wrong tree", f"a failed job left other content under final names: {', '.join(wrong[:3])}"
    if ending.reason == "Succeeded" and ending.partial_files:
        return "left behind", f"{len(ending.partial_files)} partial files, such as {ending.partial_files[0]!r}"
    if not expected.notices and ending.attempts > 1:
        failure = ending.job.get("status", {}).get("lastFailure", {})
        return "noticed", f"{ending.attempts} attempts: {failure.get('reason')}: {failure.get('message')}"
    return "", ""


def _wrong_files(ending: Ending) -> list[str]:
    """Files under final names whose content is neither the source's before nor after."""
    right = {entry.sha256 for listing in (ending.source_before, ending.source) for entry in listing.values() if entry.kind == "f"}
    return [
        repr(path)
        for path, entry in ending.destination.items()
        if entry.kind == "f" and b".fairlead-" not in path and entry.sha256 not in right
    ]


def _message(job: Object) -> str:
    failed = history.condition(job, "Failed")
    return "" if failed is None else str(failed["message"])
