"""Headless Chromium, and its pages over the DevTools protocol. Needs the standard library alone, and Debian's Chromium."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fairlead_dev.errors import LabError, LimitError, NotAvailableError

PROGRAMS: Final = ("chromium-headless-shell", "chromium")
PACKAGE: Final = "chromium-headless-shell"
FONTS: Final = "fonts-inter"
# Pages are this checkout's own, and root has no other way.
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
_LIMIT_S: Final = 120


def find_chromium(*, install: bool) -> str:
    """The program's path; installed by apt-get if that is asked for and possible. Raises NotAvailableError."""
    browser = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if browser is None and install and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", PACKAGE, FONTS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotAvailableError(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr)[-1500:]}")
        browser = shutil.which(PACKAGE)
    if browser is None:
        raise NotAvailableError(f"there is no Chromium: apt-get install --no-install-recommends {PACKAGE} {FONTS}")
    return browser


class DevToolsPage:
    """One page of a browser. Every method raises LabError with what the browser says, and LimitError if it says nothing."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        target = wire.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = wire.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self._ask("Page.enable")

    def resize(self, width_px: int, height_px: int) -> None:
        """Makes the window so large, whatever the browser's least size is."""
        size = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", size)

    def open(self, address: str) -> None:
        """Loads a page with all that it refers to."""
        # A page that differs by its anchor alone would not be loaded anew.
        for each in ("about:blank", address):
            self._wire.forget()
            answer = self._ask("Page.navigate", {"url": each})
            if answer.get("errorText"):
                raise LabError(f"{each} cannot be opened: {answer['errorText']}")
            self._wire.await_event("Page.loadEventFired", self._session)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of what it promises, as JSON has it."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._ask("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise LabError(f"the page's script failed: {json.dumps(answer['exceptionDetails'])[:500]}")
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot")["data"])

    def _ask(self, method: str, parameters: dict[str, Any] | None = None) -> Any:
        return self._wire.ask(method, parameters, self._session)


@contextmanager
def open_page(browser: str) -> Iterator[DevToolsPage]:
    """A page of a browser that runs as long as this is open."""
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-browser-", ignore_cleanup_errors=True) as folder,
        (Path(folder) / "log").open("w+") as log,
    ):
        # The protocol is spoken on the descriptors 3 and 4, which Popen cannot give.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        command = [browser, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"]
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        os.close(to_browser)
        os.close(from_browser)
        wire = _Wire(from_us, to_us)
        try:
            yield DevToolsPage(wire)
        except BrokenPipeError:
            process.wait(_LIMIT_S)
            log.seek(0)
            raise LabError(f"{browser} ended: {log.read()[-500:]}") from None
        finally:
            wire.close()
            process.kill()
            process.wait()


class _Wire:
    """Messages to and from the browser, each ended by a zero byte. A browser that has ended is a BrokenPipeError."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._numbers = itertools.count(1)
        self._read = b""
        self._events: list[dict[str, Any]] = []

    def ask(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None) -> Any:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        message |= {"sessionId": session} if session is not None else {}
        os.write(self._into, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + _LIMIT_S
        while (answer := self._next(end_s, method)).get("id") != number:
            self._events.append(answer)
        if "error" in answer:
            raise LabError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def forget(self) -> None:
        """Of events, those to come count."""
        self._events.clear()

    def await_event(self, method: str, session: str) -> None:
        end_s = time.monotonic() + _LIMIT_S
        while not any(event.get("method") == method and event.get("sessionId") == session for event in self._events):
            self._events.append(self._next(end_s, method))

    def close(self) -> None:
        os.close(self._into)
        os.close(self._out)

    def _next(self, end_s: float, awaited: str) -> dict[str, Any]:
        while b"\0" not in self._read:
            if not select.select([self._out], [], [], max(0.0, end_s - time.monotonic()))[0]:
                raise LimitError(f"the browser did not answer {awaited} within {_LIMIT_S} s")
            data = os.read(self._out, 1 << 20)
            if not data:
                raise BrokenPipeError
            self._read += data
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
