"""Holds the Lease by which one of several operators leads, and refuses writes to the others.

The elector of the official client goes by the wall clock, ends on an error of the connection, and has no check for single writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairlead.core.election import LEASE_SECONDS, LOOK_SECONDS, RENEW_SECONDS, Contender, LeaseFacts, Step
from fairlead.handlers.worker import BackgroundService
from fairlead.kube.client import LEASES, KubeClient, KubeObject
from fairlead.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError, NotLeadingError

REQUEST_SECONDS = 4.0
"""How long one request for the Lease may take: less than its holder may write without it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeasePlace:
    """Where the Lease is, and who this operator is on it: no other process may have that name while it may still be running."""

    namespace: str
    name: str
    identity: str


class Elector(BackgroundService):
    """Looks at the Lease for ever. `on_leading` is awaited once, when this operator first leads, and `on_lost` called once another one has
    led since. `client` is one of its own, so that no other request keeps a renewal waiting. `boot_seconds` is a clock that never jumps and
    goes on while the machine sleeps, `now` tells the time.
    """

    def __init__(
        self,
        client: KubeClient,
        place: LeasePlace,
        *,
        boot_seconds: Callable[[], float],
        now: Callable[[], datetime],
        on_leading: Callable[[], Awaitable[None]],
        on_lost: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._client = client
        self._place = place
        self._boot_seconds = boot_seconds
        self._now = now
        self._on_leading = on_leading
        self._on_lost = on_lost
        self._contender = Contender(place.identity)
        self._transitions = 0
        self._obstacle = ""

    @property
    def leads(self) -> bool:
        """Whether this operator may write now."""
        return self._contender.may_write(self._boot_seconds())

    def check_write(self) -> None:
        """To be called right before each write. Raises NotLeadingError."""
        if not self.leads:
            raise NotLeadingError(f"{self._place.identity} may not write: its hold on Lease {self._where} is not renewed")

    def check(self) -> Mapping[str, float]:
        return {"leading": float(self.leads)}

    async def stop(self) -> None:
        """Ends the looks, and gives the Lease up, so that another operator need not wait. To be called when nothing is written any more."""
        await self._cancel()
        if not self.leads:
            return
        released = {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            try:
                await self._write(released)
            except ConflictError:
                # A renewal that was under way may have landed.
                lease = await self._read()
                if lease is None or lease.holder != self._place.identity:
                    return
                self._contender = self._contender.seeing(lease, self._boot_seconds())
                await self._write(released)
        except KubeError as error:
            logger.info("Lease %s was not given up, another operator waits for its end: %s", self._where, error)

    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return [("elector", self._run())]

    async def _run(self) -> None:
        while True:
            pause_seconds = RENEW_SECONDS if self._contender.has_led else LOOK_SECONDS
            try:
                await self.look()
            except KubeError as error:
                if self._obstacle != error.kind:
                    logger.warning("Lease %s cannot be kept: %s", self._where, error)
                self._obstacle = error.kind
                pause_seconds = LOOK_SECONDS
            else:
                self._obstacle = ""
            await asyncio.sleep(pause_seconds)

    async def look(self) -> None:
        """One look at the Lease, and what follows from it. Raises KubeError."""
        if self.leads:
            # Nobody else may have written it: if somebody has, that is a conflict, and the next look shows who.
            try:
                await self._hold({})
                return
            except (ConflictError, NotFoundError) as error:
                logger.info("Lease %s was written or deleted by somebody else: %s", self._where, error)
        lease = await self._read()
        now = self._boot_seconds()
        self._contender = self._contender.seeing(lease, now)
        match self._contender.step(lease, now):
            case Step.CREATE:
                await self._create()
            case Step.TAKE:
                await self._hold({"acquireTime": self._micro_time(), "leaseTransitions": self._transitions + 1})
            case Step.RENEW:
                await self._hold({})
            case Step.LOST:
                self._lose(lease.holder if lease is not None else "")
            case Step.WAIT:
                pass

    async def _read(self) -> LeaseFacts | None:
        try:
            return self._facts(await self._client.get(LEASES, self._place.namespace, self._place.name))
        except NotFoundError:
            return None

    async def _create(self) -> None:
        spec = {**self._spec(), "acquireTime": self._micro_time(), "leaseTransitions": 0}
        body = {"apiVersion": LEASES.group_version, "kind": "Lease", "metadata": {"name": self._place.name}, "spec": spec}
        sent_at = self._boot_seconds()
        try:
            answer = await self._client.create(LEASES, self._place.namespace, body)
        except AlreadyExistsError:
            return
        await self._lead(self._facts(answer), sent_at)

    async def _hold(self, more: Mapping[str, Any]) -> None:
        sent_at = self._boot_seconds()
        await self._lead(await self._write({**self._spec(), **more}), sent_at)

    async def _write(self, spec: Mapping[str, Any]) -> LeaseFacts:
        patch = {"metadata": {"resourceVersion": self._contender.version}, "spec": dict(spec)}
        return self._facts(await self._client.merge_patch(LEASES, self._place.namespace, self._place.name, patch))

    async def _lead(self, lease: LeaseFacts, sent_at: float) -> None:
        is_first = not self._contender.has_led
        self._contender = self._contender.holding(lease, sent_at)
        if is_first:
            logger.info("%s leads, by Lease %s", self._place.identity, self._where)
            await self._on_leading()

    def _lose(self, holder: str) -> None:
        message = f"{holder or 'nobody'} holds Lease {self._where}, which was this operator's: it ends, and starts afresh"
        self._contender = Contender(self._place.identity)
        self._on_lost(message)

    def _facts(self, body: KubeObject) -> LeaseFacts:
        spec = body.get("spec") or {}
        self._transitions = int(spec.get("leaseTransitions") or 0)
        seconds = float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)
        return LeaseFacts(str(spec.get("holderIdentity") or ""), str(body["metadata"]["resourceVersion"]), seconds)

    def _spec(self) -> KubeObject:
        return {"holderIdentity": self._place.identity, "leaseDurationSeconds": int(LEASE_SECONDS), "renewTime": self._micro_time()}

    def _micro_time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def _where(self) -> str:
        return f"{self._place.namespace}/{self._place.name}"
