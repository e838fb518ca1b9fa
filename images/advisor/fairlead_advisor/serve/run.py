"""Starts and stops the sidecar."""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairlead_advisor.decide.model import History, TransportLimits
from fairlead_advisor.errors import AdvisorError
from fairlead_advisor.files import ensure_writable
from fairlead_advisor.probe.monitor import Monitor
from fairlead_advisor.probe.schedule import Timetable
from fairlead_advisor.probe.socket import Clocks, EchoEndpoint, Enough, ProbeResult, probe
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.record.published import Published, termination_message
from fairlead_advisor.replay.recorder import EventLog, RecordedMover, recorded
from fairlead_advisor.serve.app import build_app, serving
from fairlead_advisor.serve.classifier import MODEL_RATE_HZ, load_classifier
from fairlead_advisor.steer.effects import MoverClient, SidecarEffects
from fairlead_advisor.steer.known import KnownPath
from fairlead_advisor.steer.mover import Mover, Peer
from fairlead_advisor.steer.neighbours import loopback_neighbours
from fairlead_advisor.steer.sidecar import Files, Sidecar

DEFAULT_RATE_HZ = 20.0
"""Of the probe before the data, without a model."""
WATCH_RATE_HZ = 10.0
"""Enough to detect a standing queue, for half of what the probe before the data costs in processor time."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """The sidecar's command line. `model` None: the newest installed; `rate_hz` None: what the model was trained on, or the default."""

    control_socket: Path
    http_address: str
    http_port: int
    trace_path: Path
    record_path: Path
    probe_seconds: float
    limits: TransportLimits
    history: History
    model: Path | None = None
    rate_hz: float | None = None
    known: KnownPath | None = None
    termination_log: Path | None = None
    event_log: Path | None = None


async def run_sidecar(settings: SidecarSettings) -> None:
    """Serves and advises until SIGTERM or SIGINT. Raises UsageError if it cannot start with these settings."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ensure_writable(settings.trace_path)
    ensure_writable(settings.record_path)

    def endpoint(peer: Peer) -> EchoEndpoint:
        return EchoEndpoint(peer.address, peer.echo_port, source_address=peer.source_address)

    async def present(peer: Peer) -> EchoEndpoint:
        """Where the peer is by now: the session may have gone on over another path. Where it was if the mover does not say."""
        async with Mover(settings.control_socket) as asked:
            try:
                return endpoint(await asked.peer())
            except AdvisorError:
                return endpoint(peer)

    loaded = load_classifier(settings.model)
    if loaded.classifier is None:
        _log.warning("the background is not classified: %s", loaded.why_not)
    rate_hz = settings.rate_hz or (MODEL_RATE_HZ if loaded.classifier else DEFAULT_RATE_HZ)

    async def probe_peer(peer: Peer, seconds: float, enough: Enough | None) -> ProbeResult:
        return await probe(await present(peer), peer.echo_key, Timetable(rate_hz, seconds), Clocks(), enough)

    def monitor(peer: Peer) -> Monitor:
        return Monitor(endpoint(peer), peer.echo_key, WATCH_RATE_HZ, Clocks(), follow=lambda: present(peer))

    now = lambda: datetime.now(UTC)  # noqa: E731
    effects = SidecarEffects(
        probe_peer,
        monitor,
        now,
        classifier=loaded.classifier,
        no_classifier=loaded.why_not,
        neighbours=loopback_neighbours,
    )
    metrics, journal = AdvisorMetrics(), Journal(settings.record_path, effects.now)
    board = DecisionBoard(metrics, journal, effects.now)
    async with AsyncExitStack() as stack:
        mover: MoverClient = await stack.enter_async_context(Mover(settings.control_socket))
        if settings.event_log is not None:
            log = stack.enter_context(EventLog(settings.event_log, effects))
            log.start(settings.limits, settings.history, settings.known, settings.probe_seconds, effects, record=journal.resume())
            mover, effects = RecordedMover(mover, log), recorded(effects, log)
        files = Files(settings.trace_path, journal)
        sidecar = Sidecar(
            mover,
            effects,
            board,
            settings.limits,
            history=settings.history,
            files=files,
            probe_s=settings.probe_seconds,
            known=settings.known,
        )
        async with serving(build_app(metrics, lambda: board.published), settings.http_address, settings.http_port):
            served = (settings.http_address, settings.http_port)
            _log.info("serving on %s:%d, waiting for the mover's peer, which is probed at %g Hz", *served, rate_hz)
            try:
                await _until_stopped(sidecar, stop)
            finally:
                _leave_word(settings.termination_log, board.published)
    _log.info("stopped")


def _leave_word(path: Path | None, published: Published | None) -> None:
    """Leaves the decision in the container's termination message: a small transfer ends before anybody has asked for it."""
    if path is None or published is None:
        return
    try:
        # The kubelet mounts this one file, so it is written in place: nothing can be renamed over it.
        path.write_text(termination_message(published))
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
