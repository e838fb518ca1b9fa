"""The node agents that may be asked, and what they answer about their interfaces' counters (docs/contracts.md, "Node agent HTTP").

What an agent answers counts in full, so it is asked for under conditions that no tenant can bring about: its pod is in the agents' own
namespace, runs as their service account, is owned by a DaemonSet, and the answer has the pod's UID.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from fairlead.kube.observe.forms import Count, Interface, MoverMessage, ReportError, Seconds, Version, parse_message

PATH = "/v1/node"
LARGEST_ANSWER_BYTES = 512 * 1024
"""64 interfaces with some dozens of virtual functions each."""
_MOST_INTERFACES = 64


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """Where the agents are: their namespace and service account, and the port on their nodes."""

    namespace: str
    service_account: str
    port: int


@dataclass(frozen=True, slots=True)
class AgentPod:
    """The pod of a node's agent."""

    uid: str
    node: str
    address: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class InterfaceBytes:
    """What an interface has carried since it came up, in bytes."""

    transmitted: int
    received: int


@dataclass(frozen=True, slots=True)
class AgentReading:
    """The counters of a node's interfaces by name, and when the agent read them by its own clock in seconds, which only moves forwards."""

    interfaces: Mapping[str, InterfaceBytes]
    monotonic_seconds: float


class _Agent(MoverMessage):
    instance: Annotated[str, Field(min_length=1, max_length=64)]


class _Counters(MoverMessage):
    transmit_bytes: Count
    receive_bytes: Count


class _ReadAt(MoverMessage):
    monotonic_seconds: Seconds


class NodeAnswer(MoverMessage):
    """The answer to `GET /v1/node`, as far as its counters go."""

    version: Version
    node: Annotated[str, Field(max_length=253)]
    agent: _Agent
    counters: Annotated[dict[Interface, _Counters], Field(max_length=_MOST_INTERFACES)]
    read_at: _ReadAt


def agent_pod(body: Mapping[str, Any], place: AgentPlace) -> AgentPod | None:
    """The agent's pod in an object of the API server; None if it is something else, or does not run."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    controllers = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    is_agents = (
        metadata.get("namespace") == place.namespace
        and spec.get("serviceAccountName") == place.service_account
        and spec.get("hostNetwork") is True
        and [(each.get("apiVersion"), each.get("kind")) for each in controllers] == [("apps/v1", "DaemonSet")]
    )
    if not is_agents or metadata.get("deletionTimestamp") or status.get("phase") != "Running":
        return None
    node, address = spec.get("nodeName"), status.get("hostIP")
    if not node or not address:
        return None
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    return AgentPod(metadata["uid"], node, address, is_ready)


def read_counters(body: bytes, pod: AgentPod) -> AgentReading:
    """What the agent in `pod` answered. Raises ReportError, also where something else answers at its place."""
    answer = parse_message(NodeAnswer, body, LARGEST_ANSWER_BYTES)
    if answer.node != pod.node:
        raise ReportError("node: it is not the node of the agent's pod")
    if answer.agent.instance != pod.uid:
        raise ReportError("agent.instance: it is not the UID of the agent's pod")
    interfaces = {name: InterfaceBytes(each.transmit_bytes, each.receive_bytes) for name, each in answer.counters.items()}
    return AgentReading(interfaces, answer.read_at.monotonic_seconds)
