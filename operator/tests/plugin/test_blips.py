"""A command that waits goes on where the API server does not answer for a moment."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import plugin_objects as objects
import pytest
from rich.console import Console
from stub_api import Answer, StubApi, refused, stub_api

from fairlead.__main__ import main as fairlead
from fairlead.plugin.cluster import Access, PluginError, open_session
from fairlead.plugin.main import main
from fairlead.plugin.output import Output
from fairlead.plugin.top import top

AWAY = refused(503, "ServiceUnavailable", "etcd is away")
BUSY = refused(429, "TooManyRequests", "try later")
FORBIDDEN = refused(403, "Forbidden", 'User "eve" cannot get resource "transferjobs"')


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApi]:
    with stub_api(tmp_path, jobs=[objects.copying()], fairnesspolicies=[objects.policy()]) as (api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield api


@pytest.mark.parametrize(("blip", "code"), [(AWAY, 0), (BUSY, 0), (FORBIDDEN, 1)])
def test_cancel_goes_on_waiting(blip: Answer, code: int, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.stumbles["GET"] = [None, blip]
    assert main(["cancel", "copying", "--wait"]) == code
    printed = capsys.readouterr()
    assert ("partial files are removed" in printed.out, "trying again" in printed.err) == (code == 0, code == 0)


@pytest.mark.parametrize(("blips", "code"), [([AWAY], 0), ([BUSY, AWAY], 0), ([FORBIDDEN], 1)])
@pytest.mark.parametrize("program", [main, fairlead])
def test_preflight_goes_on_waiting(
    program: Callable[[list[str]], int], blips: list[Answer], code: int, api: StubApi, tmp_path: Path
) -> None:
    job = objects.job("tomorrow")
    (tmp_path / "job.json").write_text(json.dumps({key: job[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
    api.created_status = {}
    api.stumbles["GET"] = [*blips, (200, objects.succeeded("tomorrow"))]
    assert program(["preflight", str(tmp_path / "job.json")]) == code


def test_preflight_tells_of_an_api_server_that_does_not_come_back(
    api: StubApi, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.commands.preflight.run._GRACE_SECONDS", 0)
    job = objects.job("tomorrow")
    (tmp_path / "job.json").write_text(json.dumps({key: job[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
    api.created_status = {}
    api.refusals["GET"] = AWAY
    assert main(["preflight", str(tmp_path / "job.json"), "--timeout=1"]) == 1
    assert "the API server does not answer" in capsys.readouterr().err


@pytest.mark.asyncio
@pytest.mark.parametrize(("blip", "survives"), [(AWAY, True), (FORBIDDEN, False)])
async def test_top_goes_on_showing(blip: Answer, survives: bool, api: StubApi) -> None:
    api.stumbles["GET"] = [None, blip]
    rounds = 0

    async def pause(_: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise asyncio.CancelledError

    screen = io.StringIO()
    output = Output(as_json=False, console=Console(force_terminal=True, file=screen))
    async with open_session(Access()) as session:
        with pytest.raises(asyncio.CancelledError if survives else PluginError):
            await top(session, output, once=False, pause=pause)
    assert ("trying again" in screen.getvalue()) is survives
