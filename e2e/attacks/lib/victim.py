"""The operator of the attacked checkout as a process beside a real API server, and what an attack does there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import yaml
from lab import PATIENCE_SECONDS, Lab

from e2e.attacks.lib.target import Target
from fairlead.kube.client import KubeObject
from fairlead.kube.clock import ServerClock

T = TypeVar("T")

HEALTH = "127.0.0.1:18080"
METRICS = "127.0.0.1:19090"
TENANT = "mallory"

FAST = {
    "POLL_INTERVAL_SECONDS": "0.2",
    "STATUS_INTERVAL_SECONDS": "0.5",
    "RECHECK_INTERVAL_SECONDS": "0.5",
    "BACKOFF_FIRST_SECONDS": "0.3",
    "LOG_FORMAT": "plain",
}
"""What the chart sets more slowly than an attack wants to wait."""


def operator_environment(rendered: str) -> dict[str, str]:
    """The environment of the operator's container in what the chart renders: its settings, whatever this version of it has."""
    deployments = [each for each in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if each and each["kind"] == "Deployment"]
    containers = [container for each in deployments for container in each["spec"]["template"]["spec"]["containers"]]
    (operator,) = [container for container in containers if container["name"] == "operator"]
    return {one["name"]: str(one["value"]) for one in operator.get("env", ()) if "value" in one}


async def within(seconds: float, look: Callable[[], Awaitable[T | None]]) -> T | None:
    """What `look` finds, None if it finds nothing in time: what an attack waits for need not come."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = await look()
        if found or loop.time() > deadline:
            return found or None
        await asyncio.sleep(0.1)


def plain_pod(name: str = "plain", **spec: Any) -> dict[str, Any]:
    """A pod as anybody may make it; `spec` is added to its spec."""
    containers = [{"name": "main", "image": "anything"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


@dataclass
class Site(Lab):
    """A namespace with claims, as the API server tests have it, but with the operator of the attacked checkout as a process."""

    target: Target = field(default_factory=Target.given)
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the chart gives to the operator."""
    settings: dict[str, str] = field(default_factory=dict)
    """What an attack sets beyond that before `operator()`: variables of its environment without the prefix FAIRLEAD_."""
    folder: Path = Path()
    _process: OperatorProcess | None = None

    def as_user(
        self, user: str, *arguments: str, stdin: KubeObject | None = None, namespace: str = "", groups: Iterable[str] = ()
    ) -> Answer:
        """kubectl as another user, in this namespace unless another is given."""
        identity = [f"--as={user}", "--as-group=system:authenticated", *(f"--as-group={group}" for group in groups)]
        text = None if stdin is None else json.dumps(stdin)
        return Answer(self.kubectl("-n", namespace or self.namespace, *identity, *arguments, stdin=text, check=False))

    def as_tenant(self, *arguments: str, stdin: KubeObject | None = None) -> Answer:
        """kubectl as a tenant who may do everything in this namespace: what is refused is refused by a policy or a rule."""
        return self.as_user(TENANT, *arguments, stdin=stdin)

    @property
    def process(self) -> OperatorProcess:
        """The operator that runs or ran last."""
        assert self._process is not None, "enter `operator()` first"
        return self._process

    @asynccontextmanager
    async def operator(self, clock: ServerClock | None = None) -> AsyncIterator[None]:
        """Runs the attacked operator until the block ends. Raises ValueError for a clock: a process of its own has the machine's."""
        if clock is not None:
            raise ValueError("the attacked operator has this machine's clock, and no other can be given to it")
        own = {**FAST, "KUBECONFIG": str(self.operator_kubeconfig), "HEALTH_ADDRESS": HEALTH, "METRICS_ADDRESS": METRICS, **self.settings}
        environment = {**os.environ, **self.environment, **{f"FAIRLEAD_{name}": value for name, value in own.items()}}
        log = self.folder / "operator.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(str(self.target.python), "-m", "fairlead"), env=environment, cwd=self.target.root, stdout=output, stderr=output
            )
        self._process = OperatorProcess(process, log)
        try:
            await self._process.serves()
            yield
        finally:
            await self._process.stop()


@dataclass(frozen=True)
class OperatorProcess:
    """The operator as a program."""

    process: asyncio.subprocess.Process
    log: Path

    @property
    def runs(self) -> bool:
        """Whether it has not ended by itself."""
        return self.process.returncode is None

    async def serves(self) -> None:
        """Waits until it answers where its probes ask."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        async with aiohttp.ClientSession() as session:
            while loop.time() < deadline and self.runs:
                try:
                    async with session.get(f"http://{HEALTH}/healthz") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
        raise RuntimeError(f"the operator does not serve; the end of its log:\n{self.log_text()[-2000:]}")

    async def metrics(self) -> str:
        """Its page of metrics."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{METRICS}/metrics") as answer:
            return await answer.text()

    def log_text(self) -> str:
        """All that it wrote."""
        return self.log.read_text(errors="replace")

    async def stop(self) -> None:
        """Ends it."""
        if self.runs:
            self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), 15)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@dataclass(frozen=True)
class Answer:
    """What the API server said to a command."""

    command: subprocess.CompletedProcess[str]

    @property
    def accepted(self) -> bool:
        """Whether it did what was asked."""
        return self.command.returncode == 0

    @property
    def refused_by_policy(self) -> bool:
        """Whether an admission policy refused it, rather than missing rights or a malformed request."""
        return not self.accepted and "ValidatingAdmissionPolicy" in self.command.stderr

    @property
    def forbidden(self) -> bool:
        """Whether the user has no right to it."""
        return not self.accepted and "forbidden" in self.command.stderr.lower()

    def object(self) -> dict[str, Any]:
        """The object that it printed (`-o json`)."""
        return dict(json.loads(self.command.stdout))

    def __str__(self) -> str:
        return (self.command.stdout if self.accepted else self.command.stderr).strip()
