"""Defects that somebody could have made, each with the runs that are to find it: what shows that the suite sees anything at all."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import fairlead
from faults.bed import HERE

PACKAGE = Path(fairlead.__file__).resolve().parent


class StaleDefectError(Exception):
    """The code that a defect changes is not there any more; the message names the defect."""


@dataclass(frozen=True)
class Defect:
    """`before` is in the file once, and `after` is what somebody could have written. `plans` are plans, or workloads without a fault."""

    name: str
    file: str
    before: str
    after: str
    plans: tuple[str, ...]

    def seed(self, folder: Path) -> None:
        """Puts the package with this defect into a folder, and what operators are forked from beside it. Raises StaleDefectError."""
        shutil.copytree(PACKAGE, folder / "fairlead", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE / "forkserver.py", folder)
        file = folder / "fairlead" / self.file
        text = file.read_text()
        if text.count(self.before) != 1:
            raise StaleDefectError(f"{self.name}: {self.file} has its place {text.count(self.before)} times")
        file.write_text(text.replace(self.before, self.after))


_APPLY, _ATTEMPT, _ENDING = "kube/apply.py", "core/lifecycle/attempt.py", "core/lifecycle/ending.py"
_CONTROLLER, _SETTLE = "handlers/controller.py", "core/fairness/settle.py"

DEFECTS = (
    Defect(
        "movers are created before anything holds the job",
        _APPLY,
        "        if plan.finalizer is True:\n            current = await self._set_finalizer(current, held=True)\n",
        "",
        ("create",),
    ),
    Defect(
        "the list of finalizers is replaced whatever the version",
        _APPLY,
        '"resourceVersion": metadata["resourceVersion"], "finalizers": wanted}}',
        '"finalizers": wanted}}',
        ("create",),
    ),
    Defect(
        "a status is written over any version",
        _APPLY,
        '        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": change}',
        '        patch = {"status": change}',
        ("create",),
    ),
    Defect(
        "pods are deleted by name alone",
        _APPLY,
        "                uid=action.uid,\n                resource_version=action.resource_version,\n",
        "",
        ("delete",),
    ),
    Defect(
        "credentials that exist are an error",
        _APPLY,
        "        except (ForbiddenError, InvalidError) as error:\n"
        "            raise RefusedError(str(error), status=error.status) from error\n"
        "        except AlreadyExistsError:\n"
        "            # Its name",
        "        except (ForbiddenError, InvalidError, AlreadyExistsError) as error:\n"
        "            raise RefusedError(str(error), status=error.status) from error\n"
        "        except NotFoundError:\n"
        "            # Its name",
        ("create/killed-unanswered@CREATE secrets job-credentials-1#1",),
    ),
    Defect(
        "pods may run before their UIDs are recorded",
        _APPLY,
        "            current = await self._write_status(current, with_created(status, map(_record, created)))\n",
        "            for release in map(_release, created):\n"
        "                await self._release_pod(job.metadata.namespace, release)\n"
        "            current = await self._write_status(current, with_created(status, map(_record, created)))\n",
        ("create/killed-after@PATCH pods job-receiver-1#1", "create/killed-unanswered@PATCH pods job-receiver-1#1"),
    ),
    Defect(
        "credentials outlive their attempt",
        _APPLY,
        "                await self._delete_credentials(job, attempt)\n",
        "                pass\n",
        ("create",),
    ),
    Defect(
        "annotations of pods are not written",
        _APPLY,
        "                await self._annotate_pod(job.metadata.namespace, change)\n",
        "                pass\n",
        ("limit",),
    ),
    Defect(
        "a job whose time to live is over stays",
        _APPLY,
        "            await self._delete_job(current)\n",
        "            pass\n",
        ("ttl",),
    ),
    Defect(
        "the finalizer stays on a job that is deleted",
        _APPLY,
        "            current = await self._set_finalizer(current, held=False)\n",
        "            pass\n",
        ("delete",),
    ),
    Defect(
        "a failed pass is not tried again",
        "handlers/queue.py",
        "        self.add_after(key, delay_seconds)\n        return delay_seconds\n",
        "        return delay_seconds\n",
        ("create/500@PATCH transferjobs job#1", "create/503@CREATE secrets job-credentials-1#1"),
    ),
    Defect(
        "what a job waits for in time is forgotten",
        "handlers/worker.py",
        "                self._queue.add_after(key, again.total_seconds())\n",
        "                pass\n",
        ("ttl",),
    ),
    Defect(
        "nothing is listed after a watch began anew",
        "handlers/process.py",
        "    take_events(takers_of(runtime), runtime.see_gap)\n",
        "    take_events(takers_of(runtime), lambda: None)\n",
        ("receiver-lost/stale@CREATE events job#1", "delete/410@DELETED pods job-sender-1#1", "delete/410@DELETED pods job-receiver-1#1"),
    ),
    Defect(
        "errors of the watches end the process",
        "handlers/process.py",
        "    outlive_errors(timings.watch_retry_seconds)\n",
        "",
        ("create/failed@MODIFIED transferjobs job#3", "create/failed@MODIFIED pods job-receiver-1#2"),
    ),
    Defect(
        "a request without an answer is a defect",
        "kube/client.py",
        "            data = await response.read()\n        except (TimeoutError, aiohttp.ClientError, OSError) as error:\n",
        "            data = await response.read()\n        except ZeroDivisionError as error:\n",
        ("create/stalled@PATCH transferjobs job#1",),
    ),
    Defect(
        "a verdict of another attempt proves success",
        "core/verdicts.py",
        "    return verdict if verdict.verdict == _SUCCEEDED and _names(verdict, job_uid, receiver.attempt) else None\n",
        "    return verdict if verdict.verdict == _SUCCEEDED else None\n",
        ("no-proof",),
    ),
    Defect(
        "a mover that ended well without a word has not failed",
        "core/verdicts.py",
        "    if has_ended(pod):\n        return Failure(",
        "    if has_ended(pod) and pod.exit_code != 0:\n        return Failure(",
        ("no-proof",),
    ),
    Defect(
        "an attempt begins beside pods that are being deleted",
        _ATTEMPT,
        "    held_by = next((pod for pod in leftovers if is_live(pod) or pod.deleting), None)\n",
        "    held_by = next((pod for pod in leftovers if is_live(pod) and not pod.deleting), None)\n",
        ("suspend-briefly",),
    ),
    Defect(
        "pods that are gone are not missed",
        _ATTEMPT,
        "    return tuple(name for role in missing for name in sorted(seen) if"
        " is_child_name(name, metadata.name, role.value, attempt.number))\n",
        "    return ()\n",
        ("nodes-lost",),
    ),
    Defect(
        "the next attempt has the number of the one before",
        _ATTEMPT,
        "    return removal.then(_carry_on(observed, number + 1, now.replace(microsecond=0), now))\n",
        "    return removal.then(_carry_on(observed, max(number, 1), now.replace(microsecond=0), now))\n",
        ("crash",),
    ),
    Defect(
        "an attempt that failed is not ended",
        _ATTEMPT,
        '    recorded = recorded.then(JobOutcome(status={"failures": failures, "attempt_start_time": None}))\n',
        '    recorded = recorded.then(JobOutcome(status={"failures": failures}))\n',
        ("crash",),
    ),
    Defect(
        "a cleaner works beside movers",
        _ENDING,
        "    if any(is_live(pod) for pod in observed.movers):\n        return _Cleaning.UNDER_WAY, step\n",
        "",
        ("delete-slowly",),
    ),
    Defect(
        "a job that cannot be cleaned up after is held for ever",
        _ENDING,
        "    if cleaning is not _Cleaning.UNDER_WAY:\n        return outcome.then(_release(observed))\n",
        "    if cleaning is _Cleaning.DONE:\n        return outcome.then(_release(observed))\n",
        ("delete-unclean",),
    ),
    Defect(
        "a cap that fell counts at once",
        _SETTLE,
        "        return max(self.bps, self.before_bps) if now < self.written_at + OBEYED_SECONDS else self.bps\n",
        "        return self.bps\n",
        ("share",),
    ),
    Defect(
        "caps stay when the policy is gone",
        "handlers/fairness/loop.py",
        "        self._requeue(self._shares.publish(None))\n",
        "",
        ("policy",),
    ),
    Defect(
        "two jobs write into one directory",
        _CONTROLLER,
        "            destination_writer=self._cache.destinations.writer_before(_job_uid(observed.job)) if starts else None,\n",
        "            destination_writer=None,\n",
        ("directory",),
    ),
    Defect(
        "a suspended job's movers run on",
        "core/lifecycle/machine.py",
        "    return suspended.then(_stop_uncounted(observed))\n",
        "    return suspended\n",
        ("suspend",),
    ),
    Defect(
        "a conflict is not tried again",
        "kube/errors.py",
        '    kind = "Conflict"\n    blame = "nobody"\n',
        '    kind = "Conflict"\n    blame = "nobody"\n    retry = False\n',
        ("create/409@PATCH transferjobs job#1",),
    ),
    Defect(
        "a server that asks for patience is not asked again",
        "kube/errors.py",
        '    kind = "Throttled"\n    blame = "nobody"\n',
        '    kind = "Throttled"\n    blame = "nobody"\n    retry = False\n',
        ("create/429@PATCH transferjobs job#1",),
    ),
    Defect(
        "credentials that are refused once are refused for good",
        "kube/errors.py",
        '    kind = "Unauthorized"\n',
        '    kind = "Unauthorized"\n    retry = False\n',
        ("create/401@PATCH transferjobs job#1",),
    ),
    Defect(
        "a cleaner that failed has cleaned",
        _ENDING,
        "any(has_cleaned(pod, uid) for pod in cleaners)",
        "any(has_ended(pod) for pod in cleaners)",
        ("delete-twice-cleaned",),
    ),
    Defect(
        "a receiver that ran proves that nothing is left",
        _ENDING,
        "    if any(pod.phase is not PodPhase.PENDING or has_ended(pod) for pod in receivers):\n        return False\n    had_sender = ",
        "    if any(has_ended(pod) for pod in receivers):\n        return True\n    return True\n    had_sender = ",
        ("delete",),
    ),
    Defect(
        "pods have no gate until they are recorded",
        "kube/objects/build.py",
        '        "schedulingGates": [{"name": names.GATE_RECORDED}],\n',
        "",
        ("create/killed-unanswered@CREATE pods job-receiver-1#1", "create/killed-unanswered@CREATE pods job-sender-1#1"),
    ),
    Defect(
        "the share of a job that leaves is free while its sender runs",
        "core/fairness/participant.py",
        "    if leaves and not _may_send(observed):\n",
        "    if leaves:\n",
        ("leave-slowly",),
    ),
)
