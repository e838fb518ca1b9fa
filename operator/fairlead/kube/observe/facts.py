"""Nodes, claims and attachments that matter to a job, read live and remembered for a moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Generic, TypeVar

from fairlead.api import names
from fairlead.api.transferjob import TransferJob
from fairlead.core.attachments import refuses_rate
from fairlead.core.dtn import NodeState
from fairlead.core.network import traits_of
from fairlead.core.observed import ClaimFacts, NodeFacts
from fairlead.core.placement.model import Affinity, LabelRule
from fairlead.kube.client import ATTACHMENTS, CLAIMS, NODES, VOLUMES, KubeClient
from fairlead.kube.errors import ForbiddenError, NotFoundError
from fairlead.kube.observe.pods import read_addresses

HOSTNAME_LABEL = "kubernetes.io/hostname"
MOST_REMEMBERED = 1 << 15
"""Answers of a kind: ten thousand jobs have twice as many claims."""

READY_SECONDS = 10.0
"""How long a node that is ready counts as such. The cluster itself takes longer to notice that one is lost; that one is back is noticed as
soon as facts are wanted."""
DOUBTED_SECONDS = 10.0
"""What is missing, unbound or not ready is read again after so long, also where facts may be older."""
BOUND_SECONDS = 60.0
"""How long a bound claim is not read again: it keeps its volume, and a volume its nodes."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Nodes by name and claims of the job's namespace by name."""

    nodes: Mapping[str, NodeFacts]
    claims: Mapping[str, ClaimFacts]
    attachments: Mapping[str, str] = field(default_factory=dict)
    """As `Observed` has them."""


class _Memory(Generic[K, V]):
    """Answers by key, each usable for the seconds that `lasts` gives it, and then until the asker finds it too old. One to which it gives
    none is no good news, and is doubted soon. Those that were asked for longest ago are forgotten first, and several who ask for one at a
    time share an answer."""

    def __init__(
        self, monotonic: Callable[[], float], ask: Callable[[K], Awaitable[V]], lasts: Callable[[V], float] = lambda answer: 0.0
    ) -> None:
        self._monotonic = monotonic
        self._ask = ask
        self._lasts = lasts
        self._answers: dict[K, tuple[float, V]] = {}
        self._asking: dict[K, tuple[float, asyncio.Future[V]]] = {}

    async def get_all(self, keys: Sequence[K], oldest_seconds: float) -> list[V]:
        """The answers to all of them, which most passes find here."""
        if all(self._is_usable(key, oldest_seconds) for key in keys):
            return [self._answers[key][1] for key in keys]
        return list(await asyncio.gather(*(self.get(key, oldest_seconds) for key in keys)))

    async def get(self, key: K, oldest_seconds: float) -> V:
        """The answer. Whoever asks for one that somebody has just asked for waits for that."""
        if self._is_usable(key, oldest_seconds):
            return self._answers[key][1]
        now = self._monotonic()
        asking = self._asking.get(key)
        if asking is None or now - asking[0] > oldest_seconds:
            asking = self._asking[key] = now, asyncio.ensure_future(self._renew(key, now))
        # Who gives up must not take the answer from the others.
        return await asyncio.shield(asking[1])

    def _is_usable(self, key: K, oldest_seconds: float) -> bool:
        known = self._answers.get(key)
        if known is None:
            return False
        lasts_seconds = self._lasts(known[1])
        usable_seconds = max(oldest_seconds, lasts_seconds) if lasts_seconds else min(oldest_seconds, DOUBTED_SECONDS)
        return self._monotonic() - known[0] <= usable_seconds

    async def _renew(self, key: K, asked_at: float) -> V:
        try:
            answer = await self._ask(key)
        finally:
            if (asking := self._asking.get(key)) is not None and asking[0] == asked_at:
                del self._asking[key]
        known = self._answers.pop(key, None)
        self._answers[key] = (asked_at, answer) if known is None or known[0] <= asked_at else known
        if len(self._answers) > MOST_REMEMBERED:
            del self._answers[next(iter(self._answers))]
        return answer


