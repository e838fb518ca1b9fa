"""The agent's command line: what is wrong is named with its flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.main import read_options

ENVIRONMENT = {
    "FAIRLEAD_NODE": "dtn-a",
    "FAIRLEAD_AGENT_ADDRESS": "[2001:db8::1]:9811",
    "FAIRLEAD_NODE_ADDRESS": "192.0.2.1, 2001:DB8::1",
    "FAIRLEAD_STORAGE": "/data=/host/0,/scratch=/host/1",
    "FAIRLEAD_INSTANCE": "uid-1",
}


def test_a_pod_is_configured_by_its_environment() -> None:
    options = read_options([], ENVIRONMENT)
    assert (options.node, options.host, options.port, options.instance) == ("dtn-a", "2001:db8::1", 9811, "uid-1")
    assert options.node_addresses == {"192.0.2.1", "2001:db8::1"}
    assert options.storage == {"/data": Path("/host/0"), "/scratch": Path("/host/1")}


def test_flags_alone_are_enough_and_two_agents_are_told_apart() -> None:
    options, other = (read_options(["--node", "dtn-a"], {}) for _ in range(2))
    assert (options.host, options.storage, options.node_addresses) == ("0.0.0.0", {}, frozenset())
    assert options.instance != other.instance


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--node (FAIRLEAD_NODE): missing"),
        (["--node=a", "--agent-address=9811"], "--agent-address (FAIRLEAD_AGENT_ADDRESS): '9811'"),
        (["--node=a", "--agent-address=:9811"], "--agent-address"),
        (["--node=a", "--node-address=here"], "--node-address (FAIRLEAD_NODE_ADDRESS)"),
        (["--node=a", "--storage=/data"], "--storage (FAIRLEAD_STORAGE)"),
        (["--node=a", "--storage=data=/x"], "--storage"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options(arguments, {})
    assert message in capsys.readouterr().err
