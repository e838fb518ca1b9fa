"""The sidecar's own HTTP: health, metrics and the decision."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from fairlead_advisor.errors import UsageError
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.record.published import Published, as_json
from fairlead_advisor.serve.listener import SidecarListener

# A scrape that is under way may end; an idle kept connection must not hold up the end of the process.
_SHUTDOWN_S = 0.5


def build_app(metrics: AdvisorMetrics, published: Callable[[], Published | None]) -> web.Application:
    """The application; `published` gives the current decision, None before the first."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def exposition(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def decision(_request: web.Request) -> web.Response:
        standing = published()
        if standing is None:
            return web.json_response({"reason": "Undecided", "message": "the path is still being measured: ask again"}, status=503)
        return web.json_response(as_json(standing))

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/metrics", exposition)
    app.router.add_get("/v1/decision", decision)
    return app


@asynccontextmanager
async def serving(app: web.Application, address: str, port: int) -> AsyncIterator[None]:
    """Serves `app` while the context lasts; UsageError if the address cannot be had."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(SidecarListener().serve(app, address, port, shutdown_timeout=_SHUTDOWN_S))
        except OSError as error:
            raise UsageError(f"--http {address}:{port}: cannot listen: {error.strerror or error}: choose another address or port") from None
        yield
