"""`why` names the true cause of each failure that is brought about here, as a tenant may read it.

With FAIRLEAD_INDUCED_FAILURES, the name of a folder, each test writes there what was named and after how many seconds: the bench
`observe` counts them.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from control_plane import ControlPlane
from induced import OF_PODS, OF_RECEIVERS, OF_SENDERS, OF_SPECS, RETRIED, InducedFailure, Stage
from kubelet import FakeNodes
from lab import PATIENCE_SECONDS, Lab, describe, fairness_policy

from fairlead.kube.client import JOBS, POLICIES, KubeClient, ResourceKind, load_configuration
from fairlead.plugin.why.command import document_of
from fairlead.plugin.why.evidence import read_evidence

LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "100M"}
AT_A_TIME = 4
"""Operator, nodes and user share one process here: more would wait for each other."""
LIMITS = ResourceKind("v1", "limitranges")


class Asker:
    """A user who asks `why`, and writes down what was answered."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self.records: list[dict[str, Any]] = []

    async def named(self, name: str, job: str, reasons: Sequence[str], words: str) -> None:
        """Asks until the answer is the true one: these reasons, and these words of the case at hand."""
        begun = time.monotonic()
        answer: dict[str, Any] = {}
        while time.monotonic() - begun < PATIENCE_SECONDS:
            evidence = await read_evidence(self._client, "the test's", self._namespace, job)
            answer = document_of(evidence, datetime.now(UTC))
            if answer["reasons"] == list(reasons) and words in f"{answer['because']} {answer.get('message', '')}":
                self.records.append({"name": name, "reasons": list(reasons), "seconds": round(time.monotonic() - begun, 2)})
                return
            await asyncio.sleep(0.3)
        self.records.append({"name": name, "reasons": list(reasons), "seconds": None})
        raise AssertionError(f"{name}: expected {reasons} with {words!r}, and why says {json.dumps(answer, indent=1)}")

    async def all_named(self, stage: Stage, failures: Sequence[InducedFailure]) -> None:
        """Brings them about, some at a time, each for a job of its own, and asks about each from the moment it is there."""
        places = asyncio.Semaphore(AT_A_TIME)

        async def one(failure: InducedFailure) -> None:
            async with places:
                await failure.induce(stage, failure.name)
                await self.named(failure.name, failure.name, failure.reasons, failure.words)

        outcomes = await asyncio.gather(*map(one, failures), return_exceptions=True)
        wrong = [f"{failure.name}: {outcome}" for failure, outcome in zip(failures, outcomes, strict=True) if outcome is not None]
        assert not wrong, "\n".join(wrong)


@pytest.fixture
async def asker(lab: Lab, control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Asker]:
    """A tenant who may read pods and events of the namespace, and Fairlead's resources as the chart's role for that has it."""
    user = f"asker-{lab.namespace}"
    # No controller fills the aggregated role `view` here: this is what it has of pods and events.
    lab.kubectl("-n", lab.namespace, "create", "role", user, "--verb=get,list,watch", "--resource=pods,events")
    lab.kubectl("-n", lab.namespace, "create", "rolebinding", user, f"--role={user}", f"--user={user}")
    lab.kubectl("create", "clusterrolebinding", user, "--clusterrole=fairlead-view", f"--user={user}")
    client = KubeClient(await load_configuration(control_plane.kubeconfig(user)))
    asker = Asker(client, lab.namespace)
    yield asker
    await client.close()
    _record(request.node.name, asker.records)


def _record(test: str, records: list[dict[str, Any]]) -> None:
    folder = os.environ.get("FAIRLEAD_INDUCED_FAILURES")
    if folder:
        Path(folder, f"{test}.json").write_text(json.dumps(records), encoding="utf-8")


async def test_what_a_movers_verdict_says_is_named(lab: Lab, asker: Asker) -> None:
    lab.options["backoff-first-seconds"] = "300"
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await asker.all_named(Stage(lab, nodes), (*OF_SENDERS, *OF_RECEIVERS, *RETRIED))


async def test_what_keeps_pods_and_jobs_from_running_is_named(lab: Lab, asker: Asker) -> None:
    lab.options["backoff-first-seconds"] = "300"
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await asker.all_named(Stage(lab, nodes), (*OF_PODS, *OF_SPECS))


