"""Carries out a plan, step by step, so that a crash between any two steps leaves something the next pass can go on from."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from fairlead.api import names
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.status import PodRecord
from fairlead.core.plan import AnnotatePod, CreateCredentials, CreatePod, DeletePod, EmitEvent, Plan, ReleasePod
from fairlead.core.pod_record import with_created
from fairlead.kube.client import JOBS, PODS, SECRETS, KubeClient, KubeObject
from fairlead.kube.errors import AlreadyExistsError, ConflictError, ForbiddenError, InvalidError, NotFoundError, RefusedError
from fairlead.kube.events import build_event, write_event
from fairlead.kube.objects.build import build_pod, build_secret
from fairlead.kube.objects.credentials import CLOCK_SKEW, issue
from fairlead.kube.objects.template import MoverTemplate
from fairlead.kube.observe.pods import OwnedPod

logger = logging.getLogger(__name__)


class Applier:
    """Writes to the API server.

    `on_job` and `on_pod` get every new version that an answer shows, `on_created` the pods that were created. `is_created` says of a pod,
    by namespace, its job's UID and its own, whether the operator created it; `hex_digits` makes 8 of them at random. `post` takes an event
    that somebody else will write soon, or returns False.
    """

    def __init__(
        self,
        client: KubeClient,
        template: MoverTemplate,
        now: Callable[[], datetime],
        *,
        on_job: Callable[[KubeObject], object] = lambda body: None,
        on_pod: Callable[[KubeObject], object] = lambda body: None,
        on_created: Callable[[KubeObject], object] = lambda body: None,
        is_created: Callable[[str, str, str], bool] = lambda namespace, job_uid, uid: False,
        hex_digits: Callable[[], str] = lambda: secrets.token_hex(4),
        post: Callable[[KubeObject], bool] = lambda event: False,
        instance: str = names.MANAGER,
    ) -> None:
        self._client = client
        self._template = template
        self._now = now
        self._on_job = on_job
        self._on_pod = on_pod
        self._on_created = on_created
        self._is_created = is_created
        self._hex_digits = hex_digits
        self._post = post
        self._instance = instance
        self._kept_credentials: dict[str, set[int]] = defaultdict(set)
        """Attempts whose Secret is to go and was not removed, by the job's UID: the status may say by now that they have ended."""

    async def apply(self, body: KubeObject, job: TransferJob, plan: Plan) -> None:
        """Carries out `plan` for the job that `body` shows. Raises KubeError at the first step that fails; later steps are left undone. A
        change to a pod or a Secret that is refused is raised at the end, of a pod also before anything is created."""
        current = body
        if plan.finalizer is True:
            current = await self._set_finalizer(current, held=True)
        for credentials in plan.credentials:
            await self._create_credentials(job, credentials)
        refused = _Refused()
        await self._delete_pods(job.metadata.namespace, plan, refused)
        await self._delete_ended_credentials(job, plan, refused)
        try:
            created = [await self._create_pod(job, creation) for creation in plan.creates]
        except RefusedError:
            # Nothing will use them soon, and the next pass makes fresh ones.
            for credentials in plan.credentials:
                await self._delete_credentials(job, credentials.attempt)
            raise
        for change in plan.annotations:
            with refused:
                await self._annotate_pod(job.metadata.namespace, change)
        if plan.status is not None or created:
            status = plan.status if plan.status is not None else job.status
            current = await self._write_status(current, with_created(status, map(_record, created)))
        # A pod that could run before its UID is recorded could not be told from a forged one after a crash.
        for release in (*plan.releases, *map(_release, created)):
            await self._release_pod(job.metadata.namespace, release)
        await self._tell(job, plan.events, at_once=plan.finalizer is False)
        # The finalizer goes after all else: the object goes with it, and nobody would tell of it any more.
        if plan.finalizer is False:
            current = await self._set_finalizer(current, held=False)
        if plan.delete_job:
            await self._delete_job(current)
        for proof in plan.proofs:
            with refused:
                await self._delete_pod(job.metadata.namespace, proof)
        refused.check()

    async def let_go(self, body: KubeObject) -> None:
        """Removes the finalizer of a job that is not served, in the version that `body` shows, and does nothing else for it. Raises
        KubeError."""
        metadata = body["metadata"]
        patch = _finalizer_patch(metadata, held=False)
        # What is not served is not taken in either.
        await self._client.merge_patch(JOBS, metadata["namespace"], metadata["name"], patch)

    async def _set_finalizer(self, body: KubeObject, *, held: bool) -> KubeObject:
        metadata = body["metadata"]
        if (names.FINALIZER in (metadata.get("finalizers") or [])) is held:
            return body
        patch = _finalizer_patch(metadata, held=held)
        try:
            return self._seen(await self._client.merge_patch(JOBS, metadata["namespace"], metadata["name"], patch))
        except NotFoundError:
            if held:
                raise
            return body

    async def _create_credentials(self, job: TransferJob, action: CreateCredentials) -> None:
        now = self._now()
        pair = issue(job.metadata.uid, action.attempt, now, credentials_lifetime(job, now))
        try:
            await self._client.create(SECRETS, job.metadata.namespace, build_secret(job, action.attempt, pair))
        except (ForbiddenError, InvalidError) as error:
            raise RefusedError(str(error), status=error.status) from error
        except AlreadyExistsError:
            # Its name holds the job's UID and the attempt, and it is immutable: an earlier pass made it and lost the answer.
            logger.debug("credentials of attempt %d exist", action.attempt)

    async def _delete_credentials(self, job: TransferJob, attempt: int) -> None:
        name = names.credentials_name(job.metadata.name, job.metadata.uid, attempt)
        try:
            await self._client.delete(SECRETS, job.metadata.namespace, name)
        except NotFoundError:
            logger.debug("credentials %s/%s were gone already", job.metadata.namespace, name)

    async def _delete_ended_credentials(self, job: TransferJob, plan: Plan, refused: _Refused) -> None:
        kept = self._kept_credentials[job.metadata.uid]
        kept.update(ended.attempt for ended in plan.ended_credentials)
        for attempt in sorted(kept):
            with refused:
                try:
                    await self._delete_credentials(job, attempt)
                except ForbiddenError as error:
                    if not job.deleting:
                        raise
                    # With the job goes what it owns. What lost its owner (`--cascade=orphan`) nobody may delete, however often it is tried.
                    logger.warning("credentials of attempt %d of %s stay: %s", attempt, job.metadata.name, error)
                kept.discard(attempt)
        if not kept or (plan.finalizer is False and job.deleting):
            del self._kept_credentials[job.metadata.uid]

    async def _delete_pods(self, namespace: str, plan: Plan, refused: _Refused) -> None:
        for removal in plan.deletes:
            with refused:
                await self._delete_pod(namespace, removal)
        if plan.creates:
            # Beside a pod that could not be stopped nothing may start.
            refused.check()

    async def _delete_pod(self, namespace: str, action: DeletePod) -> None:
        try:
            await self._client.delete(
                PODS,
                namespace,
                action.name,
                uid=action.uid,
                resource_version=action.resource_version,
            )
        except NotFoundError:
            logger.debug("pod %s/%s was gone already", namespace, action.name)

    async def stop(self, stray: OwnedPod) -> None:
        """Removes a pod whose job is gone, in whatever version, as others write to it too. One that may not be deleted is logged. Raises
        other kinds of KubeError."""
        where = f"{stray.namespace}/{stray.pod.name}"
        try:
            await self._client.delete(PODS, stray.namespace, stray.pod.name, uid=stray.pod.uid)
            logger.info("pod %s is removed: its job is gone, and it has no owner that would take it along", where)
        except (NotFoundError, ConflictError):
            logger.debug("pod %s was gone already", where)
        except ForbiddenError as error:
            logger.warning("pod %s, whose job is gone, cannot be removed: %s", where, error)

    async def _create_pod(self, job: TransferJob, action: CreatePod) -> KubeObject:
        pod = build_pod(job, action, self._template)
        try:
            try:
                created = await self._client.create(PODS, job.metadata.namespace, pod)
            except AlreadyExistsError:
                created = await self._create_beside(job, action, pod)
        except (ForbiddenError, InvalidError) as error:
            raise RefusedError(str(error), status=error.status) from error
        self._on_created(created)
        return created

    async def _create_beside(self, job: TransferJob, action: CreatePod, pod: KubeObject) -> KubeObject:
        """The pod although its name is taken: by itself, by one whose creation nobody recorded, or by somebody else's."""
        namespace, name = job.metadata.namespace, pod["metadata"]["name"]
        present = await self._client.get(PODS, namespace, name)
        if self._is_created(namespace, job.metadata.uid, present["metadata"]["uid"]):
            return present
        if _never_ran(present, job.metadata.uid):
            # The answer to an earlier creation was lost, or a forgery of that: neither is worth more than a new pod.
            with contextlib.suppress(NotFoundError, ConflictError, ForbiddenError):
                await self._client.delete(PODS, namespace, name, uid=present["metadata"]["uid"], grace_seconds=0)
            with contextlib.suppress(AlreadyExistsError):
                return await self._client.create(PODS, namespace, pod)
        other_name = names.other_child_name(job.metadata.name, self._hex_digits(), action.role.value, action.attempt)
        logger.warning("pod %s/%s was not created by this operator: the mover is created as %s", namespace, name, other_name)
        return await self._client.create(PODS, namespace, {**pod, "metadata": {**pod["metadata"], "name": other_name}})

    async def _release_pod(self, namespace: str, action: ReleasePod) -> None:
        gates = [{"name": gate} for gate in action.gates]
        patch = {"metadata": {"uid": action.uid}, "spec": {"schedulingGates": gates or None}}
        try:
            self._on_pod(await self._client.merge_patch(PODS, namespace, action.name, patch))
        except NotFoundError:
            logger.debug("pod %s/%s is gone before it could be placed", namespace, action.name)

    async def _annotate_pod(self, namespace: str, action: AnnotatePod) -> None:
        patch = {"metadata": {"uid": action.uid, "annotations": dict(action.annotations)}}
        try:
            self._on_pod(await self._client.merge_patch(PODS, namespace, action.name, patch))
        except NotFoundError:
            logger.debug("pod %s/%s is gone, its annotations with it", namespace, action.name)

    async def _write_status(self, body: KubeObject, status: TransferJobStatus) -> KubeObject:
        difference = merge_difference(body.get("status") or {}, status.to_object())
        return await self._patch_status(body, difference) if difference else body

    async def write_conditions(self, body: KubeObject, conditions: list[KubeObject]) -> None:
        """Replaces the conditions of a job and leaves the rest of its status alone. Raises KubeError."""
        await self._patch_status(body, {"conditions": conditions})

    async def _patch_status(self, body: KubeObject, change: Mapping[str, Any]) -> KubeObject:
        metadata = body["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": change}
        return self._seen(await self._client.merge_patch(JOBS, metadata["namespace"], metadata["name"], patch, subresource="status"))

    async def _tell(self, job: TransferJob, events: Iterable[EmitEvent], *, at_once: bool) -> None:
        now = self._now()
        for number, event in enumerate(events):
            # Their moments are part of their names.
            body = build_event(job, event, now + timedelta(microseconds=number), self._instance)
            if at_once or not self._post(body):
                await write_event(self._client, body)

    async def _delete_job(self, body: KubeObject) -> None:
        metadata = body["metadata"]
        try:
            await self._client.delete(
                JOBS, metadata["namespace"], metadata["name"], uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
        except NotFoundError:
            logger.debug("job %s/%s was gone already", metadata["namespace"], metadata["name"])

    def _seen(self, body: KubeObject) -> KubeObject:
        self._on_job(body)
        return body


class _Refused(contextlib.AbstractContextManager["_Refused"]):
    """Holds back refusals of changes to pods and Secrets, as of a pod that lost its labels or a Secret that somebody's finalizer holds: the
    status tells what is wrong, and must get through."""

    def __init__(self) -> None:
        self._first: ForbiddenError | None = None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, ForbiddenError):
            return False
        self._first = self._first or error
        return True

    def check(self) -> None:
        """Raises the first one, if there was any."""
        if self._first is not None:
            raise self._first


