import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest

from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import LabError, NoAnswerError


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mover here is a thread of a process that a busy machine may keep from working for seconds."""
    monkeypatch.setattr("fairlead_dev.clients.http._PATIENCE_S", 240.0)


@contextmanager
def mover(socket: Path, status: int, body: bytes) -> Iterator[list[Any]]:
    """Answers everything with one answer and keeps what it was sent."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_args: object) -> None:
            return

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            seen.append((self.command, self.path, json.loads(self.rfile.read(length)) if length else None))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PATCH = _answer  # noqa: N815 - the library looks for these names

    with UnixStreamServer(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield seen
        finally:
            server.shutdown()
            thread.join()


def test_a_change_of_transport_is_sent_as_the_contract_has_it(tmp_path: Path) -> None:
    with mover(tmp_path / "s", 200, b'{"congestion_control":"bbr","streams":1}') as seen:
        answer = ask_mover(tmp_path / "s", "PATCH", "/v1/transport", {"congestion_control": "bbr"})
    assert answer == {"congestion_control": "bbr", "streams": 1}
    assert seen == [("PATCH", "/v1/transport", {"congestion_control": "bbr"})]


def test_nobody_there_and_not_ready_are_worth_another_question(tmp_path: Path) -> None:
    with pytest.raises(NoAnswerError):
        ask_mover(tmp_path / "nobody", "GET", "/v1/stats")
    with mover(tmp_path / "s", 503, b"{}"), pytest.raises(NoAnswerError, match="503"):
        ask_mover(tmp_path / "s", "GET", "/v1/stats")


@pytest.mark.parametrize(("status", "body"), [(422, b'{"field":"congestion_control"}'), (200, b"nonsense")])
def test_a_refusal_and_nonsense_are_told_as_they_are(tmp_path: Path, status: int, body: bytes) -> None:
    with mover(tmp_path / "s", status, body), pytest.raises(LabError) as caught:
        ask_mover(tmp_path / "s", "GET", "/v1/stats")
    assert not isinstance(caught.value, NoAnswerError)
