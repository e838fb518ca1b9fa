"""What tests do to the cluster: manifests, kubectl, waiting for conditions, and running the operator in the test's own process."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fairlead.api import names
from fairlead.handlers.options import Options, read_options
from fairlead.handlers.process import run
from fairlead.kube.client import DTNS, JOBS, PODS, KubeClient, KubeObject
from fairlead.kube.clock import ServerClock
from fairlead.kube.errors import NotFoundError

T = TypeVar("T")

NAMESPACES = tuple(f"lab-{number}" for number in range(400))
NOT_ALLOWED = "outside"
NARROW = "narrow"
"""A namespace whose movers may run with few IDs, see `installation.NARROW_IDENTITIES`."""
NODES = ("dtn-a", "dtn-b")
LEASE = "fairlead-system/fairlead"
"""Of the operators that tests run one after the other, and of some at a time."""
PATIENCE_SECONDS = 120.0
"""How long anything is waited for: a machine that is slow and busy with other things gets there, so only a hang fails."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.03, 0.1
"""Between two looks at what is waited for: what comes soon is seen soon, and the rest costs the API server fewer requests."""
REQUEST_SECONDS = 300.0
"""How long a test's own request may take, ten times as long as the operator's."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl as the administrator."""

    program: Path
    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        # What kubectl remembers of another server at this address is not this one's.
        own = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.kubeconfig.parent / 'kubectl'}")
        command = [str(self.program), *own, *arguments]
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if check and result.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {result.stderr}")
        return result

    def apply(self, manifest: KubeObject, *, server_side: bool = False, check: bool = True) -> subprocess.CompletedProcess[str]:
        flags = ("--server-side",) if server_side else ()
        return self("apply", *flags, "-f", "-", stdin=json.dumps(manifest), check=check)


@dataclass
class Lab:
    """One namespace of the test's own, with claims `raw` and `scratch` on nodes `dtn-a` and `dtn-b`."""

    namespace: str
    client: KubeClient
    kubectl: Kubectl
    operator_kubeconfig: Path
    options: dict[str, str] = field(default_factory=dict)

    def manifest(self, name: str = "job", **spec: Any) -> KubeObject:
        return transfer_job(self.namespace, name, **spec)

    async def create_job(self, name: str = "job", **spec: Any) -> KubeObject:
        return await self.client.create(JOBS, self.namespace, self.manifest(name, **spec))

    async def job(self, name: str = "job") -> KubeObject:
        return await self.client.get(JOBS, self.namespace, name)

    async def conditions(self) -> list[KubeObject]:
        """The job's conditions; none before its first status, which may come after its first pod."""
        found: list[KubeObject] = (await self.job()).get("status", {}).get("conditions", [])
        return found

    async def job_or_none(self, name: str = "job") -> KubeObject | None:
        try:
            return await self.job(name)
        except NotFoundError:
            return None

    async def pods(self) -> list[KubeObject]:
        return [pod async for page in self.client.list_pages(PODS, self.namespace) for pod in page]

    async def pod(self, role: str, attempt: int = 1) -> KubeObject | None:
        for pod in await self.pods():
            labels = pod["metadata"].get("labels") or {}
            if labels.get(names.LABEL_ROLE) == role and labels.get(names.LABEL_ATTEMPT) == str(attempt):
                return pod
        return None

    async def appears(self, role: str, attempt: int = 1) -> KubeObject:
        return await eventually(lambda: self.pod(role, attempt), f"{role} pod of attempt {attempt}")

    async def condition(self, kind: str, status: str = "True", *, name: str = "job") -> KubeObject:
        async def look() -> KubeObject | None:
            job = await self.job(name)
            conditions = (job.get("status") or {}).get("conditions") or []
            return next((c for c in conditions if c["type"] == kind and c["status"] == status), None)

        return await eventually(look, f"condition {kind}={status}", lambda: self.job_or_none(name))

    async def gone(self, name: str = "job") -> None:
        async def look() -> bool:
            return await self.job_or_none(name) is None

        await eventually(look, f"job {name} to be gone", lambda: self.job_or_none(name))

    async def events(self, name: str = "job") -> list[tuple[str, str]]:
        answer = self.kubectl("-n", self.namespace, "get", "events", "-o", "json")
        items = json.loads(answer.stdout)["items"]
        return [(item["type"], item["reason"]) for item in items if item["involvedObject"]["name"] == name]

    def operator_flags(self) -> list[str]:
        flags = {
            "mover-image": "fairlead-mover:test",
            "advisor-image": "fairlead-advisor:test",
            "kubeconfig": str(self.operator_kubeconfig),
            "lease": LEASE,
            "host-network-namespaces": ",".join(NAMESPACES),
            "metrics-address": "127.0.0.1:19090",
            "health-address": "127.0.0.1:18080",
            "poll-interval-seconds": "0.2",
            "status-interval-seconds": "0.5",
            "recheck-interval-seconds": "0.5",
            "backoff-first-seconds": "0.3",
            "startup-timeout-seconds": "120",
            "cleanup-timeout-seconds": "120",
            "log-format": "plain",
        } | self.options
        return [f"--{name}={value}" for name, value in flags.items()]

    def operator_options(self) -> Options:
        return read_options(self.operator_flags(), environment={})

    @asynccontextmanager
    async def operator(self, clock: ServerClock | None = None) -> AsyncIterator[None]:
        """Runs the whole operator, with the rights that the chart gives it, until the block ends; `clock` is a wrong one, say."""
        stop, ready = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(run(self.operator_options(), stop, ready, clock))
        started = asyncio.create_task(ready.wait())
        await asyncio.wait({task, started}, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            started.cancel()
            stop.set()
            await task
            raise AssertionError("the operator did not start")
        try:
            yield
        finally:
            stop.set()
            await task


def transfer_job(namespace: str, name: str, **spec: Any) -> KubeObject:
    """A complete job with a destination of its own; `spec` replaces whole fields of its spec."""
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": f"run42/{name}"},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**ends, **spec},
    }


