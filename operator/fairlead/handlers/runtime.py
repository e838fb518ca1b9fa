"""Everything that runs inside the process besides kopf: client, cache, queue, workers, sweeper and the metrics' server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes.aio.client import Configuration

from fairlead.api import names
from fairlead.core.lifecycle import decide
from fairlead.core.paths.model import PathEnds
from fairlead.handlers.cache import Cache, ObjectKey, cluster_key
from fairlead.handlers.cilium import BandwidthManager
from fairlead.handlers.controller import Controller
from fairlead.handlers.dtn.service import DtnService
from fairlead.handlers.dtn.store import DtnStore
from fairlead.handlers.election import REQUEST_SECONDS, Elector
from fairlead.handlers.event_writer import EventWriter
from fairlead.handlers.fairness.agents import AgentPoller
from fairlead.handlers.fairness.loop import FairnessLoop
from fairlead.handlers.fairness.metrics import FairnessMetrics
from fairlead.handlers.fairness.store import ShareStore
from fairlead.handlers.heap import trim_now_and_then
from fairlead.handlers.intake import Intake
from fairlead.handlers.kueue import KueueQueues
from fairlead.handlers.late_requests import LateRequests
from fairlead.handlers.listener import OperatorListener
from fairlead.handlers.loop_lag import LoopLag
from fairlead.handlers.metrics import OperatorMetrics, health_app, metrics_app
from fairlead.handlers.options import Options
from fairlead.handlers.paths.service import PathService
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.placement.loop import PlacementLoop
from fairlead.handlers.placement.store import PlacementStore
from fairlead.handlers.polling import ReportPoller
from fairlead.handlers.progress_budget import ProgressBudget
from fairlead.handlers.queue import Rank, WorkQueue
from fairlead.handlers.sweeper import Sweeper
from fairlead.handlers.timings import Timings
from fairlead.handlers.worker import BackgroundLoop, BackgroundService, NotHealthyError
from fairlead.kube.apply import Applier
from fairlead.kube.client import KubeClient, load_configuration
from fairlead.kube.clock import ServerClock
from fairlead.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError
from fairlead.kube.events import write_event
from fairlead.kube.observe.facts import FactReader
from fairlead.kube.observe.gather import Gatherer
from fairlead.kube.observe.reports import ReportReader
from fairlead.kube.observe.turns import PollTurns

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The operator cannot start; the message says what an administrator has to do."""


def _version_of(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("resourceVersion", ""))


@dataclass(frozen=True)
class _Running:
    """What `start` made: connections, the queues that watch events feed, and the services and resources that `stop` ends."""

    configuration: Configuration
    jobs: WorkQueue[ObjectKey]
    gate: _Gate
    intake: Intake[ObjectKey]
    sweeper: Sweeper
    fairness: FairnessLoop
    paths: PathService
    following: tuple[BackgroundService, ...]
    """What keeps up with the cluster, also while another operator leads."""
    leading: tuple[BackgroundService, ...]
    """What decides and writes."""
    elector: Elector | None
    resources: contextlib.AsyncExitStack


class _Gate:
    """Jobs that watches and lists show are worked on only by the operator that leads."""

    def __init__(self, queue: WorkQueue[ObjectKey]) -> None:
        self._queue = queue
        self.is_open = False

    def add(self, key: ObjectKey) -> None:
        """Asks for work on `key`, if this operator leads."""
        if self.is_open:
            self._queue.add(key)

    def add_after(self, key: ObjectKey, delay_seconds: float) -> None:
        """Asks for it after a while, if this operator leads."""
        if self.is_open:
            self._queue.add_after(key, delay_seconds)


