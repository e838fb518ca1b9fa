"""Everything that runs inside the process besides kopf: client, cache, queue, workers, sweeper and the metrics' server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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
from fairlead.handlers.fairness.agents import AgentPoller
from fairlead.handlers.fairness.loop import FairnessLoop
from fairlead.handlers.fairness.metrics import FairnessMetrics
from fairlead.handlers.fairness.store import ShareStore
from fairlead.handlers.intake import Intake
from fairlead.handlers.kueue import KueueQueues
from fairlead.handlers.listener import OperatorListener
from fairlead.handlers.metrics import OperatorMetrics, health_app, metrics_app
from fairlead.handlers.options import Options
from fairlead.handlers.paths.service import PathService
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.placement.loop import PlacementLoop
from fairlead.handlers.placement.store import PlacementStore
from fairlead.handlers.polling import ReportPoller
from fairlead.handlers.queue import WorkQueue
from fairlead.handlers.sweeper import Sweeper
from fairlead.handlers.worker import BackgroundService, NotHealthyError
from fairlead.kube.apply import Applier
from fairlead.kube.client import KubeClient, load_configuration
from fairlead.kube.errors import KubeError, NotFoundError, UnavailableError
from fairlead.kube.observe.facts import FactReader
from fairlead.kube.observe.gather import Gatherer
from fairlead.kube.observe.reports import ReportReader
from fairlead.kube.observe.turns import PollTurns

FIRST_LIST_PATIENCE_SECONDS = 60.0
FIRST_LIST_RETRY_SECONDS = 2.0

logger = logging.getLogger(__name__)


class StartError(Exception):
    """The operator cannot start; the message says what an administrator has to do."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class _Running:
    """What `start` made: connections, the queues that watch events feed, and the services and resources that `stop` ends."""

    configuration: Configuration
    jobs: WorkQueue[ObjectKey]
    intake: Intake[ObjectKey]
    fairness: FairnessLoop
    paths: PathService
    services: tuple[BackgroundService, ...]
    resources: contextlib.AsyncExitStack


