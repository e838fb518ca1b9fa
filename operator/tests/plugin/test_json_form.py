"""Every command answers in JSON, also with a refusal, and prints nothing else on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import plugin_objects as objects
import pytest
import typer
from stub_api import JOBS, StubApi, refused, stub_api

from fairlead.plugin.cli import app
from fairlead.plugin.main import main

COMMANDS: dict[str, tuple[str, ...]] = {
    "watch": ("--once",),
    "why": ("copying",),
    "top": (),
    "submit": ("raw:run42", "scratch:run42"),
    "cancel": ("copying",),
    "suspend": ("copying",),
    "resume": ("suspended",),
    "preflight": ("job.json",),
    "predict": ("job.json",),
    "nodes": (),
}
OF_FILES = ("preflight", "predict")
NAMES_IT = {"version", "namespace", "name"}
FIELDS: dict[str, set[str]] = {
    "watch": {"version", "jobs"},
    "why": {*NAMES_IT, "uid", "state", "reasons", "reason", "because", "also", "notShown"},
    "top": {"version", "policy", "jainIndex", "jobs", "waiting", "links", "tenants", "conditions"},
    "submit": {"apiVersion", "kind", "metadata", "spec"},
    **{command: {"namespace", "name", "uid", "outcome", "message"} for command in ("cancel", "suspend", "resume")},
    "preflight": {*NAMES_IT, "passed", "checks"},
    "predict": {*NAMES_IT, "starts", "notShown"},
    "nodes": {"version", "nodes"},
}
Run = Callable[..., int]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApi]:
    """With jobs, a policy and a node. Files that commands read are below the current directory."""
    jobs = [objects.copying(), objects.suspended(), objects.failed()]
    with stub_api(tmp_path, jobs=jobs, fairnesspolicies=[objects.policy()], datatransfernodes=[objects.node()]) as (api, kubeconfig):
        api.created_status = objects.succeeded()["status"]
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        # As on a terminal, as far as that can be said by the environment.
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        job = objects.job("tomorrow")
        Path("job.json").write_text(json.dumps({key: job[key] for key in ("apiVersion", "kind", "metadata", "spec")}))
        yield api


def documents(text: str) -> list[dict[str, Any]]:
    """What was printed: one document, or one to a line."""
    assert "\x1b" not in text
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def test_the_table_has_every_command() -> None:
    root: Any = typer.main.get_command(app)
    assert set(root.commands) == set(COMMANDS)
    assert [name for name, command in root.commands.items() if not any("-o" in each.opts for each in command.params)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_answers_in_json(command: str, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([command, *COMMANDS[command], "-o", "json"])
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    [document] = documents(printed.out)
    assert FIELDS[command] <= set(document)


@pytest.mark.parametrize("command", ["watch", "submit"])
def test_what_is_followed_is_a_document_to_a_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"watch": ("copying",), "submit": ("raw:run42", "scratch:run42", "--name=copying", "--wait")}[command]
    present = [objects.copying()] if command == "watch" else []
    with stub_api(tmp_path, ("MODIFIED", objects.copying(percent=60)), ("MODIFIED", objects.succeeded("copying")), jobs=present) as (
        api,
        kubeconfig,
    ):
        api.created_status = objects.copying()["status"]
        assert main([command, *asked, "-o", "json", "--kubeconfig", str(kubeconfig)]) == 0
    told = documents(capsys.readouterr().out)
    assert [(each["name"], each["state"], each["percent"]) for each in told] == [
        ("copying", "Running", 40),
        ("copying", "Running", 60),
        ("copying", "Succeeded", 100),
    ]


@pytest.mark.parametrize(
    ("command", "arguments", "outcomes"),
    [
        ("cancel", ("copying", "suspended"), ["Cancelling", "Cancelling"]),
        ("cancel", ("copying", "--wait"), ["Cancelled"]),
        ("suspend", ("copying", "suspended"), ["Suspended", "SuspendedAlready"]),
        ("resume", ("--all",), ["NotSuspended", "Resumed"]),
    ],
)
def test_what_is_done_to_each_job_has_a_constant(
    command: str, arguments: tuple[str, ...], outcomes: list[str], api: StubApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *arguments, "-o", "json"]) == 0
    assert [each["outcome"] for each in documents(capsys.readouterr().out)] == outcomes


def test_nothing_to_be_done_is_no_document(api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.objects[JOBS] = []
    assert main(["suspend", "--all", "-o", "json"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", OF_FILES)
@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (422, "Invalid", 'TransferJob "tomorrow" is invalid: spec.bandwidth: guarantee must not exceed limit'),
        (403, "Forbidden", 'transferjobs.fairlead.io "tomorrow" is forbidden: exceeded quota: jobs, used: 9, limited: 9'),
    ],
)
def test_a_job_that_the_api_server_refuses_is_an_answer(
    command: str, status: int, reason: str, message: str, api: StubApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.refusals["POST"] = refused(status, reason, message)
    assert main([command, "job.json", "-o", "json"]) == 3
    printed = capsys.readouterr()
    [document] = documents(printed.out)
    told = document["checks"][0] if command == "preflight" else document
    assert (printed.err, told["reason"], message in told["message"]) == ("", "Refused", True)
    assert document["passed" if command == "preflight" else "starts"] is False
    assert main([command, "job.json"]) == 3
    assert "Refused" in (text := capsys.readouterr().out) and message.rpartition(": ")[2] in text


@pytest.mark.parametrize("command", OF_FILES)
@pytest.mark.parametrize(
    ("status", "reason", "message", "told"),
    [
        (403, "Forbidden", 'User "eve" cannot create resource "transferjobs" in API group "fairlead.io"', "you may not "),
        (401, "Unauthorized", "Unauthorized", "does not accept your credentials"),
        (503, "ServiceUnavailable", "etcd is away", ""),
    ],
)
def test_what_says_nothing_of_the_job_is_an_error(
    command: str, status: int, reason: str, message: str, told: str, api: StubApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.refusals["POST"] = refused(status, reason, message)
    assert main([command, "job.json", "-o", "json"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, told in printed.err, len(printed.err.splitlines())) == ("", True, 1)


@pytest.mark.parametrize("command", ["watch", "why", "top", "cancel", "suspend", "resume", "nodes"])
def test_without_credentials_each_command_says_so(command: str, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.refusals["GET"] = refused(401, "Unauthorized", "Unauthorized")
    assert main([command, *COMMANDS[command], "-o", "json"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, "does not accept your credentials: log in again" in printed.err) == ("", True)


@pytest.mark.parametrize("command", ["submit", "predict", "preflight"])
def test_a_namespace_that_does_not_exist_is_told_as_such(command: str, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.refusals["POST"] = refused(404, "NotFound", 'namespaces "bio" not found')
    assert main([command, *COMMANDS[command]]) == 1
    error = capsys.readouterr().err
    assert ("no namespace bio" in error, "give -n NAMESPACE" in error, "version" in error) == (True, True, False)


@pytest.mark.parametrize("command", ["watch", "why", "top", "submit", "cancel", "suspend", "predict", "preflight", "nodes"])
def test_an_api_server_without_fairlead_is_told_as_such(command: str, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    absent = refused(404, "NotFound", "the server could not find the requested resource")
    api.refusals |= {"GET": absent, "POST": absent}
    assert main([command, *COMMANDS[command]]) == 1
    error = capsys.readouterr().err
    assert ("install Fairlead's chart" in error, "choose another --context" in error or command == "preflight") == (True, True)
