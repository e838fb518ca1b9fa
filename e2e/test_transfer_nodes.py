"""Data transfer nodes describe themselves: one line for each, and counters that grow with a transfer."""

from __future__ import annotations

import re
from functools import partial

import pytest

from e2e.lib import node_agent
from e2e.lib.lab import Lab
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.cluster.client import LocalCluster

MEGABYTE = 1_000_000
FREE = re.compile(r"\d+(\.\d)?[KMGTP]i")


def _line(kubectl: Kubectl, node: str) -> dict[str, str]:
    """The node's line of `kubectl get dtn`, by the names of its columns. A column may be empty, and its values may have spaces."""
    header, *lines = kubectl.run("get", "dtn").splitlines()
    begins = [(name, header.index(name)) for name in header.split()]
    ends = [begin for _, begin in begins[1:]] + [None]
    (line,) = (line for line in lines if line.startswith(f"{node} "))
    return {name: line[begin:end].strip() for (name, begin), end in zip(begins, ends, strict=True)}


def _judged_line(kubectl: Kubectl, node: str) -> dict[str, str] | None:
    """The node's line once it is judged, and the movers of earlier tests are gone."""
    line = _line(kubectl, node)
    return line if line["TUNED"] in {"True", "False"} and line["JOBS"].startswith("0/") else None


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
            assert status["summary"]["interfaces"] == "data0, data1"
            assert node_agent.described(cluster, kubectl, node)["node"] == node
            shown = wait_until(partial(_judged_line, kubectl, node), f"a line of {node} without jobs that tells whether it is tuned")
            assert list(shown) == ["NAME", "SITE", "INTERFACES", "JOBS", "FREE", "TUNED", "READY", "AGE"]
            assert (shown["SITE"], shown["INTERFACES"], shown["JOBS"], shown["READY"]) == ("", "data0, data1", "0/8", "True")
            assert FREE.fullmatch(shown["FREE"]), shown

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
        shown = _line(kubectl, "dtn-a")
        assert (shown["SITE"], shown["INTERFACES"], shown["JOBS"]) == ("geneva", "data0 200M", "0/3")
