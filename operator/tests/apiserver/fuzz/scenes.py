"""Where fields are fuzzed: what is there, which object changes, and how."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from lab import data_transfer_node, fairness_policy, network_path, transfer_job

from fairlead.kube.client import DTNS, JOBS, PATHS, POLICIES, KubeObject, ResourceKind
from fuzz.schemas import Schema, schemas
from fuzz.transitions import Transition, transitions_of

NAMESPACE = "namespace-of-the-run"
BYSTANDER, CANARY, TARGET = "job", "canary", "fuzzed"
BOTH_ENDS = ("spec.source", "spec.destination")


@dataclass(frozen=True)
class Scene:
    """One of them. `fixtures` are there all the time, the jobs among them under way. With `is_live` the object is one of them and is
    changed; otherwise it is created and deleted again."""

    name: str
    kind: ResourceKind
    target: KubeObject
    is_live: bool
    fixtures: tuple[tuple[ResourceKind, KubeObject], ...]
    roots: tuple[str, ...] = ("spec",)
    subresource: str = ""
    """What is patched; the object itself if empty."""
    steady_seconds: float = 6.0
    """How long nothing may change before what is there counts as the usual state: longer than a short stage is kept from the status."""

    @property
    def schema(self) -> Schema:
        """The schema of the object."""
        return schemas()[self.kind.plural]

    @cached_property
    def transitions(self) -> list[Transition]:
        """All of its transitions."""
        return transitions_of(self.name, self.schema, self.target, self.roots)

    @property
    def name_of_target(self) -> str:
        """The object's name."""
        return str(self.target["metadata"]["name"])


def job(name: str, **spec: Any) -> KubeObject:
    """A job, in a namespace that is filled in later."""
    return transfer_job(NAMESPACE, name, **spec)


def _end(node: str, claim: str, path: str, **more: Any) -> KubeObject:
    return {"node": node, "volume": {"persistentVolumeClaim": {"claimName": claim}}, "path": path, **more}


def _interface(node: str, name: str = "data0") -> KubeObject:
    return {"node": node, "name": name, "direction": "Transmit"}


def _report(host: int) -> KubeObject:
    """What an agent says of a node."""
    return {
        "agent": {"instance": f"agent-{host}", "version": "1.0.0"},
        "lastReportTime": "2026-01-02T03:04:05Z",
        "cpus": 16,
        "load": "Idle",
        "kernel": {
            "release": "6.8.0",
            "congestionControls": ["cubic", "reno", "bbr"],
            "allowedCongestionControls": ["cubic", "reno"],
            "defaultQdisc": "fq",
            "clockSource": "tsc",
            "cpuGovernor": "performance",
            "receiveBufferMaximumBytes": 1 << 28,
            "sendBufferMaximumBytes": 1 << 28,
            "tcpReceiveBufferMaximumBytes": 1 << 28,
            "tcpSendBufferMaximumBytes": 1 << 28,
        },
        "interfaces": [
            {
                "name": name,
                "rate": "10G",
                "mtu": 9000,
                "addresses": [f"198.19.{number}.{host}/24"],
                "carrier": True,
                "driver": "mlx5_core",
                "kind": "device",
                "qdisc": "fq",
                "numaNode": 0,
                "pciAddress": "0000:3b:00.0",
                "interruptCpus": "0-7",
                "management": False,
                "virtualFunctions": [{"index": 0, "maximumRate": "1G"}],
            }
            for number, name in enumerate(("data0", "data1"))
        ],
        "numaNodes": [{"number": 0, "cpus": "0-15"}],
        "storage": [{"path": "/data", "totalBytes": 10**13, "freeBytes": 10**12}],
    }


def _node(name: str, host: int, **spec: Any) -> KubeObject:
    declared = {
        "site": "geneva",
        "slots": 8,
        "interfaces": [{"name": "data0", "rate": "10G", "mtu": 9000, "numaNode": 0, "network": "wan"}],
    }
    return {**data_transfer_node(name, **declared | spec), "status": _report(host)}