async def test_what_the_links_have_no_room_for_is_named(lab: Lab, asker: Asker) -> None:
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[LINK]))
    try:
        async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
            stage = Stage(lab, nodes)
            await stage.up("first", bandwidth={"guarantee": "80M"})
            await stage.create("second", bandwidth={"guarantee": "80M"})
            await asker.named("link-full", "second", ("WaitingForLink",), "link out")
            await stage.create("third", bandwidth={"guarantee": "10G"})
            await asker.named("guarantee-too-large", "third", ("GuaranteeTooLarge",), "out")
            await lab.client.merge_patch(JOBS, lab.namespace, "first", {"spec": {"bandwidth": {"guarantee": "10G"}}})
            await asker.named("guarantee-not-raised", "first", ("GuaranteeNotRaised",), "out")
    finally:
        await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])


async def test_what_the_data_transfer_nodes_cannot_do_is_named(lab: Lab, asker: Asker) -> None:
    await describe(lab, "dtn-a", slots=1)
    await describe(lab, "dtn-b", slots=8, down=("data1",))
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        source, destination = (lab.manifest()["spec"][end] for end in ("source", "destination"))
        elsewhere = {**destination, "volume": {"persistentVolumeClaim": {"claimName": "raw"}}}
        await lab.create_job("no-carrier", destination={**destination, "interface": "data1"})
        await asker.named("no-carrier", "no-carrier", ("NoInterfaceFits",), "data1")
        del source["node"]
        await lab.create_job("no-site", source={**source, "site": "atlantis"})
        await asker.named("no-site", "no-site", ("NoNodeMatches",), "atlantis")
        await Stage(lab, nodes).up("running")
        await lab.create_job("next", destination={**elsewhere, "node": "dtn-a", "path": "elsewhere"})
        await asker.named("no-slot", "next", ("NoSlotFree",), "dtn-a")


async def test_what_an_administrator_does_not_allow_is_named(lab: Lab, asker: Asker) -> None:
    identities = {"default": {"users": ["1000-1999"], "groups": ["0-99999"], "fsGroups": ["0-99999"]}}
    lab.options |= {"host-network-namespaces": "elsewhere", "identities": json.dumps(identities)}
    limits = {"limits": [{"type": "Container", "max": {"memory": "8Mi"}}]}
    small = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": lab.namespace}, "spec": limits}
    await lab.client.create(LIMITS, lab.namespace, small)
    async with lab.operator():
        await lab.create_job("host", securityContext={"runAsUser": 1000})
        await asker.named("no-host-network", "host", ("HostNetworkNotAllowed",), "may not use the nodes' network")
        await lab.create_job("user", network="Pod", securityContext={"runAsUser": 5000})
        await asker.named("no-such-user", "user", ("IdentityNotAllowed",), "runAsUser")
        await lab.create_job("too-large", network="Pod", securityContext={"runAsUser": 1000})
        await asker.named("pod-refused", "too-large", ("CreationRefused",), "maximum memory usage per Container is 8Mi")


async def test_an_endpoint_that_cannot_be_is_named(lab: Lab, asker: Asker) -> None:
    from aiohttp import web

    async def elsewhere(request: web.Request, ordinary: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({**ordinary, "address": "127.0.0.1"})

    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.answers["receiver/endpoint"] = elsewhere
        await lab.create_job("lies")
        stage = Stage(lab, nodes)
        await nodes.start(await stage.mover("lies", "receiver"))
        await asker.named("lying-receiver", "lies", ("EndpointRefused",), "127.0.0.1")


async def test_an_operator_that_does_not_answer_is_named_and_an_administrator_is_told_why(lab: Lab, asker: Asker) -> None:
    administrator = Asker(lab.client, lab.namespace)
    async with lab.operator():
        await lab.create_job("known", suspend=True)
        await lab.condition("Suspended", name="known")
    await lab.create_job("new")
    await asker.named("operator-down", "new", ("NotTakenUp",), "has not taken it up")
    await administrator.named("operator-not-running", "new", ("NotTakenUp", "OperatorNotRunning"), "has 0 of 1 pods available")
    await lab.client.merge_patch(JOBS, lab.namespace, "known", {"spec": {"suspend": False}})
    await asker.named("change-unanswered", "known", ("SpecNotAnswered",), "has not answered the last change")
    body = lab.manifest("held")
    body["metadata"]["finalizers"] = ["fairlead.io/partial-files"]
    await lab.client.create(JOBS, lab.namespace, body)
    await lab.client.delete(JOBS, lab.namespace, "held")
    await asker.named("deletion-unanswered", "held", ("DeletionNotAnswered",), "has not answered its deletion")
    asker.records += administrator.records
