"""Every decision with its outcome, as JSON lines: what `explain` prints and training reads. Bounded, and never in the way of a transfer."""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from fairlead_advisor.errors import OutputError, RecordError
from fairlead_advisor.files import write_atomically
from fairlead_advisor.record.published import VERSION, timestamp

LARGEST_BYTES = 1024 * 1024
LARGEST_READ_BYTES = 16 * LARGEST_BYTES

_log = logging.getLogger(__name__)

Entry = Mapping[str, object]


class EntryKind(StrEnum):
    """What a line holds."""

    DECISION = "decision"
    STREAMS = "streams"
    SWITCH = "switch"
    OUTCOME = "outcome"
    LOOK = "look"
    SURVEY = "survey"
    BUFFER = "buffer"
    END = "end"


class Journal:
    """Appends to one file. Each decision gets a number, and what follows from it carries that number."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self._path = path
        self._now = now
        self._number = 0
        self._failed = False

    def resume(self) -> list[Entry]:
        """Goes on after what an earlier process left, and returns it, oldest first; nothing if there is none to be had."""
        try:
            entries = read_record(self._path)
        except RecordError as error:
            if self._path.exists():
                _log.warning("the record is begun again: %s", error)
                self._replace([])
            return []
        if self._is_cut():
            self._replace([json.dumps(entry) for entry in entries])
        numbers = [number for entry in entries if isinstance(number := entry.get("number"), int)]
        self._number = max(numbers, default=0)
        return entries

    def _is_cut(self) -> bool:
        try:
            return not self._path.read_bytes().endswith(b"\n")
        except OSError:
            return False

    def decided(self, body: Entry) -> None:
        """A decision, in the form that is published."""
        self._number += 1
        self._append(EntryKind.DECISION, body)

    def followed(self, kind: EntryKind, body: Entry) -> None:
        """What followed from the current decision."""
        self._append(kind, body)

    def _append(self, kind: EntryKind, body: Entry) -> None:
        entry = {"version": VERSION, "kind": str(kind), "number": self._number, "at": timestamp(self._now())}
        line = json.dumps({**entry, **{key: value for key, value in body.items() if key not in entry}}) + "\n"
        try:
            if self._path.exists() and self._path.stat().st_size + len(line) > LARGEST_BYTES:
                self._make_room()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            self._complain(f"{self._path}: {error.strerror}")

    def _make_room(self) -> None:
        """Drops the older half: whole lines, so that every reader finds a valid file. The last decision stays: all else is about it."""
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        half = len(lines) // 2
        last = next((index for index in range(len(lines) - 1, -1, -1) if _is_decision(lines[index])), half)
        self._replace([*lines[last : last + 1], *lines[half:]] if last < half else lines[half:])

    def _replace(self, lines: list[str]) -> None:
        try:
            write_atomically(self._path, "".join(f"{line}\n" for line in lines).encode())
        except OutputError as error:
            self._complain(str(error))

    def _complain(self, what: str) -> None:
        # Once: a full disk would otherwise fill the log as well.
        if not self._failed:
            _log.warning("decisions are not recorded: %s", what)
        self._failed = True


def _is_decision(line: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and entry.get("kind") == EntryKind.DECISION


def read_record(path: Path) -> list[Entry]:
    """The entries in `path`, oldest first: a record, or a saved `/v1/decision`. A cut last line is left out: its writer was killed.

    Raises RecordError for anything else.
    """
    remedy = "a record is what `fairlead-advisor run` writes with --record, or the body of its /v1/decision"
    try:
        if not path.is_file():
            raise RecordError(f"{path}: {'is not a regular file' if path.exists() else 'no such file'}: {remedy}")
        if path.stat().st_size > LARGEST_READ_BYTES:
            raise RecordError(f"{path}: has more than {LARGEST_READ_BYTES} bytes: {remedy}")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RecordError(f"{path}: not UTF-8 text: {remedy}") from None
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from None
    lines = text.splitlines()
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines) and not text.endswith("\n") and entries:
                break
            raise RecordError(f"{path}: line {number}: not JSON: {remedy}") from None
        if not isinstance(entry, dict):
            raise RecordError(f"{path}: line {number}: not a JSON object: {remedy}")
        if entry.get("version") != VERSION:
            raise RecordError(f"{path}: line {number}: version {entry.get('version')!r}, this program reads version {VERSION}")
        entries.append(entry if "kind" in entry else {"kind": str(EntryKind.DECISION), "number": 0, **entry})
    return entries
