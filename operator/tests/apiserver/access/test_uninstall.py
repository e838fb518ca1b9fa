"""`fairlead uninstall` as the chart's hook runs it: by the operator's account, with the rights that the hook adds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable

import pytest
from control_plane import CHECKOUT, find_programs
from kubelet import FakeNodes
from lab import REQUEST_SECONDS, Lab, eventually, read_documents

from fairlead.api import names
from fairlead.commands.uninstall import DEPLOYMENTS, OperatorPlace, UninstallError, main, uninstall
from fairlead.kube.client import JOBS, SECRETS, KubeClient, load_configuration
from fairlead.kube.errors import NotFoundError

PLACE = OperatorPlace("fairlead-system", "fairlead", "app.kubernetes.io/instance=fairlead,app.kubernetes.io/component=operator")


@pytest.fixture
def hook(lab: Lab) -> Callable[[str], dict[str, object]]:
    """The hook's objects by kind. Its rights are in force while the test runs."""
    helm, chart = str(find_programs()["helm"]), str(CHECKOUT / "charts" / "fairlead")
    command = [helm, "template", "fairlead", chart, "--namespace", "fairlead-system", "--kube-version", "1.34.0"]
    rendered = subprocess.run([*command, "--show-only", "templates/uninstall.yaml"], check=True, capture_output=True, text=True).stdout
    objects = {each["kind"]: each for each in read_documents(rendered)}
    lab.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": [objects["Role"], objects["RoleBinding"]]})
    lab.kubectl("-n", "fairlead-system", "scale", "deployment", "fairlead", "--replicas=1")
    return objects.__getitem__


@pytest.fixture
async def account(lab: Lab, hook: Callable[[str], dict[str, object]]) -> AsyncIterator[KubeClient]:
    """The operator's account."""
    client = KubeClient(await load_configuration(lab.operator_kubeconfig), timeout_seconds=REQUEST_SECONDS)

    async def may_scale() -> bool:
        question = ("auth", "can-i", "patch", "deployments.apps/fairlead", "--subresource=scale", "-n", "fairlead-system")
        return lab.kubectl(*question, "--as=system:serviceaccount:fairlead-system:fairlead", check=False).returncode == 0

    await eventually(may_scale, "the hook's rights")
    yield client
    await client.close()


async def _begin(lab: Lab, nodes: FakeNodes) -> None:
    await lab.create_job()
    await nodes.start(await lab.appears("receiver"))
    await nodes.start(await lab.appears("sender"))
    await lab.condition("MoversReady")


async def _finalizers(lab: Lab) -> list[str]:
    return (await lab.job())["metadata"].get("finalizers") or []


async def test_a_live_job_is_let_go_and_its_movers_and_credentials_are_removed(lab: Lab, account: KubeClient) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            await _begin(lab, nodes)
        assert names.FINALIZER in await _finalizers(lab)
        left = (await lab.job())["status"]
        done = await uninstall(account, PLACE, deletes_jobs=False, cleanup_seconds=0)
        assert (done.deleted, done.released, done.movers, done.unserved) == (0, 1, 2, [])
        assert await _finalizers(lab) == []
        deployment = await lab.client.get(DEPLOYMENTS, PLACE.namespace, PLACE.deployment)
        assert deployment["spec"]["replicas"] == 0
        job = await lab.job()
        with pytest.raises(NotFoundError):
            await lab.client.get(SECRETS, lab.namespace, names.credentials_name("job", job["metadata"]["uid"], 1))
        assert job["status"] == left


async def test_the_release_and_with_it_the_node_guard_stays_until_movers_are_gone(lab: Lab, account: KubeClient) -> None:
    waited = 0
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.reaps = False
        async with lab.operator():
            await _begin(lab, nodes)

        async def end_one(seconds: float) -> None:
            nonlocal waited
            leaving = [pod for pod in await lab.pods() if pod["metadata"].get("deletionTimestamp")]
            if leaving:
                waited += 1
                await nodes.remove(leaving[0])

        await uninstall(account, PLACE, deletes_jobs=False, cleanup_seconds=0, pause=end_one)
    assert waited == 2
    assert await lab.pods() == []