class Runtime:
    """One operator. `start` and `stop` are called on the event loop on which everything runs."""

    def __init__(self, options: Options, *, process_metrics: bool = True) -> None:
        self._options = options
        self.cache = Cache()
        self.metrics = OperatorMetrics(process=process_metrics)
        self.shares = ShareStore(self._wake_fairness)
        self.paths = PathStore(self._wake_paths)
        self.dtns = DtnStore()
        self.placements = PlacementStore(
            jobs=self.cache.jobs.values,
            nodes=self.dtns.transfer_nodes,
            wall=time.time,
            monotonic=time.monotonic,
            open_bps=lambda: self.shares.open_bps,
        )
        self._running: _Running | None = None

    async def start(self) -> None:
        """Connects, lists what exists and starts the workers. Raises StartError or ClientConfigurationError."""
        options, metrics = self._options, self.metrics
        loop = asyncio.get_running_loop()
        configuration = await load_configuration(options.kubeconfig)
        client = KubeClient(configuration, on_write=metrics.count_write)
        ports = range(options.settings.ports.first, options.settings.ports.last + 1)
        queue: WorkQueue[ObjectKey] = WorkQueue(
            loop,
            tenant_of=lambda key: key.namespace,
            most_beside_others=max(1, options.workers // 4),
            on_wait=metrics.wait_seconds.observe,
        )
        turns = PollTurns(loop.time)
        reader = ReportReader(ports, wall=time.time, turns=turns, on_failure=metrics.count_unanswered)
        reports = ReportPoller(reader, loop, options.settings.poll_interval.total_seconds(), queue.add)
        sweeper = Sweeper(
            client,
            self.cache,
            queue,
            metrics,
            monotonic=loop.time,
            wall=time.time,
            on_rules=self._wake_fairness,
            namespaces=options.tenant_namespaces,
        )
        bandwidth_manager = BandwidthManager(client, options.cilium)
        gatherer = Gatherer(client, FactReader(client, loop.time), reports, options.settings, bandwidth_manager.is_on)
        applier = Applier(
            client,
            options.template,
            _now,
            on_job=self.cache.put_job,
            on_pod=self.cache.put_pod,
            on_created=self.cache.put_created_pod,
            is_created=self.cache.is_created,
            instance=socket.gethostname(),
        )
        controller = Controller(
            cache=self.cache,
            queue=queue,
            gatherer=gatherer,
            applier=applier,
            decide=decide,
            now=_now,
            metrics=metrics,
            shares=self.shares,
            paths=self.paths,
            dtns=self.dtns,
            placements=self.placements,
            workers=options.workers,
        )
        paths = PathService(store=self.paths, client=client, metrics=metrics, timers=loop, now=_now)
        dtns = DtnService(
            store=self.dtns,
            client=client,
            metrics=metrics,
            timers=loop,
            now=_now,
            movers=self.cache.movers_by_node,
            paths=self.paths.paths,
        )
        agents = None
        if options.agents is not None:
            interval_seconds = options.settings.poll_interval.total_seconds()
            agents = AgentPoller(client, options.agents, interval_seconds, turns=turns, wall=time.time, on_failure=metrics.count_unanswered)
        fairness = FairnessLoop(
            cache=self.cache,
            shares=self.shares,
            paths=self.paths,
            jobs=queue,
            client=client,
            metrics=FairnessMetrics(metrics.registry),
            timers=loop,
            now=_now,
            agents=agents,
        )
        async with contextlib.AsyncExitStack() as resources:
            resources.push_async_callback(client.close)
            await _first_list(sweeper.sweep)
            await paths.refresh()
            await _first_list(dtns.refresh)
            await bandwidth_manager.refresh()
            for app, place in ((metrics_app(metrics), options.metrics), (health_app(self.check_health), options.health)):
                await resources.enter_async_context(OperatorListener().serve(app, place.host, place.port))
            kept = resources.pop_all()
        metrics.watch(queue, turns, self.cache.jobs.values)
        if len(self.cache.policies):
            # Before any worker runs: nothing may start, and no cap may change, until the first round.
            self.shares.freeze(starts=False)
        services = (
            controller.worker,
            reports,
            fairness.worker,
            paths.worker,
            paths.lister,
            *dtns.services,
            PlacementLoop(self.placements, queue.add).service,
            sweeper.service(options.resync.total_seconds()),
            *([] if agents is None else [agents.service]),
            *bandwidth_manager.services,
            *([KueueQueues(client, self.cache.jobs.values, _now).service] if options.settings.kueue else []),
        )
        intake = Intake(queue, loop)
        intake.expect(self.cache.jobs.keys())
        self._running = _Running(configuration, queue, intake, fairness, paths, services, kept)
        for service in services:
            service.start()
        fairness.wake()
        logger.info("serving TransferJobs with %d workers; %d jobs exist", options.workers, len(self.cache.jobs))

    async def stop(self) -> None:
        """Lets passes under way end, then closes everything."""
        running, self._running = self._running, None
        if running is None:
            return
        async with running.resources:
            await asyncio.gather(*(service.stop() for service in running.services))

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
        if event_type == "DELETED":
            key = ObjectKey(metadata["namespace"], metadata["name"])
            self.cache.drop_job(key, metadata["uid"])
        else:
            key = self.cache.put_job(body)
        self._running.jobs.add(key)
        self._running.intake.seen(key, is_listed=event_type is None)

    def see_pod(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a mover pod."""
        if self._running is None:
            return
        metadata = body["metadata"]
        if event_type == "DELETED":
            job = self.cache.drop_pod(ObjectKey(metadata["namespace"], metadata["name"]), metadata["uid"])
        else:
            job = self.cache.put_pod(body)
        if job is not None:
            self._running.jobs.add(job)

    def see_policy(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a FairnessPolicy."""
        if self._running is None:
            return
        if event_type == "DELETED":
            self.cache.policies.drop(cluster_key(body), body["metadata"]["uid"])
        else:
            self.cache.put_policy(body)
        self._wake_fairness()

    def see_namespace(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Takes in a watch event of a namespace."""
        if self._running is None:
            return
        if event_type == "DELETED":
            self.cache.namespaces.drop(cluster_key(body), body["metadata"]["uid"])
        else:
            self.cache.put_namespace(body)
        self._wake_fairness()

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
        ended = [name for service in running.services for name in service.ended()]
        if ended:
            raise NotHealthyError(f"tasks ended: {', '.join(ended)}")
        figures: dict[str, float] = {
            "queue_depth": running.jobs.depth,
            "queue_oldest_seconds": round(running.jobs.oldest_wait_seconds(), 3),
        }
        for service in running.services:
            figures |= service.check()
        return figures


async def _first_list(look: Callable[[], Awaitable[None]]) -> None:
    """Lists before anything else: they fill what is known and find out whether the operator can work at all."""
    obstacle = "the API server does not answer"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIRST_LIST_PATIENCE_SECONDS):
            while True:
                try:
                    await look()
                    return
                except NotFoundError as error:
                    # Right after an installation the definition may still be on its way into the API server's discovery.
                    obstacle = f"the API server has no {names.PLURAL}.{names.GROUP}: install the chart with crds.install=true ({error})"
                except UnavailableError as error:
                    obstacle = f"the API server does not answer: {error}"
                except KubeError as error:
                    raise StartError(f"jobs and pods cannot be listed: {error}. Check the operator's ClusterRole.") from error
                logger.warning("not started yet: %s", obstacle)
                await asyncio.sleep(FIRST_LIST_RETRY_SECONDS)
    raise StartError(obstacle)