class Runtime:
    """One operator. `start` and `stop` are called on the event loop on which everything runs. `on_lost` is called when another operator has
    taken over: this one must end, as what it remembers is worth nothing any more."""

    def __init__(
        self,
        options: Options,
        *,
        process_metrics: bool = True,
        on_lost: Callable[[str], None] = lambda message: None,
        clock: ServerClock | None = None,
        timings: Timings | None = None,
    ) -> None:
        self._options = options
        self.timings = Timings() if timings is None else timings
        self.clock = ServerClock() if clock is None else clock
        self._on_lost = on_lost
        self.cache = Cache(self._wake_job)
        self.metrics = OperatorMetrics(process=process_metrics)
        self.shares = ShareStore(self._wake_fairness)
        self.paths = PathStore(self._wake_paths)
        self.dtns = DtnStore()
        self._late_requests = LateRequests(self.timings.late_request_seconds)
        self.placements = PlacementStore(
            jobs=self.cache.jobs.values,
            nodes=self.dtns.transfer_nodes,
            wall=self.clock.time,
            monotonic=time.monotonic,
            open_bps=lambda: self.shares.open_bps,
        )
        self._running: _Running | None = None

    async def start(self) -> None:
        """Connects, lists what exists and starts the workers. Raises StartError or ClientConfigurationError."""
        options, metrics = self._options, self.metrics
        loop = asyncio.get_running_loop()
        configuration = await load_configuration(options.kubeconfig)
        elector_client = KubeClient(configuration, timeout_seconds=REQUEST_SECONDS, on_write=metrics.count_write)
        elector = None
        if options.lease is not None:
            elector = Elector(
                elector_client,
                options.lease,
                boot_seconds=self.clock.steady,
                now=self.clock.now,
                on_leading=self._lead,
                on_lost=self._on_lost,
            )
        check_write = (lambda: None) if elector is None else elector.check_write

        def leads() -> bool:
            return elector is None or elector.leads

        client = KubeClient(
            configuration,
            timeout_seconds=self.timings.request_seconds,
            on_write=metrics.count_write,
            check_write=check_write,
            clock=self.clock,
        )
        ports = range(options.settings.ports.first, options.settings.ports.last + 1)
        queue: WorkQueue[ObjectKey] = WorkQueue(
            loop,
            tenant_of=lambda key: key.namespace,
            rank_of=self._rank_of,
            most_beside_others=max(1, options.workers // 4),
            on_wait=metrics.wait_seconds.observe,
        )
        gate = _Gate(queue)
        turns, lag = PollTurns(loop.time), LoopLag(loop.time)
        interval_seconds = options.settings.poll_interval.total_seconds()
        reader = ReportReader(ports, wall=self.clock.time, turns=turns, on_failure=metrics.count_unanswered, was_late=lag.was_late)
        reports = ReportPoller(reader, loop, interval_seconds, queue.add, now=self.clock.now, competes=self.shares.competes)
        events = EventWriter(functools.partial(write_event, client))
        applier = Applier(
            client,
            options.template,
            self.clock.now,
            on_job=self.cache.put_job,
            on_pod=self.cache.put_pod,
            on_created=self.cache.put_created_pod,
            is_created=self.cache.is_created,
            post=events.post,
            instance=socket.gethostname(),
        )
        sweeper = Sweeper(
            client,
            self.cache,
            gate,
            metrics,
            monotonic=loop.time,
            wall=self.clock.time,
            let_go=applier.let_go,
            stop=applier.stop,
            on_rules=self._wake_fairness,
            namespaces=options.tenant_namespaces,
            retry_seconds=self.timings.sweep_retry_seconds,
            after_gap_seconds=self.timings.after_gap_seconds,
            leads=leads,
        )
        bandwidth_manager = BandwidthManager(client, options.cilium)
        gatherer = Gatherer(client, FactReader(client, loop.time), reports, options.settings, bandwidth_manager.is_on)
        controller = Controller(
            cache=self.cache,
            queue=queue,
            gatherer=gatherer,
            applier=applier,
            decide=decide,
            now=self.clock.now,
            metrics=metrics,
            shares=self.shares,
            paths=self.paths,
            dtns=self.dtns,
            placements=self.placements,
            late_requests=self._late_requests,
            progress=ProgressBudget(loop.time),
            on_gone=reports.drop,
            workers=options.workers,
        )
        paths = PathService(
            store=self.paths,
            client=client,
            metrics=metrics,
            timers=loop,
            now=self.clock.now,
            list_seconds=self.timings.paths_list_seconds,
        )
        dtns = DtnService(
            store=self.dtns,
            client=client,
            metrics=metrics,
            timers=loop,
            now=self.clock.now,
            movers=self.cache.movers_by_node,
            paths=self.paths.paths,
        )
        agents = None
        if options.agents is not None:
            agents = AgentPoller(
                client, options.agents, interval_seconds, turns=turns, wall=self.clock.time, on_failure=metrics.count_unanswered
            )
        fairness = FairnessLoop(
            cache=self.cache,
            shares=self.shares,
            paths=self.paths,
            jobs=queue,
            client=client,
            metrics=FairnessMetrics(metrics.registry, leads),
            timers=loop,
            now=self.clock.now,
            agents=agents,
        )
        async with contextlib.AsyncExitStack() as resources:
            resources.push_async_callback(elector_client.close)
            resources.push_async_callback(client.close)
            await _first_list(sweeper.sweep, self.timings)
            await paths.refresh()
            await _first_list(dtns.refresh, self.timings)
            await bandwidth_manager.refresh()
            for app, place in ((metrics_app(metrics), options.metrics), (health_app(self.check_health), options.health)):
                await resources.enter_async_context(OperatorListener().serve(app, place.host, place.port))
            kept = resources.pop_all()
        metrics.watch(queue, turns, lambda: reports.due, self.cache.jobs.values, leads)
        following = (
            paths.lister,
            *dtns.followers,
            sweeper.service(options.resync.total_seconds()),
            *bandwidth_manager.services,
        )
        leading = (
            controller.worker,
            BackgroundLoop("loop lag", lag.watch),
            BackgroundLoop("heap", trim_now_and_then),
            events,
            reports,
            fairness.worker,
            paths.worker,
            dtns.worker,
            PlacementLoop(self.placements, queue.add).service,
            *([] if agents is None else [agents.service]),
            *([KueueQueues(client, self.cache.jobs.values, self.clock.now).service] if options.settings.kueue else []),
        )
        intake = Intake(queue, loop)
        intake.expect(self.cache.jobs.keys())
        self._running = _Running(configuration, queue, gate, intake, sweeper, fairness, paths, following, leading, elector, kept)
        for service in following:
            service.start()
        if elector is not None:
            elector.start()
        else:
            await self._lead()

    async def _lead(self) -> None:
        """Begins to decide and to write."""
        running = self._running
        if running is None:
            return
        if len(self.cache.policies):
            # Before any worker runs: nothing may start, and no cap may change, until the first round.
            self.shares.freeze(starts=False)
        self._late_requests.begin(self.clock.now())
        running.gate.is_open = True
        for key in (*self.cache.jobs.keys(), *self.cache.jobs_of_strays()):
            running.gate.add(key)
        running.fairness.begin()
        for service in running.leading:
            service.start()
        running.fairness.wake()
        logger.info("serving TransferJobs with %d workers; %d jobs exist", self._options.workers, len(self.cache.jobs))

    async def stop(self) -> None:
        """Lets passes under way end, then closes everything."""
        running, self._running = self._running, None
        if running is None:
            return
        async with running.resources:
            ends = await asyncio.gather(*(service.stop() for service in (*running.leading, *running.following)), return_exceptions=True)
            for error in ends:
                if isinstance(error, Exception):
                    logger.error("a service did not stop: %s", error, exc_info=error)
            if running.elector is not None:
                # Last, as it gives the Lease up.
                await running.elector.stop()

    async def bearer(self) -> str | None:
        """The present token of the connection, read anew when it is due; None with client certificates."""
        if self._running is None:
            return None
        header: str | None = await self._running.configuration.get_api_key_with_prefix("BearerToken")
        return header.partition(" ")[2] if header else None

    @property
    def configuration(self) -> Configuration:
        """The connection's settings. Only while started."""
        if self._running is None:
            raise RuntimeError("the runtime is not started")
        return self._running.configuration

    def see_job(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a TransferJob."""
        if self._running is None:
            return
        metadata = body["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        try:
            if event_type == "DELETED":
                self.cache.drop_job(key, metadata["uid"], _version_of(body))
            else:
                self.cache.put_job(body)
        except Exception:
            # One that cannot be taken in is looked at all the same, and says so in its status.
            self._wake_job(key)
            raise
        finally:
            self._running.intake.seen(key, is_listed=event_type is None)

    def see_pod(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a mover pod."""
        if self._running is None:
            return
        metadata = body["metadata"]
        if event_type == "DELETED":
            self.cache.drop_pod(ObjectKey(metadata["namespace"], metadata["name"]), metadata["uid"], _version_of(body))
        else:
            self.cache.put_pod(body)

    def see_policy(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a FairnessPolicy."""
        if self._running is None:
            return
        if event_type == "DELETED":
            self.cache.policies.drop(cluster_key(body), body["metadata"]["uid"], _version_of(body))
        else:
            self.cache.put_policy(body)
        self._wake_fairness()

    def see_namespace(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a namespace."""
        if self._running is None:
            return
        if event_type == "DELETED":
            self.cache.namespaces.drop(cluster_key(body), body["metadata"]["uid"], _version_of(body))
        else:
            self.cache.put_namespace(body)
        self._wake_fairness()

    def see_gap(self) -> None:
        """Takes in that a watch began with a list, which shows nothing of what was deleted before."""
        if self._running is not None:
            self._running.sweeper.note_gap()

    def _wake_job(self, key: ObjectKey) -> None:
        """Something is new of a job."""
        if self._running is not None:
            self._running.gate.add(key)

    def _rank_of(self, key: ObjectKey) -> Rank:
        """Whoever has just created a job waits to see it taken up, and one that comes up has little time for that; others are looked at
        in any case."""
        job = self.cache.jobs.get(key)
        if job is None:
            return Rank.USUAL
        return Rank.NEW if job.is_new else Rank.COMING_UP if job.is_coming_up else Rank.USUAL

    def _wake_fairness(self) -> None:
        if self._running is not None:
            self._running.fairness.wake()

    def _wake_paths(self, ends: PathEnds) -> None:
        if self._running is not None:
            self._running.paths.wake(ends)

    def check_health(self) -> dict[str, float]:
        """Figures for the probe's answer. Raises NotHealthyError if only a restart can help."""
        running = self._running
        if running is None:
            raise NotHealthyError("not started")
        services = (*running.following, *running.leading, *([] if running.elector is None else [running.elector]))
        ended = [name for service in services for name in service.ended()]
        if ended:
            raise NotHealthyError(f"tasks ended: {', '.join(ended)}")
        figures: dict[str, float] = {
            "queue_depth": running.jobs.depth,
            "queue_oldest_seconds": round(running.jobs.oldest_wait_seconds(), 3),
        }
        for service in services:
            figures |= service.check()
        return figures


async def _first_list(look: Callable[[], Awaitable[None]], timings: Timings) -> None:
    """Lists before anything else: they fill what is known and find out whether the operator can work at all."""
    obstacle = "the API server does not answer"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timings.first_list_patience_seconds):
            while True:
                try:
                    await look()
                    return
                except NotFoundError as error:
                    # Right after an installation the definition may still be on its way into the API server's discovery.
                    obstacle = f"the API server has no {names.PLURAL}.{names.GROUP}: install the chart with crds.install=true ({error})"
                except (ForbiddenError, InvalidError) as error:
                    obstacle = f"jobs and pods cannot be listed: {error}. Check the operator's ClusterRole."
                    # Right after an installation a right may still be on its way to who checks it.
                    if isinstance(error, InvalidError):
                        raise StartError(obstacle) from error
                except KubeError as error:
                    # Also a token that is refused, a list whose pages have expired, and a server that asks for patience.
                    obstacle = f"the API server does not answer: {error}"
                logger.warning("not started yet: %s", obstacle)
                await asyncio.sleep(timings.first_list_retry_seconds)
    raise StartError(obstacle)