_POLICY = fairness_policy(
    "site",
    interfaces=[{"nodes": ["dtn-*"], "names": ["data?"]}],
    links=[
        {"name": "out", "interfaces": [_interface("dtn-a")], "capacity": "1G", "headroom": "10%", "floor": "10%"},
        {"name": "second", "interfaces": [_interface("dtn-a", "data1")], "capacity": "1G"},
    ],
    tenants=[
        {
            "name": "labs",
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": NAMESPACE},
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}],
            },
            "weight": 200,
            "guarantee": "100M",
            "limit": "2G",
        }
    ],
    others={"weight": 50, "limit": "1G"},
)
_JOB = (JOBS, job(BYSTANDER))
_LIMITED = {"limit": "900M", "guarantee": "100M", "weight": 100}
_ATTACHED = {
    "network": "Attachment",
    "source": _end("dtn-a", "raw", "run42", attachment="net-a", attachmentAddresses=["198.18.0.1/24"], resources={"example.com/sriov": 1}),
    "destination": _end("dtn-b", "scratch", TARGET, attachment="net-b", attachmentAddresses=["198.18.0.2/24"]),
}
_NODES = ((DTNS, _node("dtn-a", 1)), (DTNS, _node("dtn-b", 2)))
_PATH = network_path("a-b", capacity="10G", otherTraffic=2)

_ALL = (
    Scene("job-live", JOBS, job(BYSTANDER, bandwidth=_LIMITED), is_live=True, fixtures=((JOBS, job(BYSTANDER, bandwidth=_LIMITED)),)),
    Scene("job-new", JOBS, job(TARGET, bandwidth=_LIMITED), is_live=False, fixtures=(_JOB,)),
    Scene("job-attached", JOBS, job(TARGET, **_ATTACHED), is_live=False, fixtures=(_JOB,), roots=(*BOTH_ENDS, "spec.network")),
    Scene(
        "job-described",
        JOBS,
        job(
            TARGET,
            source={"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42"},
            destination={"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": TARGET},
        ),
        is_live=False,
        fixtures=(_JOB, *_NODES),
        roots=(*BOTH_ENDS, "spec.transport"),
        steady_seconds=12.0,
    ),
    Scene(
        "policy-live",
        POLICIES,
        _POLICY,
        is_live=True,
        fixtures=((POLICIES, _POLICY), _JOB, (JOBS, job("second"))),
        # Figures in the status of a policy are renewed every ten seconds.
        steady_seconds=12.0,
    ),
    Scene("policy-new", POLICIES, _POLICY, is_live=False, fixtures=(_JOB, (JOBS, job("second")))),
    Scene("path-live", PATHS, _PATH, is_live=True, fixtures=((PATHS, _PATH), _JOB)),
    Scene("path-new", PATHS, network_path("b-a", source={"node": "dtn-b"}, destination={"node": "dtn-a"}), is_live=False, fixtures=(_JOB,)),
    Scene("node-live", DTNS, _NODES[0][1], is_live=True, fixtures=(_JOB, *_NODES), steady_seconds=12.0),
    Scene(
        "node-report",
        DTNS,
        _NODES[0][1],
        is_live=True,
        fixtures=(_JOB, *_NODES),
        roots=("status",),
        subresource="status",
        steady_seconds=12.0,
    ),
    Scene(
        "node-new",
        DTNS,
        data_transfer_node("dtn-b", **_NODES[1][1]["spec"]),
        is_live=False,
        fixtures=(_JOB, _NODES[0]),
        steady_seconds=12.0,
    ),
)
SCENES: Mapping[str, Scene] = {scene.name: scene for scene in _ALL}


def everything() -> list[Transition]:
    """All transitions of all scenes."""
    return [each for scene in _ALL for each in scene.transitions]


def placed(body: Any, namespace: str) -> Any:
    """A body with the namespace of the run in it."""
    if isinstance(body, dict):
        return {key: placed(each, namespace) for key, each in body.items()}
    if isinstance(body, list):
        return [placed(each, namespace) for each in body]
    return body.replace(NAMESPACE, namespace) if isinstance(body, str) else body


_agents = itertools.count(1)


def reported(body: KubeObject) -> KubeObject:
    """A data transfer node whose report, if it has one, is of now, by an agent that has just been started: one that comes back after
    another one looks like two of them."""
    if "status" not in body:
        return body
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    agent = {**body["status"]["agent"], "instance": f"agent-{next(_agents)}"}
    return {**body, "status": {**body["status"], "lastReportTime": moment, "agent": agent}}
