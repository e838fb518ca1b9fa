"""Passes over the jobs that wait for a place: a slot that became free, a node that is back, a new DataTransferNode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.placement.store import LEAST_PAUSE_SECONDS, PlacementStore
from fairlead.handlers.worker import BackgroundLoop


class PlacementLoop:
    """Renews what jobs are told, and has those reconciled for which it is new."""

    def __init__(self, store: PlacementStore, wake: Callable[[ObjectKey], None]) -> None:
        self._store = store
        self._wake = wake
        self.service = BackgroundLoop("placement", self._run)

    def look(self) -> None:
        """One pass, if anybody waits. Passes that jobs themselves brought about have news for others too."""
        if self._store.is_worth_renewing():
            self._store.renew()
        for key in sorted(self._store.take_news()):
            self._wake(key)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LEAST_PAUSE_SECONDS)
            self.look()
