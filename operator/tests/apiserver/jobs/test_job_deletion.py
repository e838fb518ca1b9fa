"""Deletion in every state, restarts of the operator, and objects that stand in its way."""

from __future__ import annotations

import time

import pytest
from kubelet import FakeNodes
from lab import Lab, eventually

from fairlead.api import names
from fairlead.kube.client import JOBS, PODS, KubeObject
from fairlead.kube.clock import ServerClock


async def _delete(lab: Lab) -> None:
    job = await lab.job()
    await lab.client.delete(JOBS, lab.namespace, "job", uid=job["metadata"]["uid"])


async def _no_movers(lab: Lab) -> None:
    async def look() -> bool:
        return await lab.pod("receiver") is None and await lab.pod("sender") is None

    await eventually(look, "both movers to be gone", lab.pods)


async def test_deleting_a_running_job_stops_both_ends_and_then_removes_partial_files(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        await nodes.start(await lab.appears("receiver"))
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        await _delete(lab)
        cleaner = await lab.appears("cleaner")
        await _no_movers(lab)
        assert not cleaner["spec"].get("hostNetwork")
        assert cleaner["spec"]["containers"][0]["args"][0] == "clean"
        assert names.FINALIZER in (await lab.job())["metadata"]["finalizers"]
        await nodes.start(cleaner, serve=False)
        await nodes.finish(cleaner, reason="Cleaned", attempt=0)
        await lab.gone()


async def test_deleting_a_job_that_made_nothing_needs_no_cleaner(lab: Lab) -> None:
    async with lab.operator():
        await lab.create_job(suspend=True)
        await lab.condition("Suspended")
        await _delete(lab)
        await lab.gone()
        assert await lab.pods() == []


async def test_deleting_a_job_that_succeeded_needs_no_cleaner(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        await nodes.finish(receiver)
        await lab.condition("Succeeded")
        await _delete(lab)
        await lab.gone()
        assert await lab.pod("cleaner") is None


async def test_no_cleaner_works_beside_a_receiver_whose_owner_was_taken_away(lab: Lab) -> None:
    """As by `kubectl delete --cascade=orphan`, which the garbage collector carries out: there is none here."""
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.reaps = False
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        for pod in await lab.pods():
            await lab.client.merge_patch(PODS, lab.namespace, pod["metadata"]["name"], {"metadata": {"ownerReferences": None}})
        lab.kubectl("-n", lab.namespace, "delete", "transferjob", "job", "--cascade=orphan", "--wait=false")

        async def leaving() -> bool:
            return all(pod["metadata"].get("deletionTimestamp") for pod in await lab.pods())

        await eventually(leaving, "both movers to be told to stop", lab.pods)
        assert {pod["metadata"]["labels"][names.LABEL_ROLE] for pod in await lab.pods()} == {"receiver", "sender"}
        nodes.reaps = True
        cleaner = await lab.appears("cleaner")
        assert await lab.pod("receiver") is None
        # The garbage collector's finalizer, as long as the operator's own is certain to be there.
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"metadata": {"finalizers": [names.FINALIZER]}})
        await nodes.start(cleaner, serve=False)
        await nodes.finish(cleaner, reason="Cleaned", attempt=0)
        await lab.gone()


async def _take_away(lab: Lab) -> None:
    """Leaves both movers without owner and job, as whoever has the role edit can by `--cascade=orphan`."""
    for pod in await lab.pods():
        await lab.client.merge_patch(PODS, lab.namespace, pod["metadata"]["name"], {"metadata": {"ownerReferences": None}})
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"metadata": {"finalizers": None}})
    await _delete(lab)
    await lab.gone()


async def _are_stopped(lab: Lab) -> None:
    async def leaving() -> bool:
        pods = await lab.pods()
        assert {pod["metadata"]["labels"][names.LABEL_ROLE] for pod in pods} == {"receiver", "sender"}
        return all(pod["metadata"].get("deletionTimestamp") for pod in pods)

    await eventually(leaving, "both movers to be told to stop", lab.pods)


