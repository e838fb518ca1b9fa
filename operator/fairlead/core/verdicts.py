"""What the reports of both ends of one attempt come to: success, failure with the most telling reason, or nothing yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairlead.api.reasons import MoverReason, Reason
from fairlead.api.transferjob import TransferJob
from fairlead.core.attachments import attachment_remedy
from fairlead.core.observed import MoverPod, NodeFacts, PodPhase, Role
from fairlead.core.reports import Verdict

_SUCCEEDED = "Succeeded"
_SAYS_LITTLE: Mapping[str, int] = {
    Reason.MOVER_DIED: 1,
    MoverReason.STOPPED_BY_SIGNAL: 1,
    MoverReason.PEER_LOST: 2,
    MoverReason.PEER_FAILED: 3,
}
"""Reasons that another end's reason explains better; the higher, the less they explain."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. `telling` is False if the other end may still explain it better; `counts` if it is one of `backoffLimit`."""

    reason: str
    message: str
    retry: bool
    telling: bool
    counts: bool = True


def is_live(pod: MoverPod) -> bool:
    """Whether the pod's mover may still be running."""
    return not has_ended(pod)


def has_ended(pod: MoverPod) -> bool:
    """Whether the pod's mover has ended, with or without a verdict."""
    return pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) or pod.exit_code is not None or pod.verdict is not None


def proven_success(receiver: MoverPod | None, job_uid: str) -> Verdict | None:
    """The receiver's verdict if it proves success of this job and attempt. No other pod's does."""
    if receiver is None or receiver.verdict is None or receiver.role is not Role.RECEIVER:
        return None
    verdict = receiver.verdict
    return verdict if verdict.verdict == _SUCCEEDED and _names(verdict, job_uid, receiver.attempt) else None


def own_verdict(pod: MoverPod, job_uid: str) -> Verdict | None:
    """The pod's verdict if it is of this job and of the pod's own attempt."""
    return pod.verdict if pod.verdict is not None and _names(pod.verdict, job_uid, pod.attempt) else None


def has_cleaned(cleaner: MoverPod, job_uid: str) -> bool:
    """Whether this cleaner reports that the job's partial files are gone. Its verdict has no attempt: it cleans for all of them."""
    verdict = cleaner.verdict
    return cleaner.role is Role.CLEANER and verdict is not None and verdict.verdict == _SUCCEEDED and verdict.job == job_uid


def failure_of_attempt(
    pods: tuple[MoverPod, ...], vanished: tuple[str, ...], nodes: Mapping[str, NodeFacts], job: TransferJob
) -> Failure | None:
    """The most telling reason for the attempt's failure, None while neither end has failed.

    `pods` are the attempt's sender and receiver as far as they are there, `vanished` the names of those that were there before.
    """
    failures = [failure for pod in pods if (failure := _failure_of(pod, nodes, job)) is not None]
    failures += [
        Failure(
            Reason.MOVER_DIED, f"pod {name} is gone and left no verdict: it was deleted or its node was lost", retry=True, telling=False
        )
        for name in vanished
    ]
    failures.sort(key=lambda failure: (_SAYS_LITTLE.get(failure.reason, 0), failure.retry))
    if not failures:
        return None
    # Each end may lack something of its own, as before any byte of data: who mends one should know of the other.
    others = [failure.message for failure in failures[1:] if failure.telling and failure.reason not in _SAYS_LITTLE]
    return replace(failures[0], message="; also ".join((failures[0].message, *others)))


def _failure_of(pod: MoverPod, nodes: Mapping[str, NodeFacts], job: TransferJob) -> Failure | None:
    verdict = pod.verdict
    if verdict is not None:
        return _failure_by_verdict(pod, verdict, job)
    if has_ended(pod):
        return Failure(Reason.MOVER_DIED, _last_words(pod), retry=True, telling=False)
    if pod.deleting and is_lost(pod, nodes):
        return Failure(Reason.MOVER_DIED, f"{pod.role} pod {pod.name} was lost with its node {pod.node}", retry=True, telling=False)
    return None


def _failure_by_verdict(pod: MoverPod, verdict: Verdict, job: TransferJob) -> Failure | None:
    if not _names(verdict, job.metadata.uid, pod.attempt):
        message = f"the verdict of {pod.role} pod {pod.name} names job {verdict.job!r}, attempt {verdict.attempt}"
        return Failure(Reason.VERDICT_MISMATCH, message, retry=True, telling=True)
    if verdict.verdict == _SUCCEEDED:
        return None
    message = f"{pod.role}: {verdict.message}{attachment_remedy(job, pod, verdict)}"
    return Failure(verdict.reason, message, verdict.retry, telling=verdict.reason not in _SAYS_LITTLE)


def _names(verdict: Verdict, job_uid: str, attempt: int) -> bool:
    return verdict.job == job_uid and verdict.attempt == attempt


def _last_words(pod: MoverPod) -> str:
    exit_code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
    because = ": ".join(part for part in (pod.waiting_reason, pod.waiting_message) if part)
    return f"{pod.role} pod {pod.name} ended{exit_code} and without a verdict" + (f" ({because})" if because else "")


def is_lost(pod: MoverPod, nodes: Mapping[str, NodeFacts]) -> bool:
    """Whether the pod's node is known to be gone or not ready."""
    facts = nodes.get(pod.node or "")
    return facts is not None and not (facts.exists and facts.ready)
