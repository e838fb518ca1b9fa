"""Looks at the node again and again, and writes its DataTransferNode when that is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from fairlead.agent.news import LEAST_INTERVAL, interval_of, status_patch, write_after
from fairlead.api import names
from fairlead.api.datatransfernode.status import NodeReport
from fairlead.kube.client import DTNS, KubeObject, ResourceKind
from fairlead.kube.errors import AlreadyExistsError, ForbiddenError, KubeError, NotFoundError

LOOK_SECONDS: Final = 5.0
FIRST_PAUSE_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 120.0
ALIVE_SECONDS: Final = 120.0

logger = logging.getLogger(__name__)


class Writes(Protocol):
    """What an agent asks of the API server."""

    async def create(self, resource: ResourceKind, namespace: str | None, body: KubeObject) -> KubeObject:
        """Creates an object."""

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str | None = None
    ) -> KubeObject:
        """Changes an object."""


class Agent:
    """The agent of one node. `look` finds what it has (and may take its time), `monotonic` counts seconds, `chance` draws from 0 to 1."""

    def __init__(
        self,
        *,
        node: str,
        look: Callable[[], Awaitable[NodeReport]],
        client: Writes,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        chance: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._node = node
        self._look = look
        self._client = client
        self._now = now
        self._monotonic = monotonic
        self._chance = chance
        self._sleep = sleep
        self._written: NodeReport | None = None
        self._written_at = 0.0
        self._interval = LEAST_INTERVAL
        self._failures = 0
        self._rest_until = 0.0
        self._looked_at = monotonic()
        self.found: NodeReport | None = None
        """What the last look has found; None before the first."""
        self.writes = 0
        self.failed_writes = 0

    @property
    def is_alive(self) -> bool:
        """Whether it looks at the node."""
        return self._monotonic() < self._looked_at + ALIVE_SECONDS

    @property
    def has_reported(self) -> bool:
        """Whether the node's DataTransferNode has what was found."""
        return self._written is not None

    async def run(self) -> None:
        """For ever. Whatever fails is logged and tried again."""
        while True:
            await self.step()
            await self._sleep(LOOK_SECONDS)

    async def step(self) -> None:
        """Looks once, and writes if that is due."""
        try:
            self.found = await self._look()
        except OSError as error:
            logger.warning("the node's interfaces cannot be read, again in %.0f s: %s", LOOK_SECONDS, error)
            return
        self._looked_at = self._monotonic()
        since = timedelta(seconds=self._looked_at - self._written_at)
        if self._looked_at < self._rest_until or write_after(self._written, self.found, since, self._interval):
            return
        try:
            await self._write(self.found)
        except KubeError as error:
            self._rest(error)
        else:
            self._failures = 0

    async def _write(self, found: NodeReport) -> None:
        self.writes += 1
        patch = status_patch(found.model_copy(update={"last_report_time": self._now()}))
        try:
            await self._client.merge_patch(DTNS, None, self._node, patch, subresource="status")
        except NotFoundError:
            await self._create()
            await self._client.merge_patch(DTNS, None, self._node, patch, subresource="status")
        self._interval = interval_of(self._chance(), first=self._written is None)
        self._written, self._written_at = found, self._looked_at

    async def _create(self) -> None:
        """Makes the DataTransferNode; what an administrator declares is left to them."""
        body: KubeObject = {"apiVersion": names.API_VERSION, "kind": names.DTN_KIND, "metadata": {"name": self._node}, "spec": {}}
        try:
            await self._client.create(DTNS, None, body)
        except AlreadyExistsError:
            logger.debug("DataTransferNode %s was made meanwhile", self._node)

    def _rest(self, error: KubeError) -> None:
        self.failed_writes += 1
        # After an outage all agents are refused together, and must not come back together.
        rest_seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**self._failures) * (0.5 + self._chance())
        self._failures = min(self._failures + 1, 10)
        self._rest_until = self._looked_at + rest_seconds
        remedy = ""
        if isinstance(error, NotFoundError):
            remedy = f"; the API server may lack {names.DTN_PLURAL}.{names.GROUP}: install the chart with crds.install=true"
        elif isinstance(error, ForbiddenError):
            remedy = "; the agent may write the DataTransferNode of its own node alone, with the service account that the chart gives it"
        logger.warning("DataTransferNode %s was not written, again in %.0f s: %s%s", self._node, rest_seconds, error, remedy)
