"""What is said to a browser over the DevTools protocol, without a browser."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.browser import DevToolsPage, _Wire, find_chromium
from fairlead_dev.errors import LabError, NotAvailableError

Answer = Callable[[dict[str, Any]], list[dict[str, Any]]]
LOADED = {"method": "Page.loadEventFired", "sessionId": "s"}


class StubBrowser:
    """Answers each message with those that `answer` makes of it; None ends it."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answer = answer
        self._reads, into = os.pipe()
        out, self._writes = os.pipe()
        self.wire = _Wire(into, out)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        read = b""
        while data := os.read(self._reads, 65536):
            *messages, read = (read + data).split(b"\0")
            for message in map(json.loads, messages):
                self.asked.append(message)
                for answer in self._answer(message):
                    for part in (json.dumps(answer).encode(), b"\0"):
                        os.write(self._writes, part)

    def close(self) -> None:
        self.wire.close()
        self._thread.join()
        os.close(self._reads)
        os.close(self._writes)


RESULTS: dict[str, dict[str, Any]] = {
    "Target.createTarget": {"targetId": "t"},
    "Target.attachToTarget": {"sessionId": "s"},
    "Runtime.evaluate": {"result": {"value": {"width": 390}}},
    "Page.captureScreenshot": {"data": "iVBORw=="},
}


def obliging(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Other pages' events come in between, and a page's own before the answer to its command."""
    answer = {"id": message["id"], "result": RESULTS.get(message["method"], {})}
    events = [{**LOADED, "sessionId": "other"}, *([LOADED] if message["method"] == "Page.navigate" else [])]
    return [*events, answer]


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Iterator[StubBrowser]:
    stub = StubBrowser(getattr(request, "param", obliging))
    yield stub
    stub.close()


def test_a_page_is_sized_opened_measured_and_drawn(browser: StubBrowser) -> None:
    page = DevToolsPage(browser.wire)
    page.resize(390, 900)
    page.open("http://127.0.0.1/")
    assert page.evaluate("window.innerWidth") == {"width": 390}
    assert page.picture() == b"\x89PNG"
    assert [(each["method"], each.get("sessionId")) for each in browser.asked[:2]] == [
        ("Target.createTarget", None),
        ("Target.attachToTarget", None),
    ]
    assert {each["sessionId"] for each in browser.asked[2:]} == {"s"}
    assert [each["params"]["url"] for each in browser.asked if each["method"] == "Page.navigate"] == ["about:blank", "http://127.0.0.1/"]


def failing(method: str, result: dict[str, Any]) -> Answer:
    def answer(message: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"id": message["id"], **result}] if message["method"] == method else obliging(message)

    return answer


@pytest.mark.parametrize(
    ("browser", "words"),
    [
        (
            failing("Page.navigate", {"result": {"errorText": "net::ERR_CONNECTION_REFUSED"}}),
            "cannot be opened: net::ERR_CONNECTION_REFUSED",
        ),
        (failing("Runtime.evaluate", {"result": {"exceptionDetails": {"text": "Uncaught"}}}), "the page's script failed"),
        (failing("Page.enable", {"error": {"message": "no such page"}}), "Page.enable: no such page"),
    ],
    indirect=["browser"],
)
def test_what_the_browser_cannot_do_is_told_in_its_words(browser: StubBrowser, words: str) -> None:
    with pytest.raises(LabError, match=words):
        page = DevToolsPage(browser.wire)
        page.open("http://127.0.0.1/")
        page.evaluate("1")


def test_a_browser_that_ends_is_a_broken_pipe() -> None:
    reads, into = os.pipe()
    out, writes = os.pipe()
    wire = _Wire(into, out)
    os.close(writes)
    with pytest.raises(BrokenPipeError):
        wire.ask("Page.enable")
    wire.close()
    os.close(reads)


def test_without_chromium_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for install in (False, True):
        with pytest.raises(NotAvailableError, match="apt-get install --no-install-recommends chromium-headless-shell"):
            find_chromium(install=install)
