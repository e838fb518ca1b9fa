"""A watch that goes on: every version of the objects that the API server announces, with the time of arrival."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from fairlead_dev.clients.kubectl import Kubectl, Object, Stream

PATIENCE_S = 60.0
PAUSE_S = 0.5
"""Between the end of a stream and the next one."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One announced version. `kind` is ADDED, MODIFIED or DELETED; `at_s` is monotonic."""

    kind: str
    object: Object
    at_s: float


def parse_stream(chunks: Iterable[str]) -> Iterator[Object]:
    """JSON values that follow one another, however the text is cut into chunks."""
    decoder = json.JSONDecoder()
    buffer = ""
    for chunk in chunks:
        buffer += chunk
        while buffer := buffer.lstrip():
            try:
                value, end = decoder.raw_decode(buffer)
            except json.JSONDecodeError:
                break
            yield value
            buffer = buffer[end:]


class ObjectWatch:
    """Collects the changes of some objects in the background; use it as a context manager.

    The API server ends every watch of a kind whose definition changes. So what has ended is begun again, until no stream lasted or
    brought anything new for `patience_s`. A version is collected once. Between two streams one may pass unseen, and so may a deletion.

    It watches the objects of a kind, the one of that `name`, or those with the labels of `selector`.
    """

    def __init__(
        self,
        kubectl: Kubectl,
        kind: str,
        *,
        namespace: str,
        name: str | None = None,
        selector: str = "",
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin = partial(kubectl.watch, kind, namespace, name=name, selector=selector)
        self._patience_s, self._clock = patience_s, clock
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._changes: list[WatchEvent] = []
        self._seen: set[tuple[str, str, bool]] = set()
        self._stream: Stream = self._begin()
        self._reader = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._left.set()
            self._stream.end()
        self._reader.join(timeout=30)

    def changes(self) -> list[WatchEvent]:
        """Everything announced so far, oldest first."""
        with self._lock:
            return list(self._changes)

    def alive(self) -> bool:
        """Whether the objects are still watched."""
        return self._reader.is_alive()

    def wait_until_ended(self, timeout_s: float) -> None:
        """Waits until the stream is at its end and read. Raises TimeoutError."""
        self._reader.join(timeout=timeout_s)
        if self._reader.is_alive():
            raise TimeoutError(f"the watch still runs after {timeout_s:g} s")

    def _follow(self) -> None:
        """Reads one stream after the other."""
        heard_s = self._clock()
        while True:
            began_s = self._clock()
            if self._read() or self._clock() - began_s >= self._patience_s:
                # A stream that lasted was a watch, though nothing changed.
                heard_s = self._clock()
            if self._clock() - heard_s >= self._patience_s or self._left.wait(PAUSE_S):
                return
            with self._lock:
                if self._left.is_set():
                    return
                self._stream = self._begin()

    def _read(self) -> bool:
        """Collects what a stream has that is new, until it ends. Whether there was anything."""
        before = len(self._changes)
        for event in parse_stream(self._stream):
            kind, found = str(event.get("type", "")), event.get("object", {})
            metadata = found.get("metadata", {})
            version = (str(metadata.get("uid", "")), str(metadata.get("resourceVersion", "")), kind == "DELETED")
            # An error of the server is its last word, and no version of an object.
            if version in self._seen or kind == "ERROR":
                continue
            self._seen.add(version)
            with self._lock:
                self._changes.append(WatchEvent(kind, found, self._clock()))
        return len(self._changes) > before
