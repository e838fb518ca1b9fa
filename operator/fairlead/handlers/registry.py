"""kopf's part: which kinds it watches, and what takes in what the watches see. Nothing here writes to the cluster."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from fairlead.api import names
from fairlead.handlers.runtime import Runtime
from fairlead.handlers.timings import Timings
from fairlead.handlers.watching import EndlessBackoffs, Take
from fairlead.kube.client import PAGE_SIZE, connection_facts
from fairlead.kube.observe.pods import MOVER_SELECTOR

_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


class _NoEssence(kopf.DiffBaseStorage):
    """What kopf compares objects by: nothing, as no handler asks for changes. Its default copies every object of every event."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """Where kopf keeps the progress of handlers: nowhere, as low-level handlers have none."""

    def fetch(self, *, key: object, body: kopf.Body) -> None:
        return None

    def store(self, *, key: object, record: object, body: kopf.Body, patch: kopf.Patch) -> None:
        pass

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        pass

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        pass

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def operator_settings(timings: Timings) -> kopf.OperatorSettings:
    """kopf's settings for an operator that uses only its watches."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.posting.enabled = False
    # Low-level handlers never set it. It must not be our own: kopf removes the finalizer it is given from every object where it needs none.
    settings.persistence.finalizer = f"{names.GROUP}/event-source"
    settings.persistence.progress_storage = _NoProgress()
    settings.persistence.diffbase_storage = _NoEssence()
    settings.networking.request_timeout = timings.watch_request_seconds
    settings.networking.error_backoffs = EndlessBackoffs(timings.watch_backoffs_seconds)
    settings.watching.server_timeout = timings.watch_seconds
    settings.watching.client_timeout = timings.watch_seconds + timings.watch_grace_seconds
    settings.watching.chunk_size = PAGE_SIZE
    settings.watching.label_selectors["v1", "pods"] = MOVER_SELECTOR
    settings.queueing.idle_timeout = 1.0
    settings.execution.max_workers = 1
    return settings


def build_registry(runtime: Runtime) -> kopf.OperatorRegistry:
    """What starts and stops `runtime`, and the kinds to watch. By low-level handlers: kopf then adds neither finalizers nor annotations."""
    registry = kopf.OperatorRegistry()

    async def start(**_: Any) -> None:
        try:
            await runtime.start()
        except Exception as error:
            # kopf would try anything else again after a minute, without a word.
            raise kopf.PermanentError(str(error)) from error

    async def stop(**_: Any) -> None:
        await runtime.stop()

    logins = itertools.count()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        # kopf asks again when the API server refuses who asks. That may pass, and kopf must not take it for the end: it does so when it
        # is given what it had before, so each connection has an end of its own that is never reached.
        if (number := next(logins)) > 0:
            await asyncio.sleep(runtime.timings.login_pause_seconds)
        facts = connection_facts(runtime.configuration)
        return kopf.ConnectionInfo(
            server=facts.server,
            ca_path=facts.ca_path,
            insecure=facts.insecure,
            certificate_path=facts.certificate_path,
            private_key_path=facts.private_key_path,
            token=await runtime.bearer(),
            trust_env=True,
            expiration=_NEVER - timedelta(seconds=number),
        )

    async def watched(**_: Any) -> None:
        """kopf watches the kinds that have a handler. `takers_of` get their events before it."""

    kopf.on.startup(registry=registry)(start)
    kopf.on.cleanup(registry=registry)(stop)
    kopf.on.login(registry=registry)(login)
    kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)(watched)
    kopf.on.event(names.GROUP, names.VERSION, names.POLICY_PLURAL, registry=registry)(watched)
    kopf.on.event("v1", "namespaces", registry=registry)(watched)
    kopf.on.event("v1", "pods", labels={names.LABEL_JOB_UID: kopf.PRESENT}, registry=registry)(watched)
    return registry


def takers_of(runtime: Runtime) -> dict[str, Take]:
    """What takes in the events of each kind, by its plural."""
    return {
        names.PLURAL: runtime.see_job,
        names.POLICY_PLURAL: runtime.see_policy,
        "namespaces": runtime.see_namespace,
        "pods": runtime.see_pod,
    }