class FactReader:
    """Reads through `client`; `monotonic` is a clock in seconds."""

    def __init__(self, client: KubeClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._nodes: _Memory[str, NodeFacts] = _Memory(monotonic, self._read_node, lambda node: READY_SECONDS if node.ready else 0.0)
        self._claims: _Memory[tuple[str, str], ClaimFacts] = _Memory(
            monotonic, self._read_claim, lambda claim: BOUND_SECONDS if claim.bound else 0.0
        )
        self._attachments: _Memory[tuple[str, str], str | None] = _Memory(monotonic, self._read_attachment)

    async def read(self, job: TransferJob, pod_nodes: Iterable[str], oldest_seconds: float) -> ClusterFacts:
        """The facts about what `job` names, where its volumes and pods are and its receiver was, none older than that but good news. Raises
        KubeError."""
        sides = (job.spec.source, job.spec.destination)
        claim_names = sorted({side.claim_name for side in sides})
        claims = await self._claims.get_all([(job.metadata.namespace, name) for name in claim_names], oldest_seconds)
        known = (*(side.node for side in sides), *(claim.node for claim in claims), job.status.receiver_node)
        node_names = sorted({*filter(None, known), *pod_nodes})
        nodes = await self._nodes.get_all(node_names, oldest_seconds)
        return ClusterFacts(
            nodes=dict(zip(node_names, nodes, strict=True)),
            claims=dict(zip(claim_names, claims, strict=True)),
            attachments=await self._refusing(job, oldest_seconds),
        )

    async def _refusing(self, job: TransferJob, oldest_seconds: float) -> dict[str, str]:
        """The job's attachments that refuse a rate. They decide about a start alone."""
        if not traits_of(job).needs_attachment or job.status.attempt_start_time is not None:
            return {}
        named = sorted({*job.spec.source.named_attachments, *job.spec.destination.named_attachments})
        found = await self._attachments.get_all([(job.metadata.namespace, name) for name in named], oldest_seconds)
        return {name: plugin for name, plugin in zip(named, found, strict=True) if plugin is not None}

    async def _read_node(self, name: str) -> NodeFacts:
        try:
            node = await self._client.get(NODES, None, name)
        except NotFoundError:
            return NodeFacts(exists=False)
        status, annotations = node.get("status") or {}, node["metadata"].get("annotations") or {}
        return NodeFacts(
            exists=True,
            ready=_is_ready(node),
            schedulable=not (node.get("spec") or {}).get("unschedulable"),
            addresses=read_addresses(entry.get("address") for entry in status.get("addresses") or []),
            data_networks=_data_networks(annotations.get(names.ANNOTATION_DATA_ADDRESSES)),
        )

    async def _read_attachment(self, key: tuple[str, str]) -> str | None:
        try:
            definition = await self._client.get(ATTACHMENTS, *key)
        except (NotFoundError, ForbiddenError):
            # The right to read them can be withheld, and where there is none Multus says so in time.
            return None
        config = (definition.get("spec") or {}).get("config")
        return refuses_rate(config) if isinstance(config, str) else None

    async def _read_claim(self, key: tuple[str, str]) -> ClaimFacts:
        try:
            claim = await self._client.get(CLAIMS, *key)
        except NotFoundError:
            return ClaimFacts(exists=False)
        bound = (claim.get("status") or {}).get("phase") == "Bound"
        volume_name = (claim.get("spec") or {}).get("volumeName")
        if not bound or not volume_name:
            return ClaimFacts(exists=True, bound=bound)
        try:
            volume = await self._client.get(VOLUMES, None, volume_name)
        except NotFoundError:
            return ClaimFacts(exists=True, bound=False)
        return ClaimFacts(
            exists=True, bound=True, node=only_node(volume), affinity=affinity_of(volume), disk_numa_node=_disk_numa_node(volume)
        )


def kubernetes_node_of(node: Mapping[str, Any]) -> NodeState:
    """What placement needs of a node object."""
    return NodeState(
        ready=_is_ready(node),
        schedulable=not (node.get("spec") or {}).get("unschedulable"),
        labels=dict(node["metadata"].get("labels") or {}),
    )


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _data_networks(text: str | None) -> tuple[IPv4Network | IPv6Network, ...] | None:
    """The networks in a node's annotation, single addresses among them; what is neither allows nothing."""
    if text is None:
        return None
    networks: list[IPv4Network | IPv6Network] = []
    for entry in text.split(","):
        with contextlib.suppress(ValueError):
            networks.append(ip_network(entry.strip(), strict=False))
    return tuple(networks)


def affinity_of(volume: Mapping[str, Any]) -> Affinity | None:
    """From which nodes a volume can be used, None for every one."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return None if not required else tuple(tuple(_rules(term)) for term in required.get("nodeSelectorTerms") or [])


def _rules(term: Mapping[str, Any]) -> Iterator[LabelRule]:
    for expression in (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())):
        yield LabelRule(str(expression.get("key")), str(expression.get("operator")), tuple(map(str, expression.get("values") or ())))


def _disk_numa_node(volume: Mapping[str, Any]) -> int | None:
    text = (volume["metadata"].get("annotations") or {}).get(names.ANNOTATION_DISK_NUMA_NODE, "")
    return int(text) if text.isascii() and text.isdigit() else None


def only_node(volume: Mapping[str, Any]) -> str | None:
    """The node to which a volume is confined, None if it may be used from several."""
    required = (((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")) or {}
    terms = required.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        return None
    for expression in terms[0].get("matchExpressions") or []:
        values = expression.get("values") or []
        if expression.get("key") == HOSTNAME_LABEL and expression.get("operator") == "In" and len(values) == 1:
            return str(values[0])
    return None
