"""The tutorial, run as it is written: two tenants share a link by weight, and all that they move arrives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.conftest import BUILD, TURNS
from e2e.lib import evidence
from e2e.lib.evidence import FAILED
from e2e.lib.manifests import DESTINATION_NODE, FOLDER, SOURCE_NODE
from e2e.lib.policy import rate_bps
from e2e.lib.turns import turn
from e2e.lib.tutorial import CLEAN_UP, COMMANDS, PAGE, PREPARE, TENANTS, Step, looks_as_shown, steps
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import LIST_SCRIPT, Listing, compare, parse_listing

DISKS = "/var/lib/kubelet/disks"


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
def test_the_tutorial_ends_with_a_verified_fair_transfer(cluster: LocalCluster, prepared: str) -> None:
    install, start, wait_for_both, look, wait_for_end = steps(prepared, COMMANDS)
    assert install.command.startswith("helm install ")  # run when the chart was installed, before all tests
    for step in (start, wait_for_both):
        assert looks_as_shown(run(cluster, step), step.shown)

    seen = ""

    def both_transfer() -> bool:
        nonlocal seen
        seen = run(cluster, look)
        if not looks_as_shown(seen, look.shown):
            return False
        (astro, astro_measured), (bio, bio_measured) = rates_bps(seen)
        # A busy machine may not carry what either may send; more than that neither sends for long.
        return astro == pytest.approx(2 * bio, rel=0.02) and 0 < astro_measured <= 1.1 * astro and 0 < bio_measured <= 1.1 * bio

    wait_until(both_transfer, "both tenants transferring, two to one", last_seen=lambda: seen)
    assert looks_as_shown(run(cluster, wait_for_end), wait_for_end.shown)
    for tenant in TENANTS:
        source, destination = (listing(cluster, *end, tenant) for end in ((SOURCE_NODE, "raw"), (DESTINATION_NODE, "scratch")))
        assert source
        assert compare(source, destination) == []


def rates_bps(printed: str) -> list[tuple[float, float]]:
    """Share and measured rate of each line of the table that the page shows."""
    rows = [line.split() for line in printed.splitlines()[1:]]
    return [(rate_bps(share), rate_bps(measured)) for _, _, share, measured in rows]


def listing(cluster: LocalCluster, node: str, claim: str, tenant: str) -> Listing:
    return parse_listing(cluster.on(node, "sh", "-c", LIST_SCRIPT, "sh", f"{DISKS}/tutorial-{tenant}-{claim}/{FOLDER}"))
