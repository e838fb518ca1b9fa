"""Data transfer nodes describe themselves: one line for each, and counters that grow with a transfer."""

from __future__ import annotations

from functools import partial

import pytest

from e2e.lib import node_agent
from e2e.lib.lab import Lab
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.clients.nodes import LocalCluster

MEGABYTE = 1_000_000


@pytest.mark.exclusive
def test_nodes_describe_themselves_and_their_counters_grow_with_a_transfer(lab: Lab, cluster: LocalCluster, kubectl: Kubectl) -> None:
    with node_agent.on_transfer_nodes(cluster, kubectl):
        for node in ("dtn-a", "dtn-b"):
            status = wait_until(partial(node_agent.reports, kubectl, node), f"a report of {node}")["status"]
            interfaces = {each["name"]: each for each in status["interfaces"]}
            assert interfaces["data0"]["carrier"] is True
            # The driver of a TUN device names a speed of its own.
            assert "rate" not in interfaces["data0"]
            assert [name for name, each in interfaces.items() if each["management"]] != []
            assert "bbr" in status["kernel"]["congestionControls"]
            shown = status["summary"]["interfaces"].split(", ")
            assert shown == ["data0", "data1"]
            assert node_agent.described(cluster, kubectl, node)["node"] == node
        lines = kubectl.run("get", "dtn").splitlines()
        assert lines[0].split() == ["NAME", "SITE", "INTERFACES", "JOBS", "FREE", "TUNED", "READY", "AGE"]
        assert [line.split()[0] for line in lines[1:]] == ["dtn-a", "dtn-b"]

        before = node_agent.described(cluster, kubectl, "dtn-a")["counters"]
        lab.write(lab.source, "plain", bytes_total=20 * MEGABYTE, files=2)
        lab.submit().wait_succeeded()
        after = node_agent.described(cluster, kubectl, "dtn-a")["counters"]
        sent = {name: after[name]["transmit_bytes"] - before[name]["transmit_bytes"] for name in ("data0", "data1")}
        assert sum(sent.values()) >= 20 * MEGABYTE

        data0 = {"name": "data0", "rate": "200M", "network": "wan"}
        kubectl.patch("datatransfernode", "dtn-a", {"spec": {"site": "geneva", "slots": 3, "interfaces": [data0]}})

        def declared() -> bool:
            dtn = kubectl.get("datatransfernode", "dtn-a")
            summary = (dtn or {}).get("status", {}).get("summary", {})
            return (summary.get("interfaces"), summary.get("jobs")) == ("data0 200M", "0/3")

        wait_until(declared, "the summary of what was declared")
