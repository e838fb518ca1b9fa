"""Starts and stops the sidecar."""

import asyncio
import json
import logging
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairlead_advisor.decide.model import Limits
from fairlead_advisor.files import ensure_writable
from fairlead_advisor.probe.schedule import Timetable
from fairlead_advisor.probe.socket import Clocks, Endpoint, ProbeResult, probe
from fairlead_advisor.serve.app import build_app, serving
from fairlead_advisor.serve.metrics import Metrics
from fairlead_advisor.serve.mover import Mover, Peer
from fairlead_advisor.serve.record import Published, as_json
from fairlead_advisor.serve.sidecar import Effects, Sidecar

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """The sidecar's command line."""

    control_socket: Path
    http_address: str
    http_port: int
    trace_path: Path
    timetable: Timetable
    limits: Limits
    termination_log: Path | None = None


async def run_sidecar(settings: Settings) -> None:
    """Serves and advises until SIGTERM or SIGINT. Raises UsageError if it cannot start as it was told."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ensure_writable(settings.trace_path)

    async def probe_peer(peer: Peer) -> ProbeResult:
        endpoint = Endpoint(peer.address, peer.echo_port, source_address=peer.source_address)
        return await probe(endpoint, peer.echo_key, settings.timetable, Clocks())

    metrics = Metrics()
    async with Mover(settings.control_socket) as mover:
        sidecar = Sidecar(mover, Effects(probe_peer, lambda: datetime.now(UTC)), metrics, settings.limits, settings.trace_path)
        async with serving(build_app(metrics, lambda: sidecar.published), settings.http_address, settings.http_port):
            _log.info("serving on %s:%d, waiting for the mover's peer", settings.http_address, settings.http_port)
            try:
                await _until_stopped(sidecar, stop)
            finally:
                _leave_word(settings.termination_log, sidecar.published)
    _log.info("stopped")


def _leave_word(path: Path | None, published: Published | None) -> None:
    """Leaves the decision in the container's termination message: a small transfer ends before anybody has asked for it."""
    if path is None or published is None:
        return
    try:
        # The kubelet mounts this one file, so it is written in place: nothing can be renamed over it.
        path.write_text(json.dumps(as_json(published)))
    except OSError as error:
        _log.warning("%s: the decision could not be left there: %s", path, error.strerror)


async def _until_stopped(sidecar: Sidecar, stop: asyncio.Event) -> None:
    advising = asyncio.create_task(sidecar.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        # The advice never ends by itself: if it is done first it has failed, and the failure must not stay silent.
        await asyncio.wait((advising, stopping), return_when=asyncio.FIRST_COMPLETED)
        if advising.done():
            advising.result()
    finally:
        for task in (advising, stopping):
            task.cancel()
        await asyncio.gather(advising, stopping, return_exceptions=True)
