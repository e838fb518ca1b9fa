"""JSON over HTTP with the mover's control socket and with ports inside network namespaces. Blocking."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from fairlead_dev.errors import LabError, NoAnswerError
from fairlead_dev.netlab.namespaces import inside

_PATIENCE_S = 3.0


def ask_mover(control: Path, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
    """What the mover answers on its control socket; NoAnswerError without one, LabError naming what it refused."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    return _ask(connection, str(control), method, path, body)


def ask_port(namespace: str, port: int, path: str) -> Any:
    """The answer to GET `path` on the loopback of a network namespace; NoAnswerError and LabError as above."""
    try:
        with inside(namespace):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise NoAnswerError(f"GET {path}: {error}") from None
    return _ask(connection, ("127.0.0.1", port), "GET", path, None)


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
