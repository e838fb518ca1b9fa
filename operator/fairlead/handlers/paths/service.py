"""Writes what jobs measure into NetworkPaths. One worker; nothing that fails here touches a job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from fairlead.api.networkpath import NetworkPath, NetworkPathStatus
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.core.paths.model import PathEnds
from fairlead.core.paths.objects import ends_of_spec, refused_status, spec_of, status_after, twins, write_after
from fairlead.handlers.cache import ObjectKey, cluster_key
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.queue import Backoff, Timers, WorkQueue
from fairlead.handlers.worker import BackgroundLoop, ErrorPolicy, Worker
from fairlead.kube.apply import merge_difference
from fairlead.kube.client import PATHS, KubeClient, KubeObject
from fairlead.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from fairlead.kube.objects.path import network_path

BACKOFF = Backoff(first_seconds=2.0, most_seconds=300.0)

logger = logging.getLogger(__name__)


class PathService:
    """Makes NetworkPaths and keeps their status. `metrics` counts what fails."""

    def __init__(
        self,
        *,
        store: PathStore,
        client: KubeClient,
        metrics: OperatorMetrics,
        timers: Timers,
        now: Callable[[], datetime],
        list_seconds: float = 60.0,
    ) -> None:
        self._store = store
        self._client = client
        self._metrics = metrics
        self._now = now
        self._list_seconds = list_seconds
        self._queue: WorkQueue[PathEnds] = WorkQueue(timers, BACKOFF)
        errors: ErrorPolicy[PathEnds] = ErrorPolicy(_subject, self._count, self._remember)
        self.worker = Worker("path worker", self._queue, self.keep, errors)
        self.lister = BackgroundLoop("list of paths", self._list_for_ever)
        self._written: dict[str, datetime] = {}
        self._stored: dict[str, KubeObject] = {}
        self._obstacle: str | None = "the paths have not been listed yet"

    def wake(self, ends: PathEnds) -> None:
        """Asks for a pass over the path of these ends."""
        self._queue.add(ends)

    async def _list_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._list_seconds)
            await self.refresh()

    async def refresh(self) -> None:
        """Lists the paths once. An error that prevents it is logged once; what is known stays in use."""
        before = self._store.snapshot()
        listed: dict[ObjectKey, str] = {}
        try:
            async for page in self._client.list_pages(PATHS):
                for body in page:
                    listed[cluster_key(body)] = body["metadata"]["uid"]
                    self._take_in_listed(body)
        except KubeError as error:
            self._metrics.count_error(error.kind)
            if self._obstacle != error.kind:
                logger.warning("NetworkPaths cannot be listed, what jobs learn of their paths is not kept: %s", error)
            self._obstacle = error.kind
            return
        self._store.keep_paths(before, listed)
        uids = set(listed.values())
        self._stored = {uid: status for uid, status in self._stored.items() if uid in uids}
        self._written = {uid: moment for uid, moment in self._written.items() if uid in uids}
        hindered, self._obstacle = self._obstacle is not None, None
        if hindered:
            for ends in self._store.unwritten():
                self._queue.add(ends)
        for younger, _ in twins(self._store.paths()):
            self._queue.add(ends_of_spec(younger.spec))

    async def keep(self, ends: PathEnds) -> timedelta | None:
        """Brings the NetworkPath of these ends up to date; returns when that is due if it is not yet. Raises KubeError."""
        if self._obstacle is not None:
            return None
        path = self._store.path_for(ends)
        if path is None:
            if not self._store.pending(ends, None) or ends.source_interface is None or ends.destination_interface is None:
                return None
            path = await self._create(ends)
        now, scope = self._now(), ends_of_spec(path.spec)
        for younger, older in twins(self._store.paths()):
            if older.metadata.uid == path.metadata.uid:
                await self._write(younger, refused_status(younger, older, now))
        news = self._store.pending(scope, path)
        status = status_after(path, news, self._store.lease(scope, now), now)
        last = self._written.get(path.metadata.uid)
        due = write_after(path.status, status, None if last is None else now - last, busy=self._store.is_live(scope))
        if due:
            return due
        if due is not None:
            await self._write(path, status)
        self._store.settle(news)
        return None

    async def _create(self, ends: PathEnds) -> NetworkPath:
        try:
            path = self._take_in(await self._client.create(PATHS, None, network_path(ends, spec_of(ends))))
        except AlreadyExistsError as error:
            # Made since the last list, or another path has that name: the next list shows which.
            raise ConflictError(str(error), status=error.status) from error
        self._written[path.metadata.uid] = self._now()
        return path

    async def _write(self, path: NetworkPath, status: NetworkPathStatus) -> None:
        difference = merge_difference(self._stored.get(path.metadata.uid, {}), status.to_object())
        if not difference:
            return
        patch = {"metadata": {"resourceVersion": path.metadata.resource_version}, "status": difference}
        try:
            body = await self._client.merge_patch(PATHS, None, path.metadata.name, patch, subresource="status")
        except NotFoundError as error:
            # Deleted since the last list: what was measured before that was unwanted.
            raise ConflictError(str(error), status=error.status) from error
        self._take_in(body)
        self._written[path.metadata.uid] = self._now()

    def _take_in(self, body: KubeObject) -> NetworkPath:
        path = self._store.put_path(body)
        self._stored[path.metadata.uid] = body.get("status") or {}
        return path

    def _take_in_listed(self, body: KubeObject) -> None:
        try:
            self._take_in(body)
        except InvalidResourceError as error:
            logger.warning("NetworkPath %s cannot be read and is left alone: %s", body["metadata"]["name"], error)

    async def _remember(self, _: PathEnds, error: Exception) -> None:
        """After a conflict somebody changed the spec, or our own write was not seen: the list brings the present version."""
        if isinstance(error, ConflictError):
            await self.refresh()

    def _count(self, kind: str) -> None:
        if kind != ConflictError.kind:
            self._metrics.count_error(kind)


def _subject(ends: PathEnds) -> str:
    return f"NetworkPath from {ends.source_node} to {ends.destination_node}"
