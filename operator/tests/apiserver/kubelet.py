"""The test's stand-in for scheduler, kubelets and movers: it moves pods through their phases and answers where movers would."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from fairlead.api import names
from fairlead.kube.client import EVENTS, PODS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, NotFoundError

ADDRESSES = {"dtn-a": "127.0.0.11", "dtn-b": "127.0.0.12"}
DATA_ADDRESSES = {"dtn-a": "198.19.0.1", "dtn-b": "198.19.0.2"}
BINDINGS = "binding"
RELEASE_SECONDS = 60.0
"""How long a pod is waited for that may not be placed yet."""


Answer = Callable[[web.Request, KubeObject], Awaitable[web.StreamResponse]]
"""Answers a request; the second argument is what would be answered otherwise."""


class FakeNodes:
    """Both data transfer nodes of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._runs = False
        self._servers: list[web.AppRunner] = []
        self._listening: dict[tuple[str, int], web.AppRunner] = {}
        self.progress: dict[str, Any] = {"bytes_total": 1000, "bytes_transferred": 0, "files_total": 4, "files_transferred": 0}
        self.stage = "Transferring"
        self.interface = "data0"
        """What movers say they use."""
        self.speed_bytes_per_second = 0.0
        """By how much `bytes_transferred` grows from the start of a mover on."""
        self.choice: dict[str, Any] = {}
        """What the advisor decides, beyond the safe default."""
        self.path: dict[str, Any] = {"rtt_seconds": 0.06, "rtt_minimum_seconds": 0.059, "loss_ratio": 0.0, "samples": 200}
        """What it says of the path."""
        self.decided = True
        self.reaps = True
        """Whether pods that are deleted go away; without it their movers take as long as they like."""
        self.requests: list[str] = []
        self.answers: dict[str, Answer] = {}
        """What answers in the place of a mover or an advisor, by role and page: `receiver/endpoint`, `sender/decision`."""
        self._advice: dict[str, Callable[[], KubeObject | None]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeNodes]:
        """Pods that are deleted go away while the block runs, as kubelets see to, and movers answer."""
        self._runs = True
        reaper = asyncio.create_task(self._reap())
        try:
            yield self
        finally:
            self._runs = False
            reaper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reaper
            for server in self._servers:
                await server.cleanup()

    async def start(self, pod: KubeObject, *, node: str | None = None, serve: bool = True, address: str | None = None) -> None:
        """Binds the pod to the node it asks for, starts its mover's HTTP answers and reports it ready, by default at the node's address."""
        node = node or wanted_node(pod)
        name = pod["metadata"]["name"]
        await self._until_released(name)
        await self._bind(name, node)
        await self.run(pod, node=node, serve=serve, address=address)

    async def run(self, pod: KubeObject, *, node: str | None = None, serve: bool = True, address: str | None = None) -> None:
        """The same for a pod that is bound already."""
        node = node or wanted_node(pod)
        address = address or ADDRESSES[node]
        name = pod["metadata"]["name"]
        if serve:
            await self._serve(pod, address)
        status = {
            "phase": "Running",
            "podIP": address,
            "hostIP": ADDRESSES.get(node, address),
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [_container({"running": {}}, ready=True)],
        }
        await self._patch_status(name, status)

    async def fail_network(self, pod: KubeObject, message: str) -> None:
        """Binds the pod to the node it asks for, and tells that its network cannot be made there."""
        await self.warn(pod, "FailedCreatePodSandBox", message)

    async def _tell(self, pod: KubeObject, node: str, reason: str, message: str) -> None:
        name = pod["metadata"]["name"]
        told = {"kind": "Pod", "namespace": self._namespace, "name": name, "uid": pod["metadata"]["uid"], "apiVersion": "v1"}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name}-", "namespace": self._namespace},
            "involvedObject": told,
            "reason": reason,
            "message": message,
            "type": "Warning",
            "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet",
            "reportingInstance": node,
            "lastTimestamp": _now(),
        }
        await self._client.create(EVENTS, self._namespace, event)

    async def _bind(self, name: str, node: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self._namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._client.create(ResourceKind("v1", f"pods/{name}/{BINDINGS}"), self._namespace, binding)

    async def wait_reason(self, pod: KubeObject, reason: str, message: str) -> None:
        """Reports that the mover's container cannot be started."""
        status = {"phase": "Pending", "containerStatuses": [_container({"waiting": {"reason": reason, "message": message}}, ready=False)]}
        await self._patch_status(pod["metadata"]["name"], status)

    async def finish(
        self, pod: KubeObject, *, verdict: str = "Succeeded", reason: str = "Verified", retry: bool = False, **more: Any
    ) -> None:
        """Ends the mover with a verdict in its termination message."""
        labels = pod["metadata"]["labels"]
        message = {
            "version": 1,
            "role": labels[names.LABEL_ROLE],
            "job": labels[names.LABEL_JOB_UID],
            "attempt": int(labels[names.LABEL_ATTEMPT]),
            "verdict": verdict,
            "reason": reason,
            "message": f"{reason} said the fake mover",
            "retry": retry,
            "bytes_total": 1000,
            "bytes_transferred": 1000,
            "files_total": 4,
            "files_transferred": 4,
            "seconds": 1.5,
            "bulk_seconds": 1.0,
            **more,
        }
        await self.end(pod, exit_code=0 if verdict == "Succeeded" else 1 if retry else 3, message=json.dumps(message))

    async def end(self, pod: KubeObject, *, exit_code: int, message: str = "") -> None:
        """Ends the mover's container, and with it the advisor's, whose last word is its decision."""
        ended = _terminated(exit_code, "Completed" if exit_code == 0 else "Error", message)
        phase = "Succeeded" if exit_code == 0 else "Failed"
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
        name = pod["metadata"]["name"]
        status: KubeObject = {"phase": phase, "conditions": conditions, "containerStatuses": [_container(ended, ready=False)]}
        advice = self._advice.get(name, lambda: None)()
        if advice is not None:
            said = _terminated(0, "Completed", json.dumps(advice))
            status["initContainerStatuses"] = [_container(said, ready=False, name="advisor")]
        await self._patch_status(name, status)

    async def kill(self, pod: KubeObject, reason: str, *, of_pod: bool = False) -> None:
        """Ends the mover without a word of its own, as the kernel does (OOMKilled), or the kubelet with the whole pod (Evicted)."""
        ended = _terminated(137, "Error" if of_pod else reason)
        told = {"reason": reason, "message": f"{reason} by the test"} if of_pod else {}
        containers = {} if of_pod else {"containerStatuses": [_container(ended, ready=False)]}
        await self._patch_status(pod["metadata"]["name"], {"phase": "Failed", **told, **containers})

    async def leave_unscheduled(self, pod: KubeObject, message: str) -> None:
        """Tells, as the scheduler does, that no node can take the pod."""
        name = pod["metadata"]["name"]
        await self._until_released(name)
        placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        await self._patch_status(name, {"phase": "Pending", "conditions": [placed]})

    async def place(self, pod: KubeObject) -> None:
        """Binds the pod to the node it asks for, as the scheduler does; nothing is started there."""
        await self._until_released(pod["metadata"]["name"])
        await self.bind(pod)

    async def bind(self, pod: KubeObject) -> None:
        """The same for a pod that is known to be released."""
        await self._bind(pod["metadata"]["name"], wanted_node(pod))

    async def warn(self, pod: KubeObject, reason: str, message: str) -> None:
        """Binds the pod to the node it asks for, where the kubelet tells this of it and starts nothing."""
        await self.place(pod)
        await self._tell(pod, wanted_node(pod), reason, message)

    async def remove(self, pod: KubeObject) -> None:
        """Takes the pod away at once, as when its node is lost."""
        metadata = pod["metadata"]
        await self._client.delete(PODS, self._namespace, metadata["name"], uid=metadata["uid"], grace_seconds=0)

    async def _patch_status(self, name: str, status: KubeObject) -> None:
        await self._client.merge_patch(PODS, self._namespace, name, {"status": status}, subresource="status")

    async def _until_released(self, name: str) -> None:
        async with asyncio.timeout(RELEASE_SECONDS):
            while True:
                if not (await self._client.get(PODS, self._namespace, name))["spec"].get("schedulingGates"):
                    return
                await asyncio.sleep(0.02)

    async def _serve(self, pod: KubeObject, address: str) -> None:
        labels = pod["metadata"]["labels"]
        role, job, attempt = labels[names.LABEL_ROLE], labels[names.LABEL_JOB_UID], int(labels[names.LABEL_ATTEMPT])
        ports = {
            port["name"]: port["containerPort"]
            for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
            for port in container.get("ports", [])
        }
        node = wanted_node(pod)

        async def answer(page: str, request: web.Request, ordinary: KubeObject | None) -> web.StreamResponse:
            self.requests.append(f"{role}/{page}")
            if (other := self.answers.get(f"{role}/{page}")) is not None:
                return await other(request, ordinary or {})
            return web.Response(status=503) if ordinary is None else web.json_response(ordinary)

        async def endpoint(request: web.Request) -> web.StreamResponse:
            place = {"interface": self.interface, "address": DATA_ADDRESSES[node], "port": ports.get("data", 0)}
            return await answer("endpoint", request, {"role": role, **place, "numa_node": 0, "cpus": "0-3"})

        begun, begun_at = asyncio.get_running_loop().time(), datetime.now(UTC).isoformat()

        async def progress(request: web.Request) -> web.StreamResponse:
            stage = self.stage if self.decided or role != "sender" else "AwaitingTransport"
            said = {"role": role, "job": job, "attempt": attempt, "stage": stage, "bytes_skipped": 0, "files_skipped": 0}
            said |= {"rate_bytes_per_second": 1e6, "seconds_since_progress": 0.1, "streams": 4, "congestion_control": "cubic"}
            moved = int(self.speed_bytes_per_second * (asyncio.get_running_loop().time() - begun))
            counted = {"bytes_transferred": self.progress["bytes_transferred"] + moved}
            return await answer("progress", request, said | self.progress | counted)

        def advice() -> KubeObject | None:
            if not self.decided:
                return None
            choice = {"protocol": "TCP", "congestion_control": "cubic", "streams": 4, "background": None, "confidence": None}
            choice |= {"abstained": True, "model": None, "reason": "NoModel", "message": "no model", "decided_at": begun_at}
            choice |= self.choice
            return {"version": 1, "path": self.path, "decision": choice, "applied": True}

        async def decision(request: web.Request) -> web.StreamResponse:
            return await answer("decision", request, advice())

        if "advisor-http" in ports:
            self._advice[pod["metadata"]["name"]] = advice
        if not self._runs:
            raise RuntimeError("movers answer within running() alone: what listens after it has its port for as long as the process lives")
        app = web.Application()
        app.router.add_get("/v1/endpoint", endpoint)
        app.router.add_get("/v1/progress", progress)
        app.router.add_get("/v1/decision", decision)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        for place in [(address, ports[name]) for name in ("http", "advisor-http") if name in ports]:
            if (ended := self._listening.pop(place, None)) is not None:
                # The operator gives a port again only after the pod that had it has ended.
                await ended.cleanup()
            await web.TCPSite(runner, *place).start()
            self._listening[place] = runner
        self._servers.append(runner)

    async def _reap(self) -> None:
        while True:
            async for page in self._client.list_pages(PODS, self._namespace):
                for pod in page:
                    if self.reaps and pod["metadata"].get("deletionTimestamp"):
                        with contextlib.suppress(NotFoundError, ConflictError):
                            await self.remove(pod)
            await asyncio.sleep(0.05)


def wanted_node(pod: KubeObject) -> str:
    """The node that the pod's affinity names."""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _terminated(exit_code: int, reason: str, message: str = "") -> KubeObject:
    """The state of a container that has ended now."""
    # Nothing reads when it began, but no kubelet leaves it out.
    now = _now()
    return {"terminated": {"exitCode": exit_code, "reason": reason, "message": message, "startedAt": now, "finishedAt": now}}


def _container(state: KubeObject, *, ready: bool, name: str = "mover") -> KubeObject:
    return {"name": name, "image": "fairlead-mover:test", "imageID": "", "restartCount": 0, "ready": ready, "state": state}
