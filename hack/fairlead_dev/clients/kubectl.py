"""kubectl as a library: objects in, objects out, errors with kubectl's output."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Object = dict[str, Any]

REQUEST_TIMEOUT_S = 60.0


class CommandError(RuntimeError):
    """A command that ended with an error; `stderr` is its error output."""

    def __init__(self, command: Sequence[str], returncode: int, stdout: str, stderr: str) -> None:
        self.command, self.returncode, self.stdout, self.stderr = tuple(command), returncode, stdout, stderr
        super().__init__(f"`{' '.join(command[:12])}` ended with exit code {returncode}: {(stderr or stdout).strip()[-2000:]}")


def run(
    command: Sequence[str],
    stdin: str | bytes | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Standard output of a command, with `environment` beside what this process has. Raises CommandError where it fails or takes longer
    than `timeout_s`."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(
            command,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as expired:
        raise CommandError(command, 124, "", f"no end within {timeout_s:g} s") from expired
    except OSError as error:
        raise CommandError(command, 127, "", f"cannot be started: {error.strerror or error}") from error
    if done.returncode:
        raise CommandError(command, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    return done.stdout


class Stream(Protocol):
    """The JSON text of a watch, as it comes."""

    def __iter__(self) -> Iterator[str]:
        """Pieces of the text, until the watch ends."""
        ...

    def end(self) -> None:
        """Ends the watch, also while another thread waits for more of it."""
        ...


class ProcessStream:
    """What a command prints."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)

    def __iter__(self) -> Iterator[str]:
        stream = self._process.stdout
        if stream is not None:
            with stream:
                yield from stream
        self._process.wait()

    def end(self) -> None:
        """Ends the command."""
        self._process.terminate()
        self._process.wait(timeout=30)


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl behind a command prefix, for example `("hack/cluster/cluster", "kubectl")`."""

    prefix: tuple[str, ...]

    def command(self, *arguments: str, namespace: str | None = None) -> tuple[str, ...]:
        """The whole command line."""
        return (*self.prefix, *(("-n", namespace) if namespace else ()), *arguments)

    def run(
        self, *arguments: str, namespace: str | None = None, stdin: str | bytes | None = None, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> str:
        """What kubectl prints. Raises CommandError."""
        return run(self.command(*arguments, namespace=namespace), stdin, timeout_s).decode(errors="replace")

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, None where it does not exist."""
        text = self.run("get", kind, name, "-o", "json", "--ignore-not-found", namespace=namespace)
        return _object(text) if text.strip() else None

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """All objects of a kind that carry the labels of `selector`; of every namespace where none is given."""
        scope = () if namespace else ("-A",)
        labels = ("-l", selector) if selector else ()
        items = _object(self.run("get", kind, "-o", "json", *scope, *labels, namespace=namespace))["items"]
        return list(items)

    def create(self, made: Mapping[str, Any]) -> None:
        """Creates an object; the API server's refusal is a CommandError."""
        self.run("create", "-f", "-", stdin=json.dumps(made))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Applies objects; the API server's refusal is a CommandError."""
        self.run("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def patch(self, kind: str, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> None:
        """A JSON merge patch."""
        self.run("patch", kind, name, "--type=merge", "-p", json.dumps(patch), namespace=namespace)

    def delete(self, kind: str, names: Iterable[str], namespace: str | None = None, wait_s: float | None = 60) -> None:
        """Deletes what exists of `names`; waits until they are gone for at most `wait_s`, or not at all with None."""
        waiting = ("--wait=false",) if wait_s is None else ("--wait=true", f"--timeout={wait_s:g}s")
        some = tuple(names)
        if some:
            self.run(
                "delete", kind, *some, "--ignore-not-found", *waiting, namespace=namespace, timeout_s=(wait_s or 0) + REQUEST_TIMEOUT_S
            )

    def delete_all(self, kind: str, namespace: str, wait_s: float | None = 60) -> None:
        """Deletes all objects of a kind in a namespace, and waits as `delete` does."""
        self.delete(kind, [each["metadata"]["name"] for each in self.list(kind, namespace)], namespace, wait_s)

    def watch(self, kind: str, namespace: str, *, name: str | None = None, selector: str = "") -> Stream:
        """A watch of the objects of a kind, of the one of that name, or of those with the labels of `selector`."""
        # Given a name, kubectl drops the first event of its watch, taking it for what it has read already. But the object may have changed
        # between the two.
        one = () if name is None else (f"--field-selector=metadata.name={name}",)
        labels = ("-l", selector) if selector else ()
        shown = ("-o", "json", "--watch", "--output-watch-events")
        return ProcessStream(self.command("get", kind, *one, *labels, *shown, namespace=namespace))


def _object(text: str) -> Object:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"kubectl printed a {type(value).__name__} where an object was expected")
    return value
