"""Our client against a real API server: preconditions, pages, and what each refusal is called."""

from __future__ import annotations

import asyncio

import pytest
from lab import REQUEST_SECONDS, Lab, eventually

from fairlead.api import names
from fairlead.kube import client as client_module
from fairlead.kube.client import JOBS, SECRETS, ClientConfigurationError, KubeClient, KubeObject, load_configuration
from fairlead.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    NamespaceTerminatingError,
    NotFoundError,
    UnavailableError,
)


async def test_a_taken_name_is_told_from_a_conflict(lab: Lab) -> None:
    job = await lab.create_job()
    with pytest.raises(AlreadyExistsError):
        await lab.create_job()
    with pytest.raises(ConflictError):
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"metadata": {"resourceVersion": "1"}, "spec": {"suspend": True}})
    patched = await lab.client.merge_patch(
        JOBS, lab.namespace, "job", {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "spec": {"suspend": True}}
    )
    assert patched["spec"]["suspend"] is True


async def test_a_status_patch_at_an_old_version_is_a_conflict(lab: Lab) -> None:
    job = await lab.create_job()
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"suspend": True}})
    stale = {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "status": {"phase": "Pending"}}
    with pytest.raises(ConflictError):
        await lab.client.merge_patch(JOBS, lab.namespace, "job", stale, subresource="status")


async def test_deletes_only_the_incarnation_and_version_it_names(lab: Lab) -> None:
    job = (await lab.create_job())["metadata"]
    with pytest.raises(ConflictError):
        await lab.client.delete(JOBS, lab.namespace, "job", uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(ConflictError):
        await lab.client.delete(JOBS, lab.namespace, "job", uid=job["uid"], resource_version="1")
    await lab.client.delete(JOBS, lab.namespace, "job", uid=job["uid"], resource_version=job["resourceVersion"])
    with pytest.raises(NotFoundError):
        await lab.job()


async def test_lists_all_pages(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAGE_SIZE", 2)
    await asyncio.gather(*(lab.create_job(f"job-{number}") for number in range(5)))
    pages = [page async for page in lab.client.list_pages(JOBS, lab.namespace)]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert {job["metadata"]["name"] for page in pages for job in page} == {f"job-{number}" for number in range(5)}


async def test_a_dying_namespace_is_told_from_a_missing_right(lab: Lab) -> None:
    lab.kubectl("delete", "namespace", lab.namespace, "--wait=false")

    async def refused() -> bool:
        try:
            await lab.create_job("late")
        except NamespaceTerminatingError:
            return True
        return False

    await eventually(refused, "creation to be refused")


async def test_the_operator_may_write_secrets_but_not_read_them(lab: Lab) -> None:
    operator = KubeClient(await load_configuration(lab.operator_kubeconfig), timeout_seconds=REQUEST_SECONDS)
    job = (await lab.create_job(suspend=True))["metadata"]
    name = names.credentials_name(job["name"], job["uid"], 1)
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": job["name"], "uid": job["uid"], "controller": True}
    metadata = {"name": name, "namespace": lab.namespace, "ownerReferences": [owner]}
    secret: KubeObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "immutable": True}
    try:
        await operator.create(SECRETS, lab.namespace, secret)
        with pytest.raises(ForbiddenError):
            await operator.get(SECRETS, lab.namespace, name)
        with pytest.raises(ForbiddenError):
            async for _ in operator.list_pages(SECRETS, lab.namespace):
                pass
        # The answer to a deletion in the foreground would hold the Secret.
        with pytest.raises(ForbiddenError, match="may not read them"):
            await operator._request("DELETE", SECRETS.path(lab.namespace, name), body={"propagationPolicy": "Foreground"})
        await operator.delete(SECRETS, lab.namespace, name)
    finally:
        await operator.close()


async def test_an_api_server_that_is_not_there_is_unavailable(lab: Lab) -> None:
    configuration = await load_configuration(lab.operator_kubeconfig)
    configuration.host = "https://127.0.0.1:1"
    nobody = KubeClient(configuration, timeout_seconds=REQUEST_SECONDS)
    try:
        with pytest.raises(UnavailableError, match="GET /apis/"):
            await nobody.get(JOBS, lab.namespace, "job")
    finally:
        await nobody.close()


async def test_a_kubeconfig_that_is_not_there_is_named(lab: Lab) -> None:
    with pytest.raises(ClientConfigurationError, match=r"nowhere\.yaml"):
        await load_configuration(lab.operator_kubeconfig.parent / "nowhere.yaml")


async def test_without_kubeconfig_or_service_account_it_says_what_to_give() -> None:
    with pytest.raises(ClientConfigurationError, match="--kubeconfig"):
        await load_configuration(None)