async def test_movers_that_outlive_their_job_are_stopped(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.reaps = False
        await lab.create_job()
        await nodes.start(await lab.appears("receiver"))
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        await _take_away(lab)
        await _are_stopped(lab)


async def test_movers_that_outlived_their_job_while_no_operator_ran_are_stopped_by_the_next_one(lab: Lab) -> None:
    lab.options["resync-seconds"] = "1"
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.reaps = False
        async with lab.operator():
            await lab.create_job()
            await nodes.start(await lab.appears("receiver"))
            await nodes.start(await lab.appears("sender"))
            await lab.condition("MoversReady")
        await _take_away(lab)
        async with lab.operator():
            await _are_stopped(lab)


@pytest.mark.parametrize("ahead_seconds", [3600.0, -3600.0])
async def test_a_wrong_clock_of_the_operators_machine_neither_fails_attempts_nor_skips_cleaning_up(lab: Lab, ahead_seconds: float) -> None:
    wrong = ServerClock(wall=lambda: time.time() + ahead_seconds)
    async with lab.operator(wrong), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.place(receiver)
        await lab.condition("Scheduled")
        await nodes.remove(receiver)
        receiver = await lab.appears("receiver", attempt=2)
        await nodes.start(receiver)
        await _delete(lab)
        cleaner = await lab.appears("cleaner", attempt=2)
        await nodes.start(cleaner, serve=False)
        await nodes.finish(cleaner, reason="Cleaned", attempt=0)
        await lab.gone()
        assert ("Warning", "CleanupSkipped") not in await lab.events()


async def test_an_unreachable_destination_does_not_hold_a_deletion_for_ever(lab: Lab) -> None:
    lab.options["cleanup-timeout-seconds"] = "1.5"
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        await nodes.start(await lab.appears("receiver"))
        await _delete(lab)
        await lab.gone()

        async def told() -> bool:
            return ("Warning", "CleanupSkipped") in await lab.events()

        await eventually(told, "the event CleanupSkipped", lab.events)


async def test_a_namespace_that_is_being_deleted_is_not_held_up(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        await nodes.start(await lab.appears("receiver"))
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        # There is no namespace controller here: the test deletes what that one would.
        lab.kubectl("delete", "namespace", lab.namespace, "--wait=false")
        await _delete(lab)
        await _no_movers(lab)
        await lab.gone()
        assert await lab.pod("cleaner") is None


async def test_a_new_operator_goes_on_where_the_old_one_stopped(lab: Lab) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            await lab.create_job()
            receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        async with lab.operator():
            sender = await lab.appears("sender")
        await nodes.start(sender)
        await nodes.finish(sender)
        await nodes.finish(receiver)
        async with lab.operator():
            await lab.condition("Succeeded")
        uids = {pod["metadata"]["uid"] for pod in await lab.pods()}
        assert uids == {receiver["metadata"]["uid"], sender["metadata"]["uid"]}
        assert (await lab.job())["status"]["attempts"] == 1


async def test_a_job_deleted_while_no_operator_ran_is_cleaned_up_by_the_next_one(lab: Lab) -> None:
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        async with lab.operator():
            await lab.create_job()
            await nodes.start(await lab.appears("receiver"))
        await _delete(lab)
        async with lab.operator():
            cleaner = await lab.appears("cleaner")
            await nodes.start(cleaner, serve=False)
            await nodes.finish(cleaner, reason="Cleaned", attempt=0)
            await lab.gone()


async def test_a_mover_that_vanishes_is_replaced_by_a_new_attempt(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        await nodes.remove(receiver)
        await lab.appears("receiver", attempt=2)
        assert (await lab.job())["status"]["lastFailure"]["reason"] == "MoverDied"


async def test_a_mover_whose_labels_were_taken_away_is_no_failure(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        await nodes.start(sender)
        await lab.condition("MoversReady")
        stripped = {"metadata": {"labels": dict.fromkeys(sender["metadata"]["labels"])}}
        await lab.client.merge_patch(PODS, lab.namespace, sender["metadata"]["name"], stripped)
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"bandwidth": {"limit": "500M"}}})

        async def decided() -> bool:
            return ((await lab.job())["status"].get("bandwidth") or {}).get("allocated") == "500M"

        # The admission policy keeps the operator from changing such a pod.
        await eventually(decided, "the new cap in the status", lab.job)
        await nodes.finish(receiver)
        await lab.condition("Succeeded")
        status = (await lab.job())["status"]
        assert (status["attempts"], status.get("lastFailure")) == (1, None)


async def test_somebody_elses_pod_of_the_same_name_is_neither_adopted_nor_deleted(lab: Lab) -> None:
    job = await lab.create_job(suspend=True)
    name = names.child_name("job", job["metadata"]["uid"], "receiver", 1)
    squatter: KubeObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": lab.namespace},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    made = await lab.client.create(PODS, lab.namespace, squatter)
    async with lab.operator():
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"suspend": False}})
        receiver = await lab.appears("receiver")
        assert receiver["metadata"]["name"] != name
        assert names.is_child_name(receiver["metadata"]["name"], "job", "receiver", 1)
        assert (await lab.client.get(PODS, lab.namespace, name))["metadata"]["uid"] == made["metadata"]["uid"]
