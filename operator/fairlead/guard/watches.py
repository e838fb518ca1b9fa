"""A client whose watches do not stay open on a connection that has died."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import aiohttp
from kubernetes.aio.client import Configuration

from fairlead.kube.client import Change, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import UnavailableError

WATCH_SECONDS = 300
"""A watch ends after so long and everything is listed again, which also finds what a watch may have missed."""
SILENCE_SECONDS = 90.0
"""API servers tell each watch about once a minute how far it has come. Not where nothing at all changes: then a new watch costs little."""
_BOOKMARK = "BOOKMARK"


class WatchClient(KubeClient):
    """A `KubeClient` whose watches end where nothing comes for `SILENCE_SECONDS`: asking anew shows whether the API server is away.

    It has as many connections as it needs: each watch keeps one.
    """

    def __init__(self, configuration: Configuration) -> None:
        configuration.connection_pool_maxsize = 0
        super().__init__(configuration)

    async def changes(
        self, resource: ResourceKind, since: str, seconds: int, *, namespace: str | None = None, field_selector: str | None = None
    ) -> AsyncIterator[Change]:
        """What becomes of the collection after version `since`, for `seconds` at most. Raises ConflictError when that is too long ago."""
        try:
            async for change in super().changes(resource, since, seconds, namespace=namespace, field_selector=field_selector):
                if change.kind != _BOOKMARK:
                    yield change
        except UnavailableError as error:
            if not isinstance(error.__cause__, aiohttp.SocketTimeoutError):
                raise

    async def _send(
        self,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        if query is not None and "watch" in query:
            query = {**query, "allowWatchBookmarks": "true"}
            limits = aiohttp.ClientTimeout(total=limits.total, sock_connect=limits.sock_connect, sock_read=SILENCE_SECONDS)
        return await super()._send(method, path, limits=limits, query=query, body=body, content_type=content_type)