def credentials_lifetime(job: TransferJob, now: datetime) -> timedelta | None:
    """How long an attempt that begins at `now` may last, with a margin for clocks; None if the job has no deadline."""
    deadline_seconds = job.spec.active_deadline_seconds
    if deadline_seconds is None:
        return None
    ends = (job.status.start_time or now) + timedelta(seconds=deadline_seconds)
    return max(ends - now, timedelta()) + CLOCK_SKEW


def merge_difference(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that turns `current` into `wanted`; empty if they are equal. Lists are replaced as a whole."""
    difference: dict[str, Any] = {key: None for key in current if key not in wanted}
    for key, value in wanted.items():
        present = current.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            nested = merge_difference(present, value)
            if nested:
                difference[key] = nested
        elif present != value or key not in current:
            difference[key] = value
    return difference


def _finalizer_patch(metadata: Mapping[str, Any], *, held: bool) -> KubeObject:
    others = [name for name in metadata.get("finalizers") or [] if name != names.FINALIZER]
    wanted = [*others, names.FINALIZER] if held else others
    # The list is replaced as a whole, so the version it was read at is a precondition: nobody's finalizer is lost.
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": wanted}}


def _record(pod: KubeObject) -> PodRecord:
    metadata = pod["metadata"]
    labels = metadata["labels"]
    return PodRecord(uid=metadata["uid"], name=metadata["name"], role=labels[names.LABEL_ROLE], attempt=int(labels[names.LABEL_ATTEMPT]))


def _release(pod: KubeObject) -> ReleasePod:
    gates = (str(gate["name"]) for gate in pod["spec"].get("schedulingGates") or [])
    return ReleasePod(pod["metadata"]["name"], pod["metadata"]["uid"], tuple(gate for gate in gates if gate != names.GATE_RECORDED))


def _never_ran(pod: KubeObject, job_uid: str) -> bool:
    """Whether the pod claims to be this job's and still has the gate with which every mover pod is created."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    is_owned = any(owner.get("controller") and owner.get("uid") == job_uid for owner in metadata.get("ownerReferences") or [])
    is_gated = any(gate.get("name") == names.GATE_RECORDED for gate in spec.get("schedulingGates") or [])
    return is_owned and is_gated and not spec.get("nodeName")
