"""What the machine of a user does to a command: its clock is wrong, or Ctrl-C is pressed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import plugin_objects as objects
import pytest
from stub_api import JOBS, StubApi, stub_api

from fairlead.__main__ import main as fairlead
from fairlead.plugin.main import main


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApi]:
    with stub_api(tmp_path, ("MODIFIED", objects.succeeded("new"))) as (api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield api


COMMANDS = {"watch": ["--once"], "why": ["new"], "submit": ["raw:run42", "scratch:run42", "--name=new", "--wait"]}


@pytest.mark.parametrize(("seconds", "state"), [(2, "Waiting"), (60, "NotServed")])
@pytest.mark.parametrize("command", COMMANDS)
def test_ages_go_by_the_api_servers_clock(command: str, seconds: int, state: str, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    """A job counts as not taken up after some seconds."""
    api.clock = lambda: datetime.fromisoformat(objects.SINCE).timestamp() + seconds
    api.objects[JOBS] = [objects.job("new")] if command != "submit" else []
    assert main([command, *COMMANDS[command], "-o", "json"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out if command != "submit" else printed.out.splitlines()[0])
    told = document["jobs"][0] if command == "watch" else document
    assert (told["state"], printed.err) == (state, "")


def test_explain_tells_ages_by_the_api_servers_clock(api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.clock = lambda: datetime.fromisoformat(objects.SINCE).timestamp() + 600
    api.objects[JOBS] = [objects.job("new")]
    assert fairlead(["explain", "new"]) == 0
    printed = capsys.readouterr()
    assert ("created 10m" in printed.out, printed.err) == (True, "")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A test run in the background of a script has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("program", "words"), [(fairlead, ["explain", "new"]), (main, ["why", "new"]), (main, ["watch", "--once"])])
def test_a_command_that_is_interrupted_says_so_in_one_line(
    program: Callable[[list[str]], int], words: list[str], api: StubApi, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> float:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return time.time()

    api.clock = interrupt
    assert program(words) == 130
    error = capsys.readouterr().err
    assert ("interrupted" in error, len(error.splitlines())) == (True, 1)
