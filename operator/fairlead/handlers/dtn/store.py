"""DataTransferNodes and the Kubernetes nodes of the same names, and the data transfer nodes that decisions are made with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.core.dtn import NodeState, TransferNode, transfer_node_of
from fairlead.core.dtn_status import NodeFindings, Reporters
from fairlead.core.tuning.conclusion import Tuning
from fairlead.handlers.cache import ObjectKey, Versions, cluster_key
from fairlead.kube.client import KubeObject
from fairlead.kube.observe.facts import kubernetes_node_of


class DtnStore:
    """What lists and watches have shown. Everything happens on one event loop."""

    def __init__(self) -> None:
        self.dtns: Versions[DataTransferNode] = Versions()
        self.nodes: Versions[NodeState] = Versions()
        self.nodes_listed = False
        """Whether the Kubernetes nodes were listed: before, one that is not known may exist."""
        self._reporters: dict[str, Reporters] = {}
        self._known: Mapping[str, TransferNode] = MappingProxyType({})

    def put_dtn(self, body: KubeObject, now: datetime) -> DataTransferNode:
        """Takes in a version. Raises InvalidResourceError."""
        dtn = DataTransferNode.from_object(body)
        name, agent = dtn.metadata.name, dtn.status.agent
        if self.dtns.put(cluster_key(body), dtn.metadata.uid, dtn.metadata.resource_version, dtn):
            self._reporters[name] = self._reporters.get(name, Reporters()).noted(agent.instance if agent else None, now)
            self.renew(name, now)
        return dtn

    def drop_dtn(self, key: ObjectKey, uid: str) -> None:
        """Forgets one that is gone."""
        if self.dtns.drop(key, uid) is not None:
            self._reporters.pop(key.name, None)
            self._publish(key.name, None)

    def put_node(self, body: KubeObject, now: datetime) -> None:
        """Takes in a version of a Kubernetes node."""
        metadata = body["metadata"]
        self.nodes.put(cluster_key(body), metadata["uid"], str(metadata.get("resourceVersion", "")), kubernetes_node_of(body))
        self.renew(metadata["name"], now)

    def drop_node(self, key: ObjectKey, uid: str, now: datetime) -> None:
        """Forgets a Kubernetes node that is gone."""
        if self.nodes.drop(key, uid) is not None:
            self.renew(key.name, now)

    def dtn(self, name: str) -> DataTransferNode | None:
        """The DataTransferNode of that name, None if there is none."""
        return self.dtns.get(ObjectKey("", name))

    def findings(self, name: str, jobs: int, now: datetime, tuning: Tuning | None = None) -> NodeFindings:
        """What is known of a node beside its DataTransferNode; `jobs` is the number of its movers, `tuning` what the tuning rules say."""
        exists = self.nodes.get(ObjectKey("", name)) is not None if self.nodes_listed else None
        several_agents = self._reporters.get(name, Reporters()).take_turns(now)
        return NodeFindings(jobs=jobs, exists=exists, several_agents=several_agents, tuning=tuning)

    def transfer_nodes(self) -> Mapping[str, TransferNode]:
        """The data transfer nodes by name as of their last change or `renew`; the mapping never changes."""
        return self._known

    def renew(self, name: str, now: datetime) -> None:
        """Concludes anew what is known of a node: with time an agent turns silent."""
        dtn = self.dtn(name)
        if dtn is not None:
            absent = NodeState(ready=False) if self.nodes_listed else None
            self._publish(name, transfer_node_of(dtn, now, self.nodes.get(ObjectKey("", name)) or absent))

    def _publish(self, name: str, node: TransferNode | None) -> None:
        if self._known.get(name) == node:
            return
        known = {other: each for other, each in self._known.items() if other != name}
        self._known = MappingProxyType(known if node is None else {**known, name: node})
