"""Which credentials reach the API server, and by which way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plugin_objects as objects
import pytest
from stub_api import StubApi, stub_api

from fairlead.plugin.main import main

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StubApi, Path]]:
    for name in (*PROXIES, *map(str.upper, PROXIES), "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with stub_api(tmp_path, jobs=[objects.copying()]) as served:
        yield served


def with_user(kubeconfig: Path, user: dict[str, Any]) -> str:
    """The kubeconfig with that user."""
    content = json.loads(kubeconfig.read_text())
    content["users"][0]["user"] = user
    kubeconfig.write_text(json.dumps(content))
    return str(kubeconfig)


def test_a_token_in_a_file_is_sent_without_the_line_break_at_its_end(api: tuple[StubApi, Path], tmp_path: Path) -> None:
    stub, kubeconfig = api
    (tmp_path / "token").write_text("t1\n")
    assert main(["watch", "--once", "--kubeconfig", with_user(kubeconfig, {"tokenFile": "token"})]) == 0
    assert stub.authorizations == ["Bearer t1"]


def test_a_token_that_no_header_can_carry_is_told_as_such(api: tuple[StubApi, Path], capsys: pytest.CaptureFixture[str]) -> None:
    stub, kubeconfig = api
    assert main(["watch", "--once", "--kubeconfig", with_user(kubeconfig, {"token": "t1\nX-Evil: 1"})]) == 2
    error = capsys.readouterr().err
    assert ("its token has control characters" in error, len(error.splitlines()), stub.authorizations) == (True, 1, [])


@pytest.mark.parametrize("user", [{"token": "t1"}, {}])
def test_passwords_for_other_hosts_are_kept_from_the_api_server(user: dict[str, Any], api: tuple[StubApi, Path], tmp_path: Path) -> None:
    stub, kubeconfig = api
    (tmp_path / ".netrc").write_text("default login alice password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert main(["watch", "--once", "--kubeconfig", with_user(kubeconfig, user)]) == 0
    assert stub.authorizations == ["Bearer t1" if user else None]


@pytest.mark.parametrize(("environment", "is_asked"), [({}, True), ({"no_proxy": "api.invalid"}, False), ({"https_proxy": ""}, True)])
def test_a_proxy_of_the_environment_is_asked_but_for_the_hosts_that_it_leaves_out(
    environment: dict[str, str], is_asked: bool, api: tuple[StubApi, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub, kubeconfig = api
    content = json.loads(kubeconfig.read_text())
    address = content["clusters"][0]["cluster"]["server"]
    content["clusters"][0]["cluster"]["server"] = "http://api.invalid"
    kubeconfig.write_text(json.dumps(content))
    for name, value in {"http_proxy": address.removeprefix("http://"), **environment}.items():
        monkeypatch.setenv(name, value)
    assert main(["watch", "--once", "--kubeconfig", str(kubeconfig)]) == (0 if is_asked else 1)
    assert len(stub.authorizations) == is_asked
