"""`kubectl fairlead` as the program that a user runs, on a real API server, with the rights that a tenant has."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from control_plane import ControlPlane
from kubelet import FakeNodes
from lab import Lab, data_transfer_node, eventually, fairness_policy
from plugin_program import Plugin

from fairlead.kube.client import DTNS, JOBS, POLICIES

LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "1G"}
ENDS = ("raw:run42", "scratch:run42", "--source-node=dtn-a", "--destination-node=dtn-b")


@pytest.fixture
def plugin(lab: Lab, control_plane: ControlPlane) -> Plugin:
    """With `edit` in the namespace, and `view` of what belongs to no namespace."""
    user = f"tenant-{lab.namespace}"
    lab.kubectl("-n", lab.namespace, "create", "rolebinding", user, "--clusterrole=fairlead-edit", f"--user={user}")
    lab.kubectl("-n", lab.namespace, "create", "rolebinding", f"{user}-view", "--clusterrole=view", f"--user={user}")
    kinds = "fairnesspolicies.fairlead.io,networkpaths.fairlead.io,datatransfernodes.fairlead.io"
    lab.kubectl("create", "clusterrole", user, "--verb=get,list", f"--resource={kinds}")
    lab.kubectl("create", "clusterrolebinding", user, f"--clusterrole={user}", f"--user={user}")
    return Plugin(control_plane.kubeconfig(user), lab.namespace)


@asynccontextmanager
async def serving(lab: Lab, *, failing: str | None = None) -> AsyncIterator[FakeNodes]:
    """An operator, and nodes whose movers succeed, or whose senders fail with a reason."""

    async def play(nodes: FakeNodes) -> None:
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        await nodes.start(sender)
        await lab.condition("PathProbed", name=receiver["metadata"]["annotations"]["fairlead.io/transferjob"])
        if failing is None:
            await nodes.finish(sender)
            await nodes.finish(receiver)
        else:
            await nodes.finish(sender, verdict="Failed", reason=failing)

    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        playing = asyncio.create_task(play(nodes))
        yield nodes
        await playing


async def test_a_job_that_is_submitted_and_waited_for_ends_with_the_code_of_its_outcome(lab: Lab, plugin: Plugin) -> None:
    async with serving(lab):
        done = await plugin("submit", *ENDS, "--name=good", "--wait")
    assert (done.code, done.err) == (0, ""), done
    assert done.out.startswith(f"{lab.namespace}/good created\n")
    assert f"{lab.namespace}/good has succeeded: everything arrived and was verified." in done.out
    assert "\x1b" not in done.out, "no colour off a terminal"


async def test_a_submitted_job_that_fails_is_told_with_its_cause(lab: Lab, plugin: Plugin) -> None:
    async with serving(lab, failing="SourceMissing"):
        failed = await plugin("submit", *ENDS, "--name=bad", "--wait", "-o", "json")
        told = await plugin("why", "tj/bad")
        document = json.loads((await plugin("why", "bad", "-o", "json")).out)
        waited = await plugin("watch", "bad")
    assert failed.code == 3, failed
    records = [json.loads(line) for line in failed.out.splitlines()]
    assert (records[-1]["phase"], records[-1]["reason"]) == ("Failed", "SourceMissing")
    assert told.code == 0
    assert f"{lab.namespace}/bad has failed: its source path does not exist on the volume." in told.out
    assert "Create a job with a corrected source.path." in told.out
    assert (document["reasons"], document["state"], document["end"]) == (["SourceMissing"], "Failed", "source")
    assert (waited.code, "SourceMissing" in waited.out) == (3, True)


async def test_what_the_api_server_refuses_is_told_in_its_words(lab: Lab, plugin: Plugin, control_plane: ControlPlane) -> None:
    absolute = await plugin("submit", "raw:../x", "scratch:run42")
    assert absolute.code == 1
    assert "path must not have the component '..' or '.': name the directory itself" in absolute.err
    assert len(absolute.err.splitlines()) == 1
    streams = await plugin("submit", *ENDS, "--streams=many")
    assert (streams.code, streams.err) == (2, "kubectl fairlead: --streams is 'many': write a number such as 8, or bounds such as 2-16\n")
    rate = await plugin("submit", *ENDS, "--limit=1Q")
    assert rate.code == 1
    assert "spec.bandwidth.limit" in rate.err
    unlimited = await plugin("submit", *ENDS, "--protocol=UDT", "--congestion-control=fixed")
    assert unlimited.code == 1
    assert "set bandwidth.limit, or transport.congestionControl to udt" in unlimited.err
    assert (await plugin("submit", "raw:a")).code == 2
    stranger = Plugin(control_plane.kubeconfig(f"stranger-{lab.namespace}"), lab.namespace)
    for command, arguments in (("submit", ENDS), ("why", ("job",)), ("watch", ("--once",)), ("top", ()), ("cancel", ("job",))):
        refused = await stranger(command, *arguments)
        assert (refused.code, refused.out) == (1, ""), (command, refused)
        assert refused.err.startswith("kubectl fairlead: you may not "), refused
    unknown = await plugin("why", "absent")
    assert (unknown.code, "there is no TransferJob absent" in unknown.err) == (1, True)


async def test_a_dry_run_prints_a_job_that_the_api_server_takes(lab: Lab, plugin: Plugin, tmp_path: Path) -> None:
    flags = ("--limit=2G", "--weight=50", "--streams=2-16", "--include=*.nc", "--overwrite=Never", "--suspend", "--label=a=b")
    printed = await plugin("submit", *ENDS, *flags, "--dry-run")
    assert printed.code == 0
    assert [page async for page in lab.client.list_pages(JOBS, lab.namespace)] == [[]]
    file = tmp_path / "job.yaml"
    file.write_text(printed.out)
    created = await plugin("submit", "--file", str(file), "-o", "json")
    assert created.code == 0, created
    job = json.loads(created.out)
    assert re.fullmatch(r"run42-[a-z0-9]{5}", job["metadata"]["name"])
    spec: dict[str, Any] = job["spec"]
    assert (spec["bandwidth"]["limit"], spec["transport"]["streams"], spec["suspend"]) == ("2G", {"min": 2, "max": 16}, True)
    assert job["metadata"]["labels"] == {"a": "b"}


async def test_jobs_are_suspended_resumed_and_cancelled(lab: Lab, plugin: Plugin) -> None:
    for name in ("one", "two"):
        await lab.create_job(name)
    suspended = await plugin("suspend", "one", "tj/two")
    assert (suspended.code, suspended.err) == (0, "")
    assert [(await lab.job(name))["spec"]["suspend"] for name in ("one", "two")] == [True, True]
    again = await plugin("suspend", "one")
    assert again.out == f"{lab.namespace}/one is suspended already\n"
    assert (await plugin("resume", "--all")).code == 0
    assert [(await lab.job(name))["spec"]["suspend"] for name in ("one", "two")] == [False, False]
    assert (await plugin("resume")).code == 2
    cancelled = await plugin("cancel", "one", "--wait")
    assert cancelled.code == 0, cancelled
    assert await lab.job_or_none("one") is None
    assert (await plugin("cancel", "one")).code == 1


async def test_an_ended_job_is_no_more_cancelled_or_suspended_and_kueues_are_kueues(lab: Lab, plugin: Plugin) -> None:
    await lab.create_job("ended")
    ended = {"type": "Succeeded", "status": "True", "reason": "Verified", "message": "all", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"phase": "Succeeded", "conditions": [ended]}}
    await lab.client.merge_patch(JOBS, lab.namespace, "ended", status, subresource="status")
    for command in ("cancel", "suspend"):
        refused = await plugin(command, "ended")
        assert (refused.code, "has ended (Succeeded)" in refused.err) == (1, True)
    queued = lab.manifest("queued", suspend=True)
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "bulk"}
    await lab.client.create(JOBS, lab.namespace, queued)
    kept = await plugin("resume", "queued")
    assert (kept.code, "Kueue's queue bulk" in kept.err) == (1, True)
    assert (await lab.job("queued"))["spec"]["suspend"] is True


async def test_all_jobs_are_watched_and_a_watch_ends_on_a_signal(lab: Lab, plugin: Plugin) -> None:
    assert (await plugin("watch", "--once")).out == f"there are no TransferJobs in namespace {lab.namespace}\n"
    await lab.create_job("first", managedBy="example.com/other")
    printed = await plugin("watch", "--once")
    assert (printed.code, "first" in printed.out, "names another controller" in printed.out) == (0, True, True)
    document = json.loads((await plugin("watch", "--once", "-o", "json")).out)
    assert [(job["name"], job["state"]) for job in document["jobs"]] == [("first", "NotServed")]
    assert (await plugin("watch", "first", "-A")).code == 2
    assert (await plugin("watch", "absent")).code == 1
    timed_out = await plugin("watch", "first", "--timeout=0.5")
    assert (timed_out.code, "the time of --timeout is over" in timed_out.err) == (4, True)

    process = await plugin.start("watch", "-n", lab.namespace, "-o", "json")
    assert process.stdout is not None
    assert json.loads(await asyncio.wait_for(process.stdout.readline(), 120))["name"] == "first"
    await lab.create_job("second", managedBy="example.com/other")
    assert json.loads(await asyncio.wait_for(process.stdout.readline(), 120))["name"] == "second"
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 120) == 130


async def test_links_tenants_and_nodes_are_shown(lab: Lab, plugin: Plugin) -> None:
    tenants = [{"name": "bio", "weight": 300, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": lab.namespace}}}]
    await lab.client.create(DTNS, None, data_transfer_node("dtn-a", site="geneva", slots=3))
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[LINK], tenants=tenants))
    try:
        async with lab.operator():

            async def in_force() -> dict[str, Any] | None:
                document = json.loads((await plugin("top", "-o", "json")).out)
                return document if document["tenants"] else None

            document = await eventually(in_force, "the policy in force")
            table = await plugin("top")
        assert [(link["name"], link["capacity"]) for link in document["links"]] == [("out", "1G")]
        assert ("bio", 300) in [(tenant["name"], tenant["weight"]) for tenant in document["tenants"]]
        assert (table.code, table.out.startswith("FairnessPolicy site: ")) == (0, True)
        assert re.search(r"^out +1G +900M", table.out, re.MULTILINE), table.out
    finally:
        await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])
    assert (await plugin("top")).out.startswith("no FairnessPolicy is in force")
    nodes = await plugin("nodes")
    assert re.search(r"^dtn-a +geneva", nodes.out, re.MULTILINE), nodes.out
    assert [node["spec"]["slots"] for node in json.loads((await plugin("nodes", "dtn-a", "-o", "json")).out)["nodes"]] == [3]
    assert (await plugin("nodes", "dtn-x")).code == 1


async def test_predict_tells_what_would_be_decided_and_creates_nothing(lab: Lab, plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(lab.manifest("tomorrow", bandwidth={"limit": "40M"})))
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[LINK | {"capacity": "100M"}]))
    try:
        ran = await plugin("predict", str(file), "--size", "1G", "-o", "json")
        assert ran.code == 0, ran.err
        found = json.loads(ran.out)
        assert (found["starts"], found["links"], found["limit"], found["rate"], found["expectedSeconds"]) == (
            True,
            ["out"],
            "40M",
            "40M",
            200,
        )
        assert "would start now; nothing was created" in (await plugin("predict", str(file))).out

        file.write_text(json.dumps(lab.manifest("tomorrow", bandwidth={"guarantee": "2G"})))
        ran = await plugin("predict", str(file))
        assert ran.code == 3
        assert "would not start now: GuaranteeTooLarge: " in ran.out

        file.write_text(json.dumps(lab.manifest("tomorrow", bandwidth={"guarantee": "2G", "limit": "1G"})))
        ran = await plugin("predict", str(file), "-o", "json")
        assert (ran.code, ran.err) == (3, "")
        found = json.loads(ran.out)
        assert (found["starts"], found["reason"], "guarantee" in found["message"]) == (False, "Refused", True)
        assert await lab.job_or_none("tomorrow") is None
    finally:
        await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])
