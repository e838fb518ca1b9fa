"""kopf's part: watches that put what they see into the cache and its key into the queue. Nothing here writes to the cluster."""

from __future__ import annotations

from typing import Any

import kopf

from fairlead.api import names
from fairlead.handlers.runtime import Runtime, StartError
from fairlead.kube.client import ClientConfigurationError, connection_facts
from fairlead.kube.observe.pods import MOVER_SELECTOR

SERVER_TIMEOUT_SECONDS = 300
CLIENT_TIMEOUT_SECONDS = 310


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


def operator_settings() -> kopf.OperatorSettings:
    """kopf's settings for an operator that uses only its watches."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.posting.enabled = False
    # Low-level handlers never set it. It must not be our own: kopf removes the finalizer it is given from every object where it needs none.
    settings.persistence.finalizer = f"{names.GROUP}/event-source"
    settings.persistence.progress_storage = _NoProgress()
    settings.persistence.diffbase_storage = _NoEssence()
    settings.networking.request_timeout = 60
    settings.watching.server_timeout = SERVER_TIMEOUT_SECONDS
    settings.watching.client_timeout = CLIENT_TIMEOUT_SECONDS
    settings.watching.chunk_size = 500
    settings.watching.label_selectors["v1", "pods"] = MOVER_SELECTOR
    settings.queueing.idle_timeout = 1.0
    settings.execution.max_workers = 1
    return settings


def build_registry(runtime: Runtime) -> kopf.OperatorRegistry:
    """The handlers that feed `runtime`. Only low-level ones: kopf then adds neither finalizers nor annotations."""
    registry = kopf.OperatorRegistry()

    async def start(**_: Any) -> None:
        try:
            await runtime.start()
        except (StartError, ClientConfigurationError, OSError) as error:
            raise kopf.PermanentError(str(error)) from error

    async def stop(**_: Any) -> None:
        await runtime.stop()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        facts = connection_facts(runtime.configuration)
        return kopf.ConnectionInfo(
            server=facts.server,
            ca_path=facts.ca_path,
            insecure=facts.insecure,
            certificate_path=facts.certificate_path,
            private_key_path=facts.private_key_path,
            token=await runtime.bearer(),
            trust_env=True,
        )

    async def see_job(event: kopf.RawEvent, **_: Any) -> None:
        runtime.see_job(event["type"], event["object"])

    async def see_pod(event: kopf.RawEvent, **_: Any) -> None:
        runtime.see_pod(event["type"], event["object"])

    async def see_policy(event: kopf.RawEvent, **_: Any) -> None:
        runtime.see_policy(event["type"], event["object"])

    async def see_namespace(event: kopf.RawEvent, **_: Any) -> None:
        runtime.see_namespace(event["type"], event["object"])

    kopf.on.startup(registry=registry)(start)
    kopf.on.cleanup(registry=registry)(stop)
    kopf.on.login(registry=registry)(login)
    kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)(see_job)
    kopf.on.event(names.GROUP, names.VERSION, names.POLICY_PLURAL, registry=registry)(see_policy)
    kopf.on.event("v1", "namespaces", registry=registry)(see_namespace)
    kopf.on.event("v1", "pods", labels={names.LABEL_JOB_UID: kopf.PRESENT}, registry=registry)(see_pod)
    return registry
