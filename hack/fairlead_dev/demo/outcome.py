"""What the demo concludes: the receiver's verdict, the line of JSON at the end, and a diagnosis where it went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fairlead_dev.clients.kubectl import CommandError, Kubectl, Object


class DemoError(RuntimeError):
    """The demo did not do what it set out to do; the message has the cause and the remedy."""


@dataclass(frozen=True, slots=True)
class ReceiverVerdict:
    """The part of the receiver's closing statement that the demo reports."""

    verdict: str
    reason: str
    message: str
    bytes_total: int
    files_total: int
    bulk_seconds: float


def receiver_verdict(pods: Iterable[Object]) -> ReceiverVerdict | None:
    """The last verdict that a receiver among `pods` (versions of pods, oldest first) left in its termination message."""
    found = None
    for pod in pods:
        if pod["metadata"].get("labels", {}).get("fairlead.io/role") != "receiver":
            continue
        for container in pod.get("status", {}).get("containerStatuses", []):
            found = _parse(container.get("state", {}).get("terminated", {}).get("message", "")) or found
    return found


def _parse(message: str) -> ReceiverVerdict | None:
    try:
        body = json.loads(message)
        return ReceiverVerdict(
            verdict=str(body["verdict"]),
            reason=str(body["reason"]),
            message=str(body["message"]),
            bytes_total=int(body["bytes_total"]),
            files_total=int(body["files_total"]),
            bulk_seconds=float(body["bulk_seconds"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def condition(job: Object, kind: str) -> Object | None:
    """The job's condition of that type."""
    found: list[Object] = [c for c in job.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else None


def is_true(job: Object, kind: str) -> bool:
    """Whether the job's condition of that type is True."""
    found = condition(job, kind)
    return found is not None and found["status"] == "True"


def conditions_table(job: Object) -> str:
    """The job's conditions, a line each, under a heading."""
    rows = [("Type", "Status", "Reason", "Message")]
    rows += [(c["type"], c["status"], c["reason"], c["message"]) for c in job.get("status", {}).get("conditions", [])]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows]
    return "\n".join(["Conditions:", *(f"  {line}" for line in lines)])


def job_seconds(job: Object) -> float:
    """From the job's first attempt to its completion, in seconds, by the status."""
    status = job["status"]
    start, end = (datetime.fromisoformat(status[key]) for key in ("startTime", "completionTime"))
    return (end - start).total_seconds()


def goodput_mbps(verdict: ReceiverVerdict) -> float:
    """Payload bits per second of the bulk phase, in Mb/s. Raises DemoError where the verdict lacks it."""
    if verdict.bulk_seconds <= 0:
        raise DemoError("the receiver's verdict has no bulk phase, so there is no goodput to report; was there nothing to move?")
    return verdict.bytes_total * 8 / verdict.bulk_seconds / 1e6


def result_line(verdict: ReceiverVerdict, seconds: float, link_mbps: float | None, verified: bool) -> str:
    """The demo's last line. `link_mbps` is None where the link's rate is not known."""
    return json.dumps(
        {
            "demo": "first-transfer",
            "bytes": verdict.bytes_total,
            "files": verdict.files_total,
            "seconds": round(seconds, 1),
            "goodput_mbps": round(goodput_mbps(verdict), 1),
            "link_mbps": link_mbps,
            "verified": verified,
        }
    )


def diagnosis(kubectl: Kubectl, namespace: str) -> str:
    """What a person needs to see when a transfer did not succeed: conditions, pods, their last words, events, the operator's log."""
    sections = [
        ("jobs", ("get", "transferjobs", "-o", "wide"), namespace),
        ("conditions", ("get", "transferjobs", "-o", _CONDITIONS), namespace),
        ("pods", ("get", "pods", "-o", "wide"), namespace),
        ("events", ("get", "events", "--sort-by=.lastTimestamp"), namespace),
        ("operator's pods", ("get", "pods", "-o", "wide"), "fairlead-system"),
        ("operator's log", ("logs", "-l", "app.kubernetes.io/name=fairlead", "--tail=30", "--all-containers"), "fairlead-system"),
        ("movers' logs", ("logs", "-l", "app.kubernetes.io/component=mover", "--tail=20", "--all-containers", "--prefix"), namespace),
    ]
    return "\n".join(f"--- {title} ---\n{_try(kubectl, arguments, where)}" for title, arguments, where in sections)


_CONDITIONS = 'jsonpath={range .items[*].status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\\n"}{end}'


def _try(kubectl: Kubectl, arguments: tuple[str, ...], namespace: str) -> str:
    try:
        return kubectl.run(*arguments, namespace=namespace).rstrip()
    except CommandError as error:
        return str(error)