async def test_a_new_installation_goes_on_with_a_kept_job_whose_movers_end_as_it_starts(lab: Lab, account: KubeClient) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.reaps = False
        async with lab.operator():
            await _begin(lab, nodes)
        await uninstall(account, PLACE, deletes_jobs=False, cleanup_seconds=0, mover_seconds=0)
        async with lab.operator():
            # It has listed them and does not watch yet, so nothing tells it that they go.
            leaving = await lab.pods()
            assert len(leaving) == 2
            for pod in leaving:
                await nodes.remove(pod)
            nodes.reaps = True
            await nodes.start(await lab.appears("receiver", 2))
            await nodes.start(await lab.appears("sender", 2))
            await lab.condition("MoversReady")
    job = await lab.job()
    assert job["status"]["attempts"] == 2
    assert names.FINALIZER in await _finalizers(lab)


async def test_a_job_that_nobody_can_let_go_any_more_and_its_namespace_are_freed(lab: Lab, account: KubeClient) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            await _begin(lab, nodes)
        await lab.client.delete(JOBS, lab.namespace, "job", uid=(await lab.job())["metadata"]["uid"])
        # This is what an uninstallation left behind: the job, and with it its namespace, waits for an operator that is gone.
        assert (await lab.job())["metadata"]["deletionTimestamp"]
        await uninstall(account, PLACE, deletes_jobs=False, cleanup_seconds=0)
        await lab.gone()


async def test_somebody_elses_finalizer_stays(lab: Lab, account: KubeClient) -> None:
    async with lab.operator():
        await lab.create_job()
        await lab.appears("receiver")
    finalizers = [*await _finalizers(lab), "example.org/theirs"]
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"metadata": {"finalizers": finalizers}})
    await uninstall(account, PLACE, deletes_jobs=False, cleanup_seconds=0)
    assert await _finalizers(lab) == ["example.org/theirs"]


async def test_jobs_that_go_with_their_definitions_are_cleaned_up_by_the_operator_first(lab: Lab, account: KubeClient) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await _begin(lab, nodes)

        async def clean_up(seconds: float) -> None:
            cleaner = await lab.appears("cleaner")
            await nodes.start(cleaner, serve=False)
            await nodes.finish(cleaner, reason="Cleaned", attempt=0)
            await lab.gone()

        done = await uninstall(account, PLACE, deletes_jobs=True, cleanup_seconds=120, pause=clean_up)
    assert (done.deleted, done.released) == (1, 0)
    assert await lab.job_or_none() is None


async def test_a_destination_out_of_reach_does_not_keep_deleted_jobs(lab: Lab, account: KubeClient) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            await _begin(lab, nodes)
        done = await uninstall(account, PLACE, deletes_jobs=True, cleanup_seconds=0)
    assert (done.deleted, done.released) == (1, 1)
    await lab.gone()


async def test_without_the_right_to_stop_the_operator_nothing_is_let_go(lab: Lab, account: KubeClient) -> None:
    lab.kubectl("-n", "fairlead-system", "delete", "rolebinding", "fairlead-uninstall")
    async with lab.operator():
        await lab.create_job()
        await lab.appears("receiver")

    async def refused() -> bool:
        try:
            await uninstall(account, PLACE, deletes_jobs=False, cleanup_seconds=0)
        except UninstallError as error:
            return "docs/how-to/uninstall.md" in str(error)
        return False

    await eventually(refused, "the refusal")
    assert names.FINALIZER in await _finalizers(lab)


def test_the_hook_runs_the_command_as_it_is(
    lab: Lab, hook: Callable[[str], dict[str, object]], account: KubeClient, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = json.loads(json.dumps(hook("Job")))["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "fairlead"
    command, *flags = pod["containers"][0]["args"]
    assert command == "uninstall"
    assert main([*flags, "--kubeconfig", str(lab.operator_kubeconfig)]) == 0
    assert "TransferJobs let go" in capsys.readouterr().out
