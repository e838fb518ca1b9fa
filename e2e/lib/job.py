"""A TransferJob under test, watched from its creation on."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from e2e.lib import history
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.clients.watch import ObjectWatch, WatchEvent


class JobEndedError(AssertionError):
    """The job ended otherwise than the test expects; waiting longer is in vain."""


class Job:
    """One job by name. Use as a context manager: the watch ends with it."""

    def __init__(self, kubectl: Kubectl, namespace: str, name: str) -> None:
        self._kubectl, self.namespace, self.name = kubectl, namespace, name
        self._watch = ObjectWatch(kubectl, "transferjob", name=name, namespace=namespace)

    def __enter__(self) -> Self:
        self._watch.__enter__()
        wait_until(lambda: bool(self._watch.changes()), f"the first version of job {self.name}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._watch.__exit__(kind, error, trace)

    @property
    def changes(self) -> list[WatchEvent]:
        """Every version seen, oldest first."""
        return self._watch.changes()

    @property
    def object(self) -> Object:
        """The newest version."""
        return self.changes[-1].object

    @property
    def status(self) -> Object:
        """The newest status."""
        status: Object = self.object.get("status", {})
        return status

    @property
    def uid(self) -> str:
        """The job's UID."""
        return str(self.object["metadata"]["uid"])

    @property
    def phases(self) -> list[str]:
        """The phases so far, each turn once."""
        return history.phases(change.object for change in self.changes)

    def wait_for(self, check: Callable[[Object], Any], what: str, timeout_s: float = PATIENCE_S) -> Object:
        """The first version, past ones included, of which `check` is true. Raises WaitedTooLongError."""
        return wait_until(
            lambda: next((change.object for change in self.changes if check(change.object)), None),
            f"{what} (job {self.name})",
            timeout_s,
            last_seen=lambda: {"phases": self.phases, "status": self.status},
        )

    def wait_before_end(self, check: Callable[[Object], Any], what: str, timeout_s: float = PATIENCE_S) -> Object:
        """The first version, past ones included, of which `check` is true. Raises JobEndedError where the job ends without it."""

        def reached(job: Object) -> bool:
            found = bool(check(job))
            if not found and history.has_ended(job):
                raise JobEndedError(f"job {self.name} ended without {what}: {self._ending(job)}")
            return found

        return self.wait_for(reached, what, timeout_s)

    def wait_phase(self, phase: str, timeout_s: float = PATIENCE_S) -> Object:
        """The first version in that phase. Raises JobEndedError where the job ends without it."""
        return self.wait_before_end(lambda job: history.phase(job) == phase, f"phase {phase}", timeout_s)

    def wait_succeeded(self, timeout_s: float = PATIENCE_S) -> Object:
        """The version that succeeded. Raises JobEndedError where the job failed."""
        return self._wait_end("Succeeded", "Failed", timeout_s)

    def wait_failed(self, timeout_s: float = PATIENCE_S) -> Object:
        """The version that failed. Raises JobEndedError where the job succeeded."""
        return self._wait_end("Failed", "Succeeded", timeout_s)

    def wait_reason(self, reason: str, timeout_s: float = PATIENCE_S) -> Object:
        """The first version with a condition that names `reason`. Raises JobEndedError where the job ends without it."""
        return self.wait_before_end(lambda job: history.condition_with_reason(job, reason), f"a condition with reason {reason}", timeout_s)

    def patch(self, **spec: Any) -> None:
        """Merges `spec` into the job's spec."""
        self._kubectl.patch("transferjob", self.name, {"spec": spec}, namespace=self.namespace)

    def let_go(self) -> None:
        """Takes the job's finalizer away, so that its deletion waits for nothing."""
        self._kubectl.patch("transferjob", self.name, {"metadata": {"finalizers": None}}, namespace=self.namespace)

    def delete(self, timeout_s: float = PATIENCE_S) -> None:
        """Deletes the job and waits until it is gone. Raises CommandError after `timeout_s`."""
        self._kubectl.delete("transferjob", [self.name], namespace=self.namespace, wait_s=timeout_s)

    def pods(self) -> list[Object]:
        """The job's pods."""
        return self._kubectl.list("pods", namespace=self.namespace, selector=f"fairlead.io/transferjob-uid={self.uid}")

    def pod(self, role: str) -> Object | None:
        """The newest pod of a role."""
        found = [pod for pod in self.pods() if pod["metadata"]["labels"]["fairlead.io/role"] == role]
        return max(found, key=lambda pod: int(pod["metadata"]["labels"]["fairlead.io/attempt"]), default=None)

    def events(self) -> list[Object]:
        """The events on this job, whichever way they came in."""
        return [event for event in self._kubectl.list("events", namespace=self.namespace) if event["involvedObject"].get("uid") == self.uid]

    def _wait_end(self, wanted: str, other: str, timeout_s: float) -> Object:
        def ended(job: Object) -> bool:
            if history.is_true(job, other):
                raise JobEndedError(f"job {self.name} is {other}, not {wanted}: {self._ending(job)}")
            return history.is_true(job, wanted)

        return self.wait_for(ended, wanted, timeout_s)

    def _ending(self, job: Object) -> str:
        found = [c for kind in ("Failed", "Succeeded") if (c := history.condition(job, kind)) is not None and c["status"] == "True"]
        return "; ".join(f"{c['reason']}: {c['message']}" for c in found)


def port_of(pod: Object | None, name: str) -> int:
    """The pod's port of that name."""
    assert pod is not None
    containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    (port,) = (port["containerPort"] for container in containers for port in container["ports"] if port["name"] == name)
    return int(port)
