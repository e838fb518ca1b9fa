"""The program that a kubeconfig names for credentials: when it runs, what it is told, and what becomes of its failures."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import plugin_objects as objects
import pytest
from stub_api import JOBS, StubApi, stub_api

from fairlead.plugin.main import main

API_VERSION = "client.authentication.k8s.io/v1"
COUNTING = """#!/bin/sh
echo run >> "$0.runs"
printf %s "$KUBERNETES_EXEC_INFO" > "$0.info"
echo "enter the code ABCD at https://login.example" >&2
cat "$0.answer.$(wc -l < "$0.runs" | tr -d ' ')"
"""

Make = Callable[..., str]


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[tuple[StubApi, Path]]:
    with stub_api(tmp_path, jobs=[objects.copying()]) as served:
        yield served


@pytest.fixture
def api(stub: tuple[StubApi, Path]) -> StubApi:
    return stub[0]


@pytest.fixture
def helper(stub: tuple[StubApi, Path], tmp_path: Path) -> Make:
    """A kubeconfig whose helper gives these answers, one in each run."""

    def make(*answers: Any, **entry: Any) -> str:
        program = tmp_path / "helper"
        program.write_text(COUNTING)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        for number, answer in enumerate(answers, 1):
            whole = {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": answer}
            (tmp_path / f"helper.answer.{number}").write_text(answer if isinstance(answer, str) else json.dumps(whole))
        content = json.loads(stub[1].read_text())
        content["users"][0]["user"] = {"exec": {"apiVersion": API_VERSION, "command": "./helper", "interactiveMode": "Never", **entry}}
        stub[1].write_text(json.dumps(content))
        return str(stub[1])

    return make


def token(word: str, expires_in: timedelta | None = None) -> dict[str, Any]:
    return {"token": word} | ({"expirationTimestamp": (datetime.now(UTC) + expires_in).isoformat()} if expires_in is not None else {})


def runs(folder: Path) -> int:
    return len((folder / "helper.runs").read_text().splitlines())


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("first", "sent"), [(token("t1", -HOUR), "Bearer t2"), (token("t1", HOUR), "Bearer t1"), (token("t1"), "Bearer t1")]
)
def test_a_token_whose_time_is_over_is_replaced_before_it_is_sent(first: Any, sent: str, helper: Make, api: StubApi) -> None:
    assert main(["watch", "--once", "--kubeconfig", helper(first, token("t2", HOUR))]) == 0
    assert api.authorizations == [sent]


@pytest.mark.parametrize("command", [["watch", "--once"], ["submit", "raw:run42", "scratch:run42"]])
def test_a_token_that_the_api_server_takes_no_more_is_replaced_and_the_request_sent_again(
    command: list[str], helper: Make, api: StubApi
) -> None:
    api.accepted = "Bearer t2"
    assert main([*command, "--kubeconfig", helper(token("t1"), token("t2"))]) == 0
    assert api.authorizations == ["Bearer t1", "Bearer t2"]
    assert len(api.objects[JOBS]) == (2 if command[0] == "submit" else 1)


def test_where_the_next_token_is_no_better_the_user_is_told_to_log_in(
    helper: Make, api: StubApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.accepted = "Bearer t3"
    assert main(["watch", "--once", "--kubeconfig", helper(token("t1"), token("t2"))]) == 1
    assert "log in again" in capsys.readouterr().err
    assert (len(api.authorizations), runs(tmp_path)) == (2, 2)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "false"}, "the credential helper false failed with exit code 1"),
        ({"command": "/nowhere/helper", "installHint": "ask\nyour site"}, "/nowhere/helper cannot be run"),
        ({"command": "true"}, "the credential helper true answers what is no ExecCredential"),
        ({"interactiveMode": "Always"}, "standard input is no terminal"),
        ({"env": "HOME"}, "cannot be run (TypeError"),
        ({"apiVersion": "client.authentication.k8s.io/v1beta1"}, "its apiVersion is client.authentication.k8s.io/v1"),
    ],
)
def test_a_helper_that_gives_nothing_is_named_and_nothing_is_asked_without_credentials(
    entry: dict[str, Any], words: str, helper: Make, api: StubApi, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--once", "--kubeconfig", helper(token("t1"), **entry)]) == 2
    told = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("enter the code")]
    assert ([words in line for line in told], api.authorizations) == ([True], [])


@pytest.mark.parametrize("answer", ["no JSON", "[]", {}, {"token": "t1\nX-Evil: 1"}, {"clientCertificateData": "alone"}, {"token": 1}])
def test_an_answer_without_credentials_is_no_answer(answer: Any, helper: Make, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--kubeconfig", helper(answer)]) == 2
    error = capsys.readouterr().err
    assert ("answers what is no ExecCredential" in error, len(error.splitlines()), api.authorizations) == (True, 1, [])


def test_a_helper_that_fails_later_ends_the_command_likewise(helper: Make, api: StubApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--kubeconfig", helper(token("t1", -HOUR))]) == 2
    assert "./helper failed with exit code 1" in capsys.readouterr().err
    assert api.authorizations == []


def test_what_a_helper_says_reaches_the_user(helper: Make, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--once", "--kubeconfig", helper(token("t1"))]) == 0
    assert capfd.readouterr().err == "enter the code ABCD at https://login.example\n"


def test_a_helper_is_told_of_the_cluster_if_it_is_to_be(helper: Make, stub: tuple[StubApi, Path], tmp_path: Path) -> None:
    kubeconfig = helper(token("t1"), provideClusterInfo=True, args=["--realm", "a"], env=[{"name": "REALM", "value": "a"}])
    content = json.loads(Path(kubeconfig).read_text())
    (tmp_path / "ca").write_text("authority")
    own = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}}
    content["clusters"][0]["cluster"] |= {"certificate-authority": "ca", "extensions": [own]}
    Path(kubeconfig).write_text(json.dumps(content))
    assert main(["watch", "--once", "--kubeconfig", kubeconfig]) == 0
    told = json.loads((tmp_path / "helper.info").read_text())
    assert (told["apiVersion"], told["kind"], told["spec"]["interactive"]) == (API_VERSION, "ExecCredential", False)
    assert told["spec"]["cluster"] == {
        "server": content["clusters"][0]["cluster"]["server"],
        "certificate-authority-data": "YXV0aG9yaXR5",
        "config": {"audience": "here"},
    }


def test_a_token_in_the_kubeconfig_comes_before_its_helper(helper: Make, api: StubApi) -> None:
    kubeconfig = Path(helper(token("t1"), command="false"))
    content = json.loads(kubeconfig.read_text())
    content["users"][0]["user"]["token"] = "t0"
    kubeconfig.write_text(json.dumps(content))
    assert main(["watch", "--once", "--kubeconfig", str(kubeconfig)]) == 0
    assert api.authorizations == ["Bearer t0"]
