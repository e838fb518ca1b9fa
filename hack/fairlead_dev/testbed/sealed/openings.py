"""The log of openings: whoever looks at runs on a sealed set says why, and from then on it is a development set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.sealed.sets import FOLDER, Sealed, write_json

LOG = FOLDER / "openings.json"
_SHORTEST_REASON = 12


@dataclass(frozen=True, slots=True)
class LoggedOpening:
    """Who opened what when, and why; `sealed_sha256` names the list, `commit` the code at the opening."""

    date: str
    set: str
    bench: str
    reason: str
    sealed_sha256: str
    commit: str
    measured: str = ""
    """A digest of all that the figures depend on: programs, models, lab, plan. Empty for a bench that does not say."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An opening and which of its set it is: figures of the first are of a sealed set, those of later ones of a development set.

    `commit` is the code of the call that works on it.
    """

    opening: LoggedOpening
    number: int
    commit: str

    @property
    def kind(self) -> str:
        """As the rows of a bench have it."""
        return "sealed" if self.number == 1 else "development"


def read_openings(log: Path = LOG) -> list[LoggedOpening]:
    """All openings, the oldest first. UsageError if the log is damaged."""
    try:
        return [LoggedOpening(**one) for one in json.loads(log.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise CommandUsageError(f"{log}: is no log of openings ({error}): take it from the repository again") from None


def opened(openings: Sequence[LoggedOpening], wanted: LoggedOpening) -> tuple[Opened, bool]:
    """The opening that `wanted` is, and whether it is a new one.

    It goes on with the set's last one if it has the same reason and measures the same. UsageError without a reason: what is not logged
    is not looked at.
    """
    before = [one for one in openings if one.set == wanted.set]
    reason = " ".join(wanted.reason.split())
    if len(reason) < _SHORTEST_REASON:
        times = f"opened {len(before)} time(s) before" if before else "never opened"
        raise CommandUsageError(
            f"these paths are the sealed set {wanted.set!r} ({times}): say with --reason why they are looked at; it is logged in {LOG.name}"
        )
    if before and (before[-1].bench, before[-1].reason, before[-1].measured) == (wanted.bench, reason, wanted.measured):
        return Opened(before[-1], len(before), wanted.commit), False
    return Opened(replace(wanted, reason=reason), len(before) + 1, wanted.commit), True


def open_sealed(sealed: Sealed, wanted: LoggedOpening, log: Path = LOG, uncommitted: Sequence[str] = ()) -> Opened:
    """Logs an opening before anything is measured, unless it goes on with the last one; UsageError as `opened`.

    UsageError too if the checkout has `uncommitted` files: nobody could say later what was measured, or that an opening was logged first.
    """
    sealed.of(wanted.set)
    openings = read_openings(log)
    found, is_new = opened(openings, wanted)
    if any(file.endswith(f"{log.parent.name}/{log.name}") for file in uncommitted):
        raise CommandUsageError(f"{log} has an opening that is in no commit: commit it, then go on with the same command")
    if uncommitted:
        raise CommandUsageError(
            f"{', '.join(uncommitted[:3])}: not as in the last commit: commit or undo that; sealed sets are measured by committed code"
        )
    if is_new:
        write_json(log, [asdict(one) for one in (*openings, found.opening)])
    return found
