"""A real Prometheus with its operator watches two tenants: it reads every target, evaluates every rule and fills every panel."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import BUILD
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE
from e2e.lib.policy import NAME
from e2e.lib.truth import BY_WEIGHT, CROWDED, EXACT, Truth, untold
from e2e.lib.waiting import PATIENCE_S, wait_until
from e2e.lib.watched import (
    ASTRO,
    GENOMICS,
    INTERFACE,
    JOBS,
    KNOWN,
    LIMITED,
    LONG_FILES,
    MISSING,
    SIZES_BYTES,
    SMALL,
    SMALL_BYTES,
    SMALL_FILES,
    TRANSFER_NODES,
    WAITING,
    by_weight,
    chosen,
    crowded,
    installed,
    unanswered,
)
from fairlead_dev import monitoring
from fairlead_dev.boards.answers import BoardAnswers, TimeWindow, has_data
from fairlead_dev.boards.local import address, ask_local
from fairlead_dev.boards.prometheus import data_of, path_of
from fairlead_dev.boards.questions import QUESTIONS, answered
from fairlead_dev.boards.reading import Board, load, queries
from fairlead_dev.clients.kubectl import CommandError, Kubectl
from fairlead_dev.clients.release import OPERATOR_NODE, RELEASE, RELEASE_NAMESPACE
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.cluster.layout import NODES
from fairlead_dev.errors import DevError

pytestmark = [pytest.mark.monitoring, pytest.mark.timeout(1800)]

STORED = 20 << 20
"""Bytes that lie on the disk of which the agent of one node reports the space."""
SCRAPE_S = 5.0
SHRUNK, DOWN = "FairleadGuaranteeShrunk", "FairleadOperatorDown"
OPERATOR_GONE_S = 5 * 60.0
"""For how long the operator must be gone until its alert fires."""
_GET = """
import json, sys, urllib.error, urllib.request
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=20).read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.read().decode()
print(json.dumps([get(url) for url in sys.argv[1:]]))
"""
"""One process on a node for many questions: services are reached from there alone."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What Prometheus sees, and since when."""

    cluster: LocalCluster
    address: str
    began_s: float
    running: tuple[Job, Job]
    space: str
    """The folder whose free space the agents of the transfer nodes report."""

    def get(self, path: str) -> dict[str, Any]:
        """The data of an answer of the HTTP API. Raises PrometheusError where it is a refusal."""
        (data,) = self._data([f"/api/v1/{path}"])
        return dict(data)

    def instants(self, exprs: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """The vectors of expressions, now. Raises PrometheusError naming the one that is refused."""
        asked = list(exprs)
        found = self._data([path_of("query", {"query": expr}) for expr in asked])
        return {expr: data["result"] for expr, data in zip(asked, found, strict=True)}

    def _data(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        bodies = json.loads(self.cluster.on(OPERATOR_NODE, "python3", "-c", _GET, *(self.address + path for path in paths)))
        return [data_of(body.encode(), path) for body, path in zip(bodies, paths, strict=True)]


@pytest.fixture(scope="module")
def watched(cluster: LocalCluster, kubectl: Kubectl) -> Iterator[Watched]:
    """Two tenants' jobs on one link, beside jobs that wait, end, fail and are limited; the policy changes on the way."""
    server = address(cluster)
    with (
        installed(cluster, kubectl, str(time.time_ns()), BUILD) as space,
        Lab(cluster, kubectl, ASTRO) as astro,
        Lab(cluster, kubectl, GENOMICS) as genomics,
        Lab(cluster, kubectl, KNOWN) as known,
    ):
        try:
            kubectl.apply(crowded())
            for lab, folder in ((astro, "sky"), (genomics, "assembly")):
                lab.write(lab.source, "plain", folder, bytes_total=SIZES_BYTES[folder], files=LONG_FILES)
            for lab in (astro, known):
                lab.write(lab.source, "plain", SMALL, bytes_total=SMALL_BYTES, files=SMALL_FILES)
            began_s = time.time()
            first = submit(known, SMALL)
            running = submit(astro, "sky"), submit(genomics, "assembly")
            submit(genomics, WAITING, "assembly", bandwidth={"guarantee": "400M"})
            missing = submit(known, MISSING)
            wait_until(lambda: all(job.status.get("phase") == "Transferring" for job in running), "both tenants' jobs transfer")
            first.wait_succeeded()
            missing.wait_failed()
            submit(astro, LIMITED, SMALL, bandwidth={"limit": "20M"})
            yield Watched(cluster, server, began_s, running, space)
        finally:
            kubectl.delete("fairnesspolicy", [NAME])


def submit(lab: Lab, name: str, folder: str | None = None, **spec: Any) -> Job:
    """A job of a folder, to one of the job's name, over the link that is shared."""
    ends = {"source": {"path": folder or name, "interface": INTERFACE}, "destination": {"path": name, "interface": INTERFACE}}
    return lab.submit(name, **ends, **spec)


def test_every_target_is_read_movers_and_what_runs_on_nodes_at_their_nodes_addresses_too(watched: Watched) -> None:
    jobs = {job.name for job in watched.running}
    wanted = {(job, role, "http") for job in jobs for role in ("sender", "receiver")} | {(job, "sender", "advisor-http") for job in jobs}
    on_nodes = {("node-agent", node) for node in TRANSFER_NODES} | {("guard", node.name) for node in NODES}

    def state() -> list[str]:
        targets = watched.get("targets?state=active")["activeTargets"]
        labels = [target["labels"] for target in targets if target["health"] == "up"]
        seen = {(each.get("transferjob"), each.get("role"), each.get("endpoint")) for each in labels}
        seen_on_nodes = {(each.get("container"), each.get("node")) for each in labels}
        operators = [each for each in labels if each.get("service") and each.get("endpoint") == "metrics"]
        down = [f"{target['scrapeUrl']}: {target['health']} {target['lastError']}" for target in targets if target["health"] != "up"]
        absent = sorted(map(str, (wanted - seen) | (on_nodes - seen_on_nodes)))
        return [*down, *absent, *([] if operators else ["no operator"])]

    wait_until(lambda: not state(), "every target is up", last_seen=state, not_yet=(CommandError, DevError))


def test_metrics_tell_what_is_true_of_the_jobs_the_policy_and_the_path(watched: Watched) -> None:
    await_at_once(watched, EXACT)
    await_each(watched, CROWDED)


def await_at_once(watched: Watched, truths: Sequence[Truth]) -> None:
    """Waits until Prometheus tells all of them at the same time."""

    def state() -> dict[Truth, list[str]]:
        return untold(truths, watched.instants(truth.expr for truth in truths))

    wait_until(lambda: not state(), "what is exactly so, in Prometheus", last_seen=state, not_yet=(CommandError, DevError))


def await_each(watched: Watched, truths: Sequence[Truth]) -> None:
    """Waits until Prometheus has told each of them at some time: figures of a moment dip."""
    left: dict[Truth, list[str]] = {truth: [] for truth in truths}

    def all_told() -> bool:
        nonlocal left
        left = untold(left, watched.instants(truth.expr for truth in left))
        return not left

    wait_until(all_told, "what is about so, in Prometheus", last_seen=lambda: left, not_yet=(CommandError, DevError))


def test_the_free_space_of_nodes_is_what_their_kernels_say(watched: Watched, cluster: LocalCluster) -> None:
    cluster.on(DESTINATION_NODE, "sh", "-c", 'head -c "$1" /dev/zero > "$2/stored"', "sh", str(STORED), watched.space)

    def told() -> dict[str, list[float]]:
        asked = f'fairlead_node_storage_free_bytes{{path="{watched.space}"}}'
        return {each["metric"]["node"]: [float(each["value"][1])] for each in watched.instants([asked])[asked]}

    truth = {node: [free_bytes(cluster, node, watched.space)] for node in TRANSFER_NODES}
    assert len({free for (free,) in truth.values()}) == len(TRANSFER_NODES), "what is stored on one of them alone makes no difference"
    wait_until(lambda: told() == truth, f"free space of {truth}", last_seen=told, not_yet=(CommandError, DevError))


def free_bytes(cluster: LocalCluster, node: str, folder: str) -> float:
    """What the node's kernel has for a process without privilege, statfs(2)."""
    free, size = cluster.on(node, "stat", "--file-system", "--format", "%a %S", folder).split()
    return float(free) * float(size)


def test_every_rule_is_evaluated_and_what_is_recorded_has_data(watched: Watched) -> None:
    rules = monitoring.rules()
    records = sorted({rule["record"] for rule in rules if "record" in rule})

    def state() -> list[str]:
        found = [rule for group in watched.get("rules")["groups"] for rule in group["rules"] if rule["name"].lower().startswith("fairlead")]
        names = {rule["name"] for rule in found if rule["health"] == "ok"}
        errors = [f"{rule['name']}: {rule['health']} {rule.get('lastError', '')}" for rule in found if rule["health"] != "ok"]
        absent = sorted({*records, *monitoring.alerts()} - names)
        return [
            *errors,
            *absent,
            *(f"{name} has no data" for name, answer in watched.instants(records).items() if not has_data(answer)),
        ]

    wait_until(lambda: not state(), "every rule is evaluated", last_seen=state, not_yet=(CommandError, DevError))


def raised(watched: Watched) -> dict[str, str]:
    """The alerts that are pending or firing, with which of both."""
    return {alert["labels"]["alertname"]: alert["state"] for alert in watched.get("alerts")["alerts"]}


def test_guarantees_beyond_the_link_bring_their_alert_about(watched: Watched) -> None:
    """Pending is enough: as the jobs' demands change the guarantees fit for a moment, and the alert wants five minutes without one."""
    wait_until(
        lambda: SHRUNK in raised(watched), f"the alert {SHRUNK}", last_seen=lambda: raised(watched), not_yet=(CommandError, DevError)
    )


def lacking(found: BoardAnswers, boards: list[Board]) -> list[str]:
    """Queries without a number in the whole run, variables that offer nothing, and questions without an answer."""
    empty = [
        f"{query.board}, {query.panel}, {query.ref}: {query.expr}"
        for board in boards
        for query in queries(board)
        if not has_data(found.answer(board, query))
    ]
    without = [f"{board['title']}: nothing to choose of {name}" for board in boards for name in found.variables_without_values(board)]
    return empty + without + [each.question for each in QUESTIONS if each.question not in answered(boards, found)]


def test_a_change_of_the_policy_is_followed(watched: Watched, kubectl: Kubectl) -> None:
    kubectl.apply(by_weight())
    await_each(watched, BY_WEIGHT)


def test_every_panel_has_data_with_one_job_chosen(watched: Watched, cluster: LocalCluster) -> None:
    boards = load(cluster.checkout / "charts" / "fairlead" / "dashboards")

    def state() -> list[str]:
        window = TimeWindow(watched.began_s, time.time(), SCRAPE_S)
        return unanswered(boards, {job: ask_local(cluster, window, chosen(job), over_time=True) for job in JOBS})

    wait_until(lambda: not state(), "data of one job in every panel of every board", last_seen=state, not_yet=(CommandError, DevError))


def test_every_panel_has_data_and_every_question_is_answered(watched: Watched, cluster: LocalCluster) -> None:
    boards = load(cluster.checkout / "charts" / "fairlead" / "dashboards")
    assert sum(len(queries(board)) for board in boards) >= 60

    def asked(*, over_time: bool) -> BoardAnswers:
        found = ask_local(cluster, TimeWindow(watched.began_s, time.time(), SCRAPE_S), {}, over_time=over_time)
        if folder := os.environ.get("FAIRLEAD_BOARD_ANSWERS"):
            Path(folder, "run.json" if over_time else "end.json").write_text(json.dumps(found.to_json()), encoding="utf-8")
        return found

    def state() -> list[str]:
        return lacking(asked(over_time=True), boards)

    try:
        wait_until(lambda: not state(), "data in every panel of every board", last_seen=state, not_yet=(CommandError, DevError))
    finally:
        # What a board shows now, for its picture.
        asked(over_time=False)


def test_an_operator_that_is_gone_brings_its_alert_about_until_it_is_back(watched: Watched, kubectl: Kubectl) -> None:
    def await_state(state: str | None, timeout_s: float = PATIENCE_S) -> None:
        what = f"the alert {DOWN}: {state}"
        wait_until(
            lambda: raised(watched).get(DOWN) == state, what, timeout_s, last_seen=lambda: raised(watched), not_yet=(CommandError, DevError)
        )

    assert DOWN not in raised(watched)
    scale_operator(kubectl, 0)
    try:
        await_state("pending")
        await_state("firing", OPERATOR_GONE_S + PATIENCE_S)
    finally:
        scale_operator(kubectl, 1)
    await_state(None)


def scale_operator(kubectl: Kubectl, replicas: int) -> None:
    """Has so many pods run the operator."""
    kubectl.run("scale", "deployment", RELEASE, f"--replicas={replicas}", namespace=RELEASE_NAMESPACE)
