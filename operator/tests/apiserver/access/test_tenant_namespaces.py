"""The operator with rights in the namespaces of `tenantNamespaces` alone, by the RoleBindings that the chart makes for them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from control_plane import CHECKOUT, find_programs
from kubelet import FakeNodes
from lab import NOT_ALLOWED, PATIENCE_SECONDS, REQUEST_SECONDS, Lab, eventually

from fairlead.api import names
from fairlead.kube.client import JOBS, PODS, SECRETS, KubeClient, load_configuration
from fairlead.kube.errors import ForbiddenError

ACCOUNT = "system:serviceaccount:fairlead-system:fairlead"
ROLE = "fairlead-tenants"


@pytest.fixture
def namespaced(lab: Lab) -> Iterator[Lab]:
    """The chart's rights with the lab's namespace as the only tenant's, until the test ends."""
    chart = str(CHECKOUT / "charts" / "fairlead")
    command = [str(find_programs()["helm"]), "template", "fairlead", chart, "--namespace", "fairlead-system", "--kube-version", "1.34.0"]
    values = ["--set", f"tenantNamespaces={{{lab.namespace}}}", "--show-only", "templates/rbac.yaml"]
    rendered = subprocess.run([*command, *values], check=True, capture_output=True, text=True).stdout
    everywhere = json.loads(lab.kubectl("get", "clusterrolebinding", ROLE, "-o", "json").stdout)
    everywhere["metadata"] = {"name": ROLE, "labels": everywhere["metadata"]["labels"]}
    lab.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=rendered)
    lab.kubectl("delete", "clusterrolebinding", ROLE)
    try:
        _await_right(lab, "default", held=False)
        _await_right(lab, lab.namespace, held=True)
        lab.options["tenant-namespaces"] = lab.namespace
        yield lab
    finally:
        lab.kubectl("create", "-f", "-", stdin=json.dumps(everywhere))
        _await_right(lab, "default", held=True)


def _await_right(lab: Lab, namespace: str, *, held: bool) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (lab.kubectl("auth", "can-i", "list", "pods", "-n", namespace, f"--as={ACCOUNT}", check=False).returncode == 0) is not held:
        assert time.monotonic() < deadline, f"the rights in {namespace} did not change"
        time.sleep(0.05)


async def test_a_job_in_a_tenants_namespace_goes_its_whole_way(namespaced: Lab) -> None:
    lab = namespaced
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        job = await lab.create_job(ttlSecondsAfterFinished=3600)
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        await nodes.start(sender)
        await lab.condition("MoversReady")
        await nodes.finish(sender)
        await nodes.finish(receiver)
        await lab.condition("Succeeded")
        await lab.client.delete(JOBS, lab.namespace, "job", uid=job["metadata"]["uid"])
        await lab.gone()


async def test_a_tenants_namespace_can_be_deleted_with_a_job_that_is_held(namespaced: Lab) -> None:
    lab, leaving = namespaced, f"{namespaced.namespace}-leaving"
    lab.options["tenant-namespaces"] = f"{lab.namespace},{leaving}"
    lab.kubectl("create", "namespace", leaving)
    subject = "--serviceaccount=fairlead-system:fairlead"
    lab.kubectl("-n", leaving, "create", "rolebinding", ROLE, f"--clusterrole={ROLE}", subject)
    _await_right(lab, leaving, held=True)
    try:
        async with lab.operator():
            other = replace(lab, namespace=leaving)
            manifest = other.manifest(network="Pod")
            manifest["metadata"]["finalizers"] = [names.FINALIZER]
            await lab.client.create(JOBS, leaving, manifest)
            await eventually(lambda: _is_seen(other), "the operator to see the job")
            # As the namespace controller does it, in any order: what has no finalizer is gone at once.
            lab.kubectl("delete", "namespace", leaving, "--wait=false")
            lab.kubectl("-n", leaving, "delete", "rolebinding", ROLE)
            _await_right(lab, leaving, held=False)
            await lab.client.delete(JOBS, leaving, "job")
            await other.gone()
    finally:
        lab.kubectl("-n", leaving, "delete", "pods", "--all", "--grace-period=0", "--force", check=False)
        finalized = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": leaving}, "spec": {"finalizers": []}}
        lab.kubectl("replace", "--raw", f"/api/v1/namespaces/{leaving}/finalize", "-f", "-", stdin=json.dumps(finalized))


async def _is_seen(lab: Lab) -> bool:
    return "status" in await lab.job()


async def test_a_job_elsewhere_is_not_served(namespaced: Lab) -> None:
    lab = namespaced
    elsewhere = lab.manifest(suspend=True, network="Pod")
    elsewhere["metadata"]["namespace"] = NOT_ALLOWED
    await lab.client.create(JOBS, NOT_ALLOWED, elsewhere)
    try:
        async with lab.operator():
            await lab.create_job(suspend=True)
            await lab.condition("Suspended")
        assert "status" not in await lab.client.get(JOBS, NOT_ALLOWED, "job")
    finally:
        await lab.client.delete(JOBS, NOT_ALLOWED, "job")


async def test_a_deleted_job_of_a_namespace_that_is_not_served_any_more_is_let_go(namespaced: Lab) -> None:
    lab = namespaced
    lab.options["resync-seconds"] = "1"
    left = replace(lab, namespace=NOT_ALLOWED)
    manifest = left.manifest(network="Pod")
    manifest["metadata"]["finalizers"] = [names.FINALIZER]
    await lab.client.create(JOBS, NOT_ALLOWED, manifest)
    await lab.client.delete(JOBS, NOT_ALLOWED, "job")
    async with lab.operator():
        await left.gone()


async def test_a_namespace_without_rights_does_not_keep_the_others_from_being_served(namespaced: Lab) -> None:
    lab = namespaced
    lab.options["tenant-namespaces"] = f"gone,{lab.namespace},{NOT_ALLOWED}"
    async with lab.operator():
        await lab.create_job()
        await lab.appears("receiver")


async def test_the_operators_account_makes_and_reads_no_pods_elsewhere(namespaced: Lab) -> None:
    operator = KubeClient(await load_configuration(namespaced.operator_kubeconfig), timeout_seconds=REQUEST_SECONDS)
    body = {"apiVersion": "v1", "metadata": {"name": "x"}}
    try:
        for namespace in (NOT_ALLOWED, "kube-system"):
            with pytest.raises(ForbiddenError):
                await operator.create(PODS, namespace, {**body, "kind": "Pod", "spec": {"containers": [{"name": "x", "image": "x"}]}})
            with pytest.raises(ForbiddenError):
                await operator.create(SECRETS, namespace, {**body, "kind": "Secret"})
            with pytest.raises(ForbiddenError):
                async for _ in operator.list_pages(PODS, namespace):
                    pass
    finally:
        await operator.close()


def test_what_the_chart_grants_by_namespace_is_what_it_grants_everywhere(lab: Lab) -> None:
    roles = json.loads(lab.kubectl("get", "clusterroles", "fairlead", ROLE, "-o", "json").stdout)["items"]
    rules = {role["metadata"]["name"]: role["rules"] for role in roles}
    namespaced = {resource for rule in rules[ROLE] for resource in rule["resources"]}
    assert namespaced == {"pods", "secrets", "events", "persistentvolumeclaims", "network-attachment-definitions"}
    assert {group for rule in rules["fairlead"] for group in rule["apiGroups"] if group} == {names.GROUP}
