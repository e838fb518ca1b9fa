"""Polls the agents of the nodes whose interfaces are shared links, beside the workers, for all traffic there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from fairlead.core.fairness.meter import KEPT_SECONDS, Meter
from fairlead.core.fairness.rules import InterfaceKey
from fairlead.handlers.worker import BackgroundLoop
from fairlead.kube.client import PODS, KubeClient
from fairlead.kube.errors import KubeError
from fairlead.kube.observe.agents import LARGEST_ANSWER_BYTES, PATH, AgentPlace, AgentPod, AgentReading, agent_pod, read_counters
from fairlead.kube.observe.fetch import FetchError, fetch
from fairlead.kube.observe.forms import ReportError
from fairlead.kube.observe.turns import NotNowError, PollTarget, PollTurns

MOST_POLLS_A_SECOND = 100.0
"""Of more nodes each is asked less often."""
LIST_SECONDS = 60.0
"""How often the agents' pods are listed at least while any is asked."""
LIST_AGAIN_SECONDS = 10.0
"""How soon after a list the next one, when a node has no agent that answers."""
TIMEOUT_SECONDS = 2.0
OLDEST_READING_SECONDS = 2.0
"""How long before its answer an agent may have read its counters."""

logger = logging.getLogger(__name__)


class Fetch(Protocol):
    """Asks a server for one page."""

    def __call__(self, host: str, port: int, path: str, *, timeout_seconds: float, most_bytes: int) -> Awaitable[bytes | None]:
        """The body; None for the status 503. Raises FetchError."""


class _NodeMeters:
    """The meters of one node's interfaces. The agent's clock tells when it read them: its answers take different times on their way."""

    def __init__(self) -> None:
        self._pod_uid = ""
        self._offset_seconds = 0.0
        self.meters: dict[InterfaceKey, Meter] = {}

    def take(self, pod: AgentPod, reading: AgentReading, received_at: float) -> None:
        """Takes in one answer. The counters are the kernel's, and go on when the agent is replaced."""
        offset, known = received_at - reading.monotonic_seconds, self._offset_seconds
        if pod.uid != self._pod_uid or not 0.0 <= offset - known <= OLDEST_READING_SECONDS:
            # The fastest answer so far, or one of the two clocks was set.
            known = offset
        self._pod_uid, self._offset_seconds = pod.uid, known
        read_at = reading.monotonic_seconds + known
        # An agent may name other interfaces every time.
        self.meters = {key: meter for key, meter in self.meters.items() if received_at - meter.samples[-1].at <= KEPT_SECONDS}
        for name, counted in reading.interfaces.items():
            for direction, count in (("Transmit", counted.transmitted), ("Receive", counted.received)):
                key = pod.node, name, direction
                self.meters[key] = self.meters.get(key, Meter()).noted(read_at, count)


class AgentPoller:
    """Asks the agents of the nodes that `want` names, each once in `interval_seconds` or as often as their number allows.

    `wall` is Unix time; `turns` bounds the polls under way; `on_failure` gets the path of every poll that got no usable answer. Used from
    one event loop only.
    """

    def __init__(
        self,
        client: KubeClient,
        place: AgentPlace,
        interval_seconds: float,
        *,
        turns: PollTurns,
        wall: Callable[[], float],
        on_failure: Callable[[str], None] = lambda path: None,
        ask: Fetch = fetch,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._place = place
        self._interval_seconds = interval_seconds
        self._turns = turns
        self._wall = wall
        self._on_failure = on_failure
        self._ask = ask
        self._sleep = sleep
        self._wanted: frozenset[str] = frozenset()
        self._pods: dict[str, AgentPod] = {}
        self._nodes: dict[str, _NodeMeters] = {}
        self._listed_at = -LIST_SECONDS
        self._is_list_doubted = False
        self._obstacle: str | None = None
        self.service = BackgroundLoop("polls of node agents", self._run)

    def want(self, nodes: frozenset[str]) -> None:
        """From now on these nodes' agents are asked, and no others."""
        self._wanted = nodes
        self._nodes = {node: known for node, known in self._nodes.items() if node in nodes}

    def meters(self, now: float) -> Mapping[InterfaceKey, Meter]:
        """What interfaces have carried, by the agents that have answered lately."""
        return {
            key: meter for node in self._nodes.values() for key, meter in node.meters.items() if now - meter.samples[-1].at <= KEPT_SECONDS
        }

    async def poll(self) -> None:
        """Asks every wanted agent once, as far as it is its turn."""
        await self._list_if_due()
        await asyncio.gather(*(self._poll(pod) for node in sorted(self._wanted) if (pod := self._pods.get(node)) is not None))

    async def _run(self) -> None:
        while True:
            await self._sleep(max(self._interval_seconds, len(self._wanted) / MOST_POLLS_A_SECOND))
            if self._wanted:
                await self.poll()

    async def _list_if_due(self) -> None:
        """Lists the agents' pods now and then, and soon where an agent is missing or does not answer: its pod may be another one by now."""
        since = self._wall() - self._listed_at
        if since < LIST_AGAIN_SECONDS or (since < LIST_SECONDS and not self._is_list_doubted):
            return
        self._listed_at = self._wall()
        pods: dict[str, AgentPod] = {}
        try:
            async for page in self._client.list_pages(
                PODS, self._place.namespace, field_selector=f"spec.serviceAccountName={self._place.service_account}"
            ):
                for body in page:
                    pod = agent_pod(body, self._place)
                    # While an agent is replaced there may be two; the one that is ready answers.
                    if pod is not None and (pod.is_ready or pod.node not in pods):
                        pods[pod.node] = pod
        except KubeError as error:
            if self._obstacle != error.kind:
                logger.warning("the pods of node agents cannot be listed, links are judged by what movers report: %s", error)
            self._obstacle = error.kind
            return
        self._obstacle, self._is_list_doubted = None, False
        for gone in {pod.uid for pod in self._pods.values()} - {pod.uid for pod in pods.values()}:
            self._turns.forget(gone)
        self._pods = pods

    async def _poll(self, pod: AgentPod) -> None:
        target = PollTarget(pod.uid, self._place.port, pod.is_ready, node=pod.node, tenant="")
        try:
            async with self._turns.turn(target):
                await self._read(pod, target)
        except NotNowError as error:
            self._is_list_doubted = self._is_list_doubted or error.is_silent

    async def _read(self, pod: AgentPod, target: PollTarget) -> None:
        try:
            body = await self._ask(pod.address, target.port, PATH, timeout_seconds=TIMEOUT_SECONDS, most_bytes=LARGEST_ANSWER_BYTES)
            received_at = self._wall()
            reading = None if body is None else read_counters(body, pod)
        except (FetchError, ReportError) as error:
            self._on_failure(PATH)
            self._is_list_doubted = True
            if isinstance(error, FetchError) and not error.is_costly:
                self._turns.answered(target)
            else:
                self._turns.was_silent(target)
            if isinstance(error, ReportError):
                logger.warning("what answers as the agent of node %s is not used: %s", pod.node, error)
            return
        self._turns.answered(target)
        if reading is not None and pod.node in self._wanted:
            self._nodes.setdefault(pod.node, _NodeMeters()).take(pod, reading, received_at)