def read_documents(manifests: str) -> list[KubeObject]:
    """Manifests as objects, by libyaml: a whole chart takes PyYAML's own reader a second."""
    return [document for document in yaml.load_all(manifests, Loader=yaml.CSafeLoader) if document]


def fairness_policy(name: str = "site", **spec: Any) -> KubeObject:
    """A policy with this spec."""
    return {"apiVersion": names.API_VERSION, "kind": names.POLICY_KIND, "metadata": {"name": name}, "spec": spec}


def network_path(name: str = "a-b", **spec: Any) -> KubeObject:
    """A path from `dtn-a` to `dtn-b`; `spec` replaces whole fields of its spec."""
    ends = {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}}
    return {"apiVersion": names.API_VERSION, "kind": names.PATH_KIND, "metadata": {"name": name}, "spec": {**ends, **spec}}


def data_transfer_node(name: str = "dtn-a", **spec: Any) -> KubeObject:
    """A data transfer node with this spec."""
    return {"apiVersion": names.API_VERSION, "kind": names.DTN_KIND, "metadata": {"name": name}, "spec": spec}


async def describe(lab: Lab, name: str, *, down: tuple[str, ...] = (), **spec: Any) -> None:
    """A node with the interfaces data0 and data1, of which some have no carrier."""
    if spec or await _dtn(lab, name) is None:
        await lab.client.create(DTNS, None, data_transfer_node(name, **spec))
    host = NODES.index(name) + 1
    interfaces = [
        {"name": each, "rate": "10G", "addresses": [f"198.19.{number}.{host}/24"], "carrier": each not in down}
        for number, each in enumerate(("data0", "data1"))
    ]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await lab.client.merge_patch(DTNS, None, name, {"status": {"interfaces": interfaces, "lastReportTime": now}}, subresource="status")


async def _dtn(lab: Lab, name: str) -> KubeObject | None:
    dtns = [dtn async for page in lab.client.list_pages(DTNS) for dtn in page]
    return next((dtn for dtn in dtns if dtn["metadata"]["name"] == name), None)


async def eventually(
    look: Callable[[], Awaitable[T | None]],
    what: str,
    explain: Callable[[], Awaitable[Any]] | None = None,
    *,
    within_seconds: float = PATIENCE_SECONDS,
) -> T:
    """The first true answer of `look`. Fails with `what` and the outcome of `explain` when none comes in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_seconds
    pause_seconds = FIRST_PAUSE_SECONDS
    while loop.time() < deadline:
        answer = await look()
        if answer:
            return answer
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(1.2 * pause_seconds, LONGEST_PAUSE_SECONDS)
    shown = json.dumps(await explain(), indent=1, default=str) if explain is not None else ""
    raise AssertionError(f"waited {within_seconds:.0f} s for {what}\n{shown}")
