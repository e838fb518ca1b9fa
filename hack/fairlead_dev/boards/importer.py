"""Imports the boards into a Grafana by its HTTP API. Needs the standard library alone."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead_dev.boards.reading import Board
from fairlead_dev.errors import CommandUsageError

FOLDER_UID: Final = "fairlead"
FOLDER_TITLE: Final = "Fairlead"
_TIMEOUT_S: Final = 30.0
_REMEDIES: Final[Mapping[int, str]] = {
    401: "the token is not valid: make one for a service account under Administration, Service accounts, and set GRAFANA_TOKEN to it",
    403: "the token's service account may not do this: give it the role Editor",
    404: "there is no Grafana API at this address: give the address under which Grafana's pages are, with its path if it has one",
}


class ImportRefusedError(CommandUsageError):
    """Grafana refused, or there is none at the address; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Grafana:
    """A Grafana server, and the token of a service account in it."""

    address: str
    token: str

    def make_folder(self) -> None:
        """The folder for the boards, unless it is there (`POST /api/folders`)."""
        status, answer = self._post("/api/folders", {"uid": FOLDER_UID, "title": FOLDER_TITLE})
        if status not in (200, 409, 412):
            raise self._refusal(status, answer, f"the folder {FOLDER_TITLE}")

    def put(self, board: Board) -> str:
        """Makes or replaces a board (`POST /api/dashboards/db`); the address of its page."""
        body = {"dashboard": {**board, "id": None}, "folderUid": FOLDER_UID, "overwrite": True, "message": "Imported from Fairlead"}
        status, answer = self._post("/api/dashboards/db", body)
        if status != 200:
            raise self._refusal(status, answer, f"the board {board['title']}")
        return urllib.parse.urljoin(self.address, str(answer["url"]))

    def _refusal(self, status: int, answer: Mapping[str, Any], what: str) -> ImportRefusedError:
        said = answer.get("message") or "no reason given"
        return ImportRefusedError(f"{self.address} refused {what} with status {status}: {_REMEDIES.get(status, said)}")

    def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Accept": "application/json"}
        request = urllib.request.Request(self.address.rstrip("/") + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _parsed(error.read())
        except OSError as error:
            raise ImportRefusedError(f"nobody answers at {self.address}: {error}") from error


def import_boards(boards: list[Board], address: str, token: str | None) -> list[str]:
    """Imports all boards into one folder; the addresses of their pages. Raises ImportRefusedError."""
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ImportRefusedError(f"{address} is no address of a Grafana: it begins with http:// or https://")
    if not token:
        raise ImportRefusedError("GRAFANA_TOKEN is not set: set it to the token of a service account with the role Editor")
    grafana = Grafana(address, token)
    grafana.make_folder()
    return [grafana.put(board) for board in boards]


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
