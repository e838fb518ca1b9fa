from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.kube.client import encoded, load_configuration

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: me, user: {token: secret}}]
"""


@pytest.mark.asyncio
@pytest.mark.parametrize(("proxy", "asks_environment"), [("", False), ("http://proxy.example:3128", True)])
async def test_requests_look_for_a_proxy_only_where_the_environment_names_one(
    proxy: str, asks_environment: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
    file = tmp_path / "kubeconfig"
    file.write_text(_KUBECONFIG)
    configuration = await load_configuration(file)
    assert configuration.client_session_kwargs == {"trust_env": asks_environment}


@pytest.mark.parametrize("value", ["plain", "\ud800 half a pair", 1 << 70, {"nested": ["é", None, True, 1.5]}], ids=str)
def test_every_object_is_written_as_json(value: Any) -> None:
    assert json.loads(encoded({"spec": value})) == {"spec": value}
