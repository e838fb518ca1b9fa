"""Follows the objects of one kind: a list, then a watch, and a list again when the watch ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.handlers.cache import ObjectKey, Versions, cluster_key
from fairlead.handlers.queue import Backoff
from fairlead.kube.client import KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, KubeError, UnavailableError

WATCH_SECONDS = 300
"""A watch ends after so long, and the list that follows finds what it may have missed."""
PAUSE = Backoff(first_seconds=2.0, most_seconds=60.0)

logger = logging.getLogger(__name__)


class Follower:
    """All objects of a kind that is in no namespace. `put` takes in a version, `drop` the key and UID of one that is gone; `versions` is
    where both keep them. `consequence` says what its absence means, for the log.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: ResourceKind,
        versions: Versions[Any],
        *,
        put: Callable[[KubeObject], None],
        drop: Callable[[ObjectKey, str], None],
        consequence: str,
        on_error: Callable[[str], None] = lambda kind: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._resource = resource
        self._versions = versions
        self._put = put
        self._drop = drop
        self._consequence = consequence
        self._on_error = on_error
        self._sleep = sleep
        self._obstacle: str | None = None
        self.listed = False
        """Whether there was a complete list."""

    async def list(self) -> str:
        """Lists everything and returns the list's version. Raises KubeError."""
        before, uids, found = self._versions.snapshot(), dict[ObjectKey, str](), [""]
        async for page in self._client.list_pages(self._resource, on_version=found.append):
            for body in page:
                uids[cluster_key(body)] = body["metadata"]["uid"]
                self._put(body)
        for key, uid in self._versions.unlisted(before, uids, found[-1]):
            self._drop(key, uid)
        self.listed = True
        return found[-1]

    async def try_to_list(self) -> None:
        """The same; an error is logged instead of raised, unless it is UnavailableError: what the server would have shown may exist."""
        try:
            await self.list()
        except UnavailableError:
            raise
        except KubeError as error:
            self._note(error)

    async def run(self) -> None:
        """Follows for ever. An error is logged once, and tried again after a while."""
        failures = 0
        while True:
            try:
                version = await self.list()
                self._obstacle, failures = None, 0
                async for change in self._client.changes(self._resource, version, WATCH_SECONDS):
                    self._see(change.kind, change.body)
            except ConflictError:
                # What the watch was to begin with is too long ago: the next list is newer.
                failures += 1
            except KubeError as error:
                failures += 1
                self._note(error)
            if failures:
                await self._sleep(PAUSE.delay_seconds(failures))

    def _see(self, kind: str, body: KubeObject) -> None:
        if kind == "DELETED":
            self._drop(cluster_key(body), body["metadata"]["uid"])
        elif kind in ("ADDED", "MODIFIED"):
            self._put(body)

    def _note(self, error: KubeError) -> None:
        self._on_error(error.kind)
        if self._obstacle != error.kind:
            logger.warning("%s cannot be followed, %s: %s", self._resource.plural, self._consequence, error)
        self._obstacle = error.kind
