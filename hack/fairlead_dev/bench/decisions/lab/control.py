"""Questions to the mover's control socket and to the advisor's HTTP. Blocking, for a thread of its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from fairlead_dev.testbed.errors import LabError
from fairlead_dev.testbed.lab.kernel import inside

_PATIENCE_S = 3.0


class NoAnswerError(LabError):
    """Nobody answers there now; somebody may later."""


def ask_mover(control: Path, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
    """What the mover answers on its control socket; NoAnswerError without one, LabError naming what it refused."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    return _ask(connection, str(control), method, path, body)


def ask_advisor(namespace: str, port: int) -> Any:
    """The decision that stands; NoAnswerError before there is one."""
    with inside(namespace):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    return _ask(connection, ("127.0.0.1", port), "GET", "/v1/decision", None)


def _ask(connection: socket.socket, address: Any, method: str, path: str, body: Mapping[str, object] | None) -> Any:
    where = f"{method} {path}"
    with connection:
        connection.settimeout(_PATIENCE_S)
        # HTTPConnection does everything but connecting, which it would do over TCP in this namespace.
        http = HTTPConnection("localhost")
        http.sock = connection
        try:
            connection.connect(address)
            content = None if body is None else json.dumps(body)
            http.request(method, path, content, {"Connection": "close", "Content-Type": "application/json"})
            answer = http.getresponse()
            text = answer.read()
        except (OSError, HTTPException) as error:
            raise NoAnswerError(f"{where}: {error!r}") from None
        finally:
            http.close()
    if answer.status >= 500:
        raise NoAnswerError(f"{where}: status {answer.status}")
    if answer.status != 200:
        raise LabError(f"{where}: status {answer.status}: {text[:300].decode(errors='replace')}")
    try:
        return json.loads(text)
    except ValueError:
        raise LabError(f"{where}: the answer is not JSON: {text[:100]!r}") from None
