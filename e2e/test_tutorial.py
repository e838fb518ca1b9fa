"""The tutorial, run as it is written: two tenants share a link by weight, and all that they move arrives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.conftest import BUILD, TURNS
from e2e.lib import evidence
from e2e.lib.evidence import FAILED
from e2e.lib.job import Job
from e2e.lib.manifests import DESTINATION_NODE, FOLDER, SOURCE_NODE
from e2e.lib.policy import rate_bps
from e2e.lib.turns import turn
from e2e.lib.tutorial import CLEAN_UP, COMMANDS, PAGE, PREPARE, TENANTS, Step, looks_as_shown, steps
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import LIST_SCRIPT, Listing, compare, parse_listing

DISKS = "/var/lib/kubelet/disks"
JOB = "run42"
"""The tutorial's name for the job of each tenant."""


def run(cluster: LocalCluster, step: Step) -> str:
    return cluster.inside("bash", "-c", f"cd {cluster.checkout} && {step.command}", timeout_s=PATIENCE_S).decode()


def anyway(removal: Step) -> Step:
    """The removal of what may be gone already."""
    return Step(removal.section, f"{removal.command} --ignore-not-found")


@pytest.fixture
def tenants(cluster: LocalCluster, installed: None) -> Iterator[str]:
    """The tutorial's page, with what its section before the five commands makes, and without it in the end."""
    page = PAGE.read_text()
    try:
        # Beside other tests: it makes files and no jobs.
        with turn(TURNS):
            for step in steps(page, PREPARE):
                run(cluster, step)
        yield page
    finally:
        for step in steps(page, CLEAN_UP):
            run(cluster, anyway(step))
        for node in (SOURCE_NODE, DESTINATION_NODE):
            cluster.on(node, "sh", "-c", f"rm -rf {DISKS}/tutorial-*")


@pytest.fixture
def prepared(cluster: LocalCluster, tenants: str, alone: None, kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """The page, with its preparation done and the cluster for this test alone."""
    # What other tests left of the nodes' second interfaces would carry one of the jobs past the tutorial's link.
    kubectl.run("delete", "datatransfernode", "--all")
    try:
        yield tenants
        if request.node.stash.get(FAILED, False):
            for tenant in TENANTS:
                evidence.keep(BUILD / f"tutorial-{tenant}", kubectl, tenant, {})
    finally:
        # The policy would cap the jobs of the next test.
        run(cluster, anyway(steps(tenants, CLEAN_UP)[0]))


@pytest.mark.exclusive
def test_the_tutorial_ends_with_a_verified_fair_transfer(cluster: LocalCluster, prepared: str, kubectl: Kubectl) -> None:
    install, start, wait_for_both, look, wait_for_end = steps(prepared, COMMANDS)
    assert install.command.startswith("helm install ")  # run when the chart was installed, before all tests
    assert looks_as_shown(run(cluster, start), start.shown)
    with Job(kubectl, "astro", JOB) as astro, Job(kubectl, "bio", JOB) as bio:
        assert looks_as_shown(run(cluster, wait_for_both), wait_for_both.shown)

        seen = ""

        def both_transfer() -> bool:
            nonlocal seen
            seen = run(cluster, look)
            # A busy machine may not carry what either may send; more than that neither sends for long.
            return looks_as_shown(seen, look.shown) and all(0 < measured <= 1.1 * share for share, measured in rates_bps(seen))

        wait_until(both_transfer, "both tenants transferring", last_seen=lambda: seen)
        wait_until(
            lambda: had_twice_the_share(astro, bio),
            "two to one in the statuses of both jobs",
            last_seen=lambda: [[change.object.get("status", {}).get("bandwidth") for change in job.changes] for job in (astro, bio)],
        )
    assert looks_as_shown(run(cluster, wait_for_end), wait_for_end.shown)
    for tenant in TENANTS:
        source, destination = (listing(cluster, *end, tenant) for end in ((SOURCE_NODE, "raw"), (DESTINATION_NODE, "scratch")))
        assert source
        assert compare(source, destination) == []


def had_twice_the_share(one: Job, other: Job) -> bool:
    """Whether one job ever had twice the share that the other one had at the same time.

    At any time: what a job on a busy machine does not use is rightly given to the other one after some seconds.
    """
    versions = [change.object for job in (one, other) for change in job.changes]
    shares_bps: dict[str, float] = {}
    # Two watches may tell them in another order than they were written in.
    for version in sorted(versions, key=lambda version: int(version["metadata"]["resourceVersion"])):
        allocated = version.get("status", {}).get("bandwidth", {}).get("allocated", "0")
        shares_bps[version["metadata"]["namespace"]] = rate_bps(allocated)
        share_bps, others_bps = (shares_bps.get(job.namespace, 0) for job in (one, other))
        if others_bps and share_bps == pytest.approx(2 * others_bps, rel=0.02):
            return True
    return False


def rates_bps(printed: str) -> list[tuple[float, float]]:
    """Share and measured rate of each line of the table that the page shows."""
    rows = [line.split() for line in printed.splitlines()[1:]]
    return [(rate_bps(share), rate_bps(measured)) for _, _, share, measured in rows]


def listing(cluster: LocalCluster, node: str, claim: str, tenant: str) -> Listing:
    return parse_listing(cluster.on(node, "sh", "-c", LIST_SCRIPT, "sh", f"{DISKS}/tutorial-{tenant}-{claim}/{FOLDER}"))
