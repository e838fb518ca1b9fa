"""Jobs of a tenant on real nodes that reach for what belongs to the mover, to the node or to another tenant."""

from __future__ import annotations

import re
from typing import Any

import pytest

from e2e.attacks.lib.judge import Judge, gains
from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import CommandError, Object
from fairlead_dev.clients.volumes import MOVER_ID

MOUNTS = "/run/fairlead"
"""Where a mover's container has its credentials and what the kubelet tells it."""
VICTIM_ID = 31337

_LEDGER = re.compile(r"(.*/)?\.fairlead-[-0-9a-f]+/ledger")


def _said(job: Object) -> str:
    """The job's phase, and why it failed."""
    failed = history.condition(job, "Failed") or {}
    return f"{history.phase(job)}: {failed.get('message', '')}"


def _arrived(lab: Lab, folder: str = "") -> str:
    """The files below a folder of the destination, but for the receiver's own record of what has arrived."""
    found = lab.listing(lab.destination, folder).items()
    names = [path.decode(errors="replace") for path, entry in found if entry.kind == "f"]
    return ", ".join(name for name in names if not _LEDGER.fullmatch(name))


def _link(lab: Lab, target: str, name: str) -> None:
    lab.cluster.on(lab.source.node, "ln", "-sfn", target, f"{lab.source.path}/{name}")


def _an_ordinary_job_succeeds(lab: Lab, **spec: Any) -> None:
    """The positive control."""
    lab.write(lab.source, "plain", "control", bytes_total=100_000)
    ends: dict[str, Any] = {"source": {"path": "control"}, "destination": {"path": "control"}}
    lab.submit("control", **ends, **spec).wait_succeeded()
    lab.assert_equal("control")


@gains("the private key with which the job's sender proves itself")
def attack_with_a_path_that_is_a_link_to_the_credentials(lab: Lab, judge: Judge) -> None:
    """A job's source path is a link to the folder in which the sender's own credentials are mounted."""
    _link(lab, f"{MOUNTS}/tls", "run42")
    ended = lab.submit(backoffLimit=0).wait_for(history.has_ended, "the end")
    arrived = _arrived(lab, "run42")
    judge("tls.key" not in arrived, f"arrived: {arrived or 'nothing'}; {_said(ended)}")
    _an_ordinary_job_succeeds(lab)


@gains("files of the mover's process, its environment and memory map among them")
def attack_with_a_path_that_is_a_link_to_the_process(lab: Lab, judge: Judge) -> None:
    """A job's source path is a link to the folder that the kernel has of the mover's process."""
    _link(lab, "/proc/self", "run42")
    ended = lab.submit(backoffLimit=0).wait_for(history.has_ended, "the end")
    arrived = _arrived(lab, "run42")
    judge(not arrived and not history.is_true(ended, "Succeeded"), f"arrived: {arrived or 'nothing'}; {_said(ended)}")
    _an_ordinary_job_succeeds(lab)


@gains("the credentials of the next attempt, as files of the destination")
def attack_with_a_path_that_becomes_a_link_while_the_transfer_runs(lab: Lab, judge: Judge) -> None:
    """The first name of the source's path is swapped for a link to the mover's mounts in mid-transfer, and the sender is killed."""
    lab.write(lab.source, "plain", "mounts/tls", bytes_total=40_000_000)
    ends: dict[str, Any] = {"source": {"path": "mounts/tls"}, "destination": {"path": "run42"}}
    job = lab.submit(bandwidth={"limit": "8M"}, backoffLimit=1, **ends)
    job.wait_phase("Transferring")
    wait_until(lab.partial_files, "data that has arrived")
    disk = lab.source.path
    lab.cluster.on(lab.source.node, "mv", f"{disk}/mounts", f"{disk}/before")
    _link(lab, MOUNTS, "mounts")
    _kill_sender(lab, job)
    job.wait_for(lambda seen: seen.get("status", {}).get("attempts") == 2, "a second attempt")
    job.patch(bandwidth=None)
    ended = job.wait_for(history.has_ended, "the end")
    arrived = _arrived(lab, "run42")
    judge("tls.key" not in arrived, f"arrived: {arrived or 'nothing'}; {_said(ended)}")
    _an_ordinary_job_succeeds(lab)


def _kill_sender(lab: Lab, job: Job) -> None:
    lab.cluster.on(lab.source.node, "pkill", "-KILL", "-f", "--", f"^[^ ]*fairlead-mover send .*--job={job.uid}")


@gains("runs a program with its owner's or its group's rights where the destination is mounted")
def attack_with_setuid_bits_on_a_node(lab: Lab, judge: Judge) -> None:
    """A tenant transfers programs with the setuid, the setgid and the sticky bit."""
    lab.write_file(lab.source, "run42/program", "#!/bin/sh\nid\n")
    script = 'cp -p "$1/program" "$1/group" && chmod 4755 "$1/program" && chmod 2755 "$1/group" && chmod 3777 "$1"'
    lab.cluster.on(lab.source.node, "sh", "-c", script, "sh", f"{lab.source.path}/run42")
    lab.submit().wait_succeeded()
    marked = lab.cluster.on(lab.destination.node, "find", lab.destination.path, "-perm", "/7000", "-printf", "%P %m, ").decode()
    whole = lab.cluster.on(lab.source.node, "find", f"{lab.source.path}/run42", "-perm", "/6000", "-printf", "%f %m, ").decode()
    assert "program 4755" in whole, whole
    judge(not marked, f"arrived with such a bit: {marked or 'nothing'}")
    assert "program" in _arrived(lab, "run42")


@gains("reads what another tenant keeps for its own user on a shared file system")
@pytest.mark.identities
def attack_as_the_user_of_another_tenant(lab: Lab, judge: Judge) -> None:
    """A tenant's job runs as the user that owns another tenant's files. The administrator gave its namespace other users."""
    _victims_file(lab, "600")
    lab.cluster.on(lab.destination.node, "chmod", "777", lab.destination.path)
    _reach(lab, judge, {"runAsUser": VICTIM_ID})


@gains("reads what another tenant keeps for its own group, and has the whole volume given to that group")
@pytest.mark.identities
def attack_with_the_fsgroup_of_another_tenant(lab: Lab, judge: Judge) -> None:
    """A tenant's job has another tenant's group as its fsGroup. The administrator gave its namespace other groups."""
    _victims_file(lab, "640")
    _reach(lab, judge, {"fsGroup": VICTIM_ID})


def _victims_file(lab: Lab, mode: str) -> None:
    """A file in the source's folder that only the other tenant's user, or its group with mode 640, may read."""
    lab.write_file(lab.source, "run42/secret", "another tenant's")
    script = 'chown "$2:$2" "$1" && chmod "$3" "$1"'
    lab.cluster.on(lab.source.node, "sh", "-c", script, "sh", f"{lab.source.path}/run42/secret", str(VICTIM_ID), mode)


def _reach(lab: Lab, judge: Judge, identity: dict[str, int]) -> None:
    try:
        ended = lab.submit(backoffLimit=0, securityContext=identity).wait_for(history.has_ended, "the end")
    except CommandError as error:
        judge("identities" in error.stderr, error.stderr)
    else:
        arrived = _arrived(lab, "run42")
        judge("secret" not in arrived, f"arrived: {arrived or 'nothing'}; {_said(ended)}")
    _an_ordinary_job_succeeds(lab, securityContext={"runAsUser": MOVER_ID})
