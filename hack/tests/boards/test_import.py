"""The import against a double that holds requests to what Grafana's HTTP API documents."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fairlead_dev.boards.importer import ImportRefusedError, import_boards

TOKEN = "glsa_test"
BOARD = {"uid": "fairlead-goodput", "title": "Fairlead / Goodput", "panels": []}


@dataclass
class GrafanaDouble:
    """What was stored; `refuse` is the status of every answer, if set."""

    address: str = ""
    refuse: int | None = None
    folders: dict[str, str] = field(default_factory=dict)
    boards: dict[str, Any] = field(default_factory=dict)

    def answer(self, path: str, headers: Any, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refuse is not None:
            return self.refuse, {"message": "said so"}
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {"message": "Invalid API key"}
        if headers["Content-Type"] != "application/json" or headers["Accept"] != "application/json":
            return 400, {"message": "bad request data"}
        if path == "/api/folders":
            if body["uid"] in self.folders:
                return 409, {"message": "a folder with the same name already exists"}
            self.folders[body["uid"]] = body["title"]
            return 200, {"id": 1, "uid": body["uid"], "title": body["title"]}
        if path == "/api/dashboards/db":
            board = body["dashboard"]
            if board.get("id") is not None:
                return 404, {"message": "Dashboard not found", "status": "not-found"}
            if body["folderUid"] not in self.folders:
                return 400, {"message": "folder not found"}
            if board["uid"] in self.boards and not body["overwrite"]:
                return 412, {"message": "The dashboard has been changed by someone else", "status": "version-mismatch"}
            self.boards[board["uid"]] = board
            return 200, {"id": 1, "uid": board["uid"], "url": f"/d/{board['uid']}/slug", "status": "success", "version": 1}
        return 404, {"message": "Not found"}


@contextmanager
def grafana() -> Iterator[GrafanaDouble]:
    double = GrafanaDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, answer = double.answer(self.path, self.headers, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        double.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield double
        finally:
            server.shutdown()


def test_boards_are_made_in_a_folder_and_replaced_the_next_time() -> None:
    with grafana() as double:
        page = f"{double.address}/d/fairlead-goodput/slug"
        assert import_boards([BOARD], double.address, TOKEN) == [page]
        assert import_boards([{**BOARD, "id": 7, "version": 2}], double.address + "/", TOKEN) == [page]
        assert double.folders == {"fairlead": "Fairlead"}
        assert double.boards["fairlead-goodput"] == {**BOARD, "id": None, "version": 2}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "set GRAFANA_TOKEN"),
        (403, "role Editor"),
        (404, "no Grafana API at this address"),
        (500, "status 500: said so"),
    ],
)
def test_a_refusal_is_told_with_its_remedy(status: int, said: str) -> None:
    with grafana() as double, pytest.raises(ImportRefusedError, match=said):
        double.refuse = status
        import_boards([BOARD], double.address, TOKEN)


@pytest.mark.parametrize(
    ("address", "token", "said"),
    [
        ("grafana.example.org", TOKEN, "begins with http"),
        ("https://grafana.example.org", None, "GRAFANA_TOKEN is not set"),
        ("http://127.0.0.1:1", TOKEN, "nobody answers"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_sent(address: str, token: str | None, said: str) -> None:
    with pytest.raises(ImportRefusedError, match=said):
        import_boards([BOARD], address, token)
