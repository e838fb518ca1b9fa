"""A watch through `kubectl get --watch`: every version of the objects that the API server announces, with the time of arrival."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from fairlead_dev.clients.kubectl import Kubectl, Object


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


class KubectlWatch:
    """Collects the changes of some objects in the background; use it as a context manager."""

    def __init__(self, kubectl: Kubectl, *what: str, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        command = kubectl.command("get", *what, "-o", "json", "--watch", "--output-watch-events", namespace=namespace)
        self._clock = clock
        self._lock = threading.Lock()
        self._changes: list[WatchEvent] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        self._reader.join(timeout=30)

    def changes(self) -> list[WatchEvent]:
        """Everything announced so far, oldest first."""
        with self._lock:
            return list(self._changes)

    def alive(self) -> bool:
        """Whether kubectl still watches."""
        return self._process.poll() is None

    def wait_until_ended(self, timeout_s: float) -> None:
        """Waits until the stream is at its end and read. Raises TimeoutError."""
        self._reader.join(timeout=timeout_s)
        if self._reader.is_alive():
            raise TimeoutError(f"the watch still runs after {timeout_s:g} s")

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        for event in parse_stream(stream):
            with self._lock:
                self._changes.append(WatchEvent(str(event.get("type", "")), event.get("object", {}), self._clock()))
