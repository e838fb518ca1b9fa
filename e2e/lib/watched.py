"""The run that a Prometheus watches: its tenants, its jobs and its policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.lib import install, node_agent
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.policy import LINK, policy
from e2e.lib.waiting import wait_until
from fairlead_dev.boards.answers import BoardAnswers, has_data
from fairlead_dev.boards.frame import FAIRNESS, GOODPUT, OPERATOR
from fairlead_dev.boards.reading import Board, queries
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.clients.release import monitored_values
from fairlead_dev.cluster.client import LocalCluster

MB: Final = 1_000_000
ASTRO, GENOMICS = "e2e-monitoring-astro", "e2e-monitoring-genomics"
KNOWN = "e2e-monitoring-known"
"""A second namespace of the tenant astro, with two jobs that end: nothing else is in its counters."""
NAMESPACES = frozenset({ASTRO, GENOMICS, KNOWN})
WEIGHTS: Final[Mapping[str, int]] = {ASTRO: 1, GENOMICS: 3}
CAPACITY, GUARANTEE = "30M", "20M"
"""Of the link and of each of the two tenants. So narrow that their jobs outlast the tests."""
SMALL, MISSING = "small", "missing"
SMALL_BYTES, SMALL_FILES = 5 * MB, 4
SIZES_BYTES: Final[Mapping[str, int]] = {"sky": 800 * MB, "assembly": 1600 * MB}
LONG_FILES = 6
"""Of each of the two long jobs."""
TRANSFERS: Final[Mapping[str, str]] = {"sky": ASTRO, "assembly": GENOMICS}
"""The two long jobs, with their tenants."""
WAITING, LIMITED = "waiting", "again"
JOBS: Final[Mapping[str, tuple[str, str]]] = {
    **{job: (tenant, tenant) for job, tenant in TRANSFERS.items()},
    WAITING: (GENOMICS, GENOMICS),
    LIMITED: (ASTRO, ASTRO),
    MISSING: (KNOWN, ASTRO),
}
"""The jobs for which boards are asked, with namespace and tenant."""
OTHER_SUBJECTS: Final[Mapping[tuple[str, str, str], str]] = {
    # Neither of the transfers is among those that do not move, or need ever have been seen there.
    (GOODPUT.title, "Jobs not yet moving", "A"): WAITING,
    (FAIRNESS.title, "Longest wait", "A"): WAITING,
    (FAIRNESS.title, "Jobs that wait", "A"): WAITING,
    # The others have no limit of their own.
    (GOODPUT.title, "Asked, allowed, measured", "A"): LIMITED,
    # In the others' namespaces nothing fails.
    (OPERATOR.title, "Attempts that failed", "A"): MISSING,
}
"""Queries, by board, panel and letter, that have no answer for a transfer, and the job that they are about."""
INTERFACE = "data0"
"""That of the policy's link. Jobs name it: on nodes that describe themselves they would be spread over two."""
SPACE, SPACE_SIZE = "e2e-monitoring-space", "32M"
"""A disk of its own on each transfer node, whose space the agents report."""
TRANSFER_NODES = (SOURCE_NODE, DESTINATION_NODE)


def by_weight() -> Object:
    """The policy that shares the link by weights alone."""
    made = policy(CAPACITY, WEIGHTS)
    for tenant in made["spec"]["tenants"]:
        if tenant["name"] == ASTRO:
            both = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [ASTRO, KNOWN]}
            tenant["namespaceSelector"] = {"matchExpressions": [both]}
    return made


def crowded() -> Object:
    """The same policy with guarantees that are more than the link has, and so are shrunk."""
    made = by_weight()
    for tenant in made["spec"]["tenants"]:
        tenant["guarantee"] = GUARANTEE
    return made


def chosen(job: str) -> dict[str, str]:
    """The boards' variables, set to one job."""
    namespace, tenant = JOBS[job]
    return {"namespace": namespace, "tenant": tenant, "link": LINK, "node": SOURCE_NODE, "job": job}


def unanswered(boards: Iterable[Board], by_job: Mapping[str, BoardAnswers]) -> list[str]:
    """Queries without a number for either of the two transfers, or for the job that they are about, given the answers for each job."""
    missing = []
    for board in boards:
        for query in queries(board):
            subject = OTHER_SUBJECTS.get((query.board, query.panel, query.ref))
            jobs = list(TRANSFERS) if subject is None else [subject]
            if not any(has_data(by_job[job].answer(board, query)) for job in jobs):
                missing.append(f"{query.board}, {query.panel}, {query.ref}, for {' or '.join(jobs)}: {query.expr}")
    return missing


@contextmanager
def installed(cluster: LocalCluster, kubectl: Kubectl, run_id: str, values_folder: Path) -> Iterator[str]:
    """The chart watched by Prometheus, with agents and guards on the nodes until the block is left; gives the path of `SPACE` there."""
    for node in TRANSFER_NODES:
        cluster.remove_disk(node, SPACE)
    (folder,) = {cluster.disk(node, SPACE, SPACE_SIZE).path for node in TRANSFER_NODES}
    on_nodes = {"nodeAgent": {"enabled": True, "storagePaths": [folder]}, "nodeGuard": {"enabled": True}}
    try:
        install.install(cluster, NAMESPACES, run_id, values_folder, {**monitored_values(True), **on_nodes})
        wait_until(lambda: all(node_agent.reports(kubectl, node) for node in TRANSFER_NODES), "a report of every data transfer node")
        yield folder
    finally:
        install.install(cluster, NAMESPACES, run_id, values_folder, monitored_values(True))
        kubectl.delete("datatransfernode", [dtn["metadata"]["name"] for dtn in kubectl.list("datatransfernode")])
        for node in TRANSFER_NODES:
            cluster.remove_disk(node, SPACE)
