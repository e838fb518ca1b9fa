"""Whether Cilium's bandwidth manager is on in this cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from fairlead.handlers.options import CiliumOptions
from fairlead.handlers.worker import BackgroundLoop
from fairlead.kube.client import CONFIG_MAPS, KubeClient
from fairlead.kube.errors import ForbiddenError, KubeError, NotFoundError

READ_SECONDS = 60.0
"""How often Cilium's settings are read: its agents take them up only when they are started again."""

logger = logging.getLogger(__name__)


def is_bandwidth_manager_on(settings: Mapping[str, Any]) -> bool:
    """Whether an agent with these settings, those of `cilium-config`, turns its bandwidth manager on. It does not beside IPsec."""
    return _is_true(settings.get("enable-bandwidth-manager")) and not _is_true(settings.get("enable-ipsec"))


def _is_true(value: object) -> bool:
    """As Cilium reads a switch: by Go's `strconv.ParseBool`."""
    return isinstance(value, str) and value.strip() in ("1", "t", "T", "true", "TRUE", "True")


class BandwidthManager:
    """Follows whether it is on. Where that cannot be read it counts as off, and where the API server does not answer as before."""

    def __init__(self, client: KubeClient, options: CiliumOptions) -> None:
        self._client = client
        self._options = options
        self._on = options.bandwidth_manager == "on"
        self._obstacle = ""
        self.services = (BackgroundLoop("reader of Cilium's settings", self._run),) if options.bandwidth_manager == "auto" else ()

    def is_on(self) -> bool:
        """As last known; False before the first `refresh`, unless an administrator says otherwise."""
        return self._on

    async def refresh(self) -> None:
        """Reads it, if it is to be read. An obstacle is logged once and never raised: jobs run all the same."""
        if self._options.bandwidth_manager != "auto":
            return
        namespace, name = self._options.namespace, self._options.config_map
        try:
            body = await self._client.get(CONFIG_MAPS, namespace, name)
        except NotFoundError:
            self._conclude(on=False)
        except ForbiddenError as error:
            self._conclude(
                on=False, obstacle=f"{error}. Allow the operator to get it, or set the chart value cilium.bandwidthManager to on"
            )
        except KubeError as error:
            logger.debug("Cilium's settings were not read: %s", error)
        else:
            self._conclude(on=is_bandwidth_manager_on(body.get("data") or {}))

    def _conclude(self, *, on: bool, obstacle: str = "") -> None:
        if obstacle and obstacle != self._obstacle:
            logger.warning("whether Cilium's bandwidth manager is on cannot be read: %s", obstacle)
        if on != self._on:
            logger.info(
                "Cilium's bandwidth manager is %s by ConfigMap %s/%s",
                "on" if on else "off",
                self._options.namespace,
                self._options.config_map,
            )
        self._on, self._obstacle = on, obstacle

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(READ_SECONDS)
            await self.refresh()
