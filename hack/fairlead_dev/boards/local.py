"""Asks a Prometheus that runs on the local cluster, as the service `prometheus` of the namespace `monitoring`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fairlead_dev.boards.answers import BoardAnswers, TimeWindow
from fairlead_dev.clients.release import OPERATOR_NODE
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.cluster.kubernetes.monitoring import NAMESPACE, PORT, SERVICE
from fairlead_dev.errors import NoAnswerError


def address(cluster: LocalCluster) -> str:
    """Where Prometheus answers, as the cluster's nodes see it. Raises NoAnswerError where there is none."""
    service = cluster.kubectl.get("service", SERVICE, namespace=NAMESPACE)
    if service is None:
        raise NoAnswerError(
            f"no service {SERVICE} in the namespace {NAMESPACE} of the local cluster: start one, or name another by PROMETHEUS=URL"
        )
    return f"http://{service['spec']['clusterIP']}:{PORT}"


def ask_local(cluster: LocalCluster, window: TimeWindow, chosen: Mapping[str, str], *, over_time: bool = False) -> BoardAnswers:
    """The answers to all queries of the boards, asked by one process on a node, for services are reached from there alone."""
    minutes = (window.end_s - window.start_s) / 60
    options = [f"--minutes={minutes}", f"--until={window.end_s}", f"--scrape-seconds={window.scrape_s}"]
    options += [f"--set={name}={value}" for name, value in chosen.items()]
    if over_time:
        options.append("--over-time")
    program = ("python3", str(cluster.checkout / "hack"), "boards", "ask", "--prometheus", address(cluster))
    return BoardAnswers.from_json(json.loads(cluster.on(OPERATOR_NODE, *program, *options, timeout_s=600)))
