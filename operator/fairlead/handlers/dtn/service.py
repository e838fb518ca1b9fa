"""Follows DataTransferNodes and Kubernetes nodes, and writes the operator's part of a DataTransferNode's status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from fairlead.api.networkpath import NetworkPath
from fairlead.api.reasons import DtnReason
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.core.dtn import doubt_of
from fairlead.core.dtn_status import NodeFindings, status_after
from fairlead.handlers.dtn.follow import PAUSE, Follower
from fairlead.handlers.dtn.store import DtnStore
from fairlead.handlers.dtn.tuning import TuningPasses
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.queue import Timers, WorkQueue
from fairlead.handlers.worker import BackgroundLoop, ErrorPolicy, Worker
from fairlead.kube.apply import merge_difference
from fairlead.kube.client import DTNS, NODES, KubeClient, KubeObject
from fairlead.kube.errors import ConflictError, NotFoundError

LOOK_SECONDS = 10.0
"""How often movers are counted, and how soon a silent agent is noticed."""

Settled = tuple[str, NodeFindings, DtnReason | None]
"""What a status was concluded from: the version of the object, what else is known, and why its report is not used."""

logger = logging.getLogger(__name__)


class DtnService:
    """Keeps `store` and the operator's part of each status up to date. Without this kind in the cluster, or without rights to it, there are
    no data transfer nodes, and jobs run all the same. `movers` counts the movers that have not ended by node; `paths` are the NetworkPaths.
    """

    def __init__(
        self,
        *,
        store: DtnStore,
        client: KubeClient,
        metrics: OperatorMetrics,
        timers: Timers,
        now: Callable[[], datetime],
        movers: Callable[[], Mapping[str, int]],
        paths: Callable[[], Iterable[NetworkPath]],
    ) -> None:
        self._store = store
        self._client = client
        self._now = now
        self._movers = movers
        self._counted: Mapping[str, int] = {}
        self._tuning = TuningPasses(store.dtns.values, paths, timers.time)
        self._settled: dict[str, Settled] = {}
        self._queue: WorkQueue[str] = WorkQueue(timers, PAUSE)
        self._exist = asyncio.Event()
        self._dtns = Follower(
            client,
            DTNS,
            store.dtns,
            put=self._take_dtn,
            drop=store.drop_dtn,
            consequence="no data transfer nodes are known",
            on_error=metrics.count_error,
        )
        self._nodes = Follower(
            client,
            NODES,
            store.nodes,
            put=lambda body: store.put_node(body, now()),
            drop=lambda key, uid: store.drop_node(key, uid, now()),
            consequence="labels of data transfer nodes are not known, nor which are ready",
            on_error=metrics.count_error,
        )
        errors: ErrorPolicy[str] = ErrorPolicy(lambda name: f"DataTransferNode {name}", metrics.count_error)
        self.worker = Worker("data transfer node worker", self._queue, self.keep, errors)
        self.followers = (
            BackgroundLoop("watch of data transfer nodes", self._dtns.run),
            BackgroundLoop("watch of nodes", self._follow_nodes),
            BackgroundLoop("look at data transfer nodes", self._look_for_ever),
        )

    async def refresh(self) -> None:
        """The first lists, so that the first jobs meet what is known. Raises UnavailableError: jobs would start without regard to slots."""
        await self._dtns.try_to_list()
        if len(self._store.dtns):
            await self._nodes.try_to_list()
            self._store.nodes_listed = self._nodes.listed
        await self._tuning.renew(self._now())
        self.look()

    def look(self) -> None:
        """Counts the movers, and has a pass made over each node of which something else is known than at its last one."""
        self._counted, now = self._movers(), self._now()
        self._store.nodes_listed = self._nodes.listed
        for key, _ in list(self._store.dtns.items()):
            if self._basis(key.name, now) != self._settled.get(key.name):
                self._store.renew(key.name, now)
                self._queue.add(key.name)
        self._settled = {name: basis for name, basis in self._settled.items() if self._store.dtn(name) is not None}

    async def keep(self, name: str) -> timedelta | None:
        """Brings the operator's part of one status up to date. Raises KubeError."""
        now, dtn = self._now(), self._store.dtn(name)
        basis = self._basis(name, now)
        if dtn is None or basis is None:
            return None
        status = status_after(dtn, basis[1], now)
        difference = merge_difference(dtn.status.to_object(), status.to_object())
        if difference:
            # Without a version: the agent writes other fields, as it likes.
            patch = {"metadata": {"uid": dtn.metadata.uid}, "status": difference}
            try:
                self._take_dtn(await self._client.merge_patch(DTNS, None, name, patch, subresource="status"))
            except (NotFoundError, ConflictError):
                logger.debug("DataTransferNode %s is gone, or another one has its name", name)
                return None
        self._settled[name] = basis
        return None

    def _basis(self, name: str, now: datetime) -> Settled | None:
        dtn = self._store.dtn(name)
        if dtn is None:
            return None
        findings = self._store.findings(name, self._counted.get(name, 0), now, self._tuning.latest.get(name))
        return dtn.metadata.resource_version, findings, doubt_of(dtn, now)

    def _take_dtn(self, body: KubeObject) -> None:
        try:
            self._queue.add(self._store.put_dtn(body, self._now()).metadata.name)
        except InvalidResourceError as error:
            logger.warning("DataTransferNode %s cannot be read and is left alone: %s", body["metadata"]["name"], error)
        else:
            self._exist.set()

    async def _follow_nodes(self) -> None:
        # A cluster without data transfer nodes is not asked for its nodes.
        await self._exist.wait()
        await self._nodes.run()

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._tuning.renew(self._now())
            self.look()
