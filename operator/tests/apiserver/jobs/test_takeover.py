"""Two operators: one leads, the other one takes over when it stands still, and the first one writes nothing any more."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from control_plane import ControlPlane
from kubelet import FakeNodes
from lab import LEASE, PATIENCE_SECONDS, Lab, eventually

from fairlead.api import names
from fairlead.kube.client import JOBS, LEASES
from fairlead.kube.errors import NotFoundError

STOPPED = "stopped"
"""The group of the operator that is stopped, by which the audit log tells the two apart."""
WRITES = ("create", "update", "patch", "delete")


@asynccontextmanager
async def _operator_process(lab: Lab, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """An operator that signals can stop and continue."""
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fairlead", *lab.operator_flags(), stdout=written, stderr=written
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _holder(lab: Lab) -> str:
    namespace, name = LEASE.split("/")
    with contextlib.suppress(NotFoundError):
        return str((await lab.client.get(LEASES, namespace, name))["spec"].get("holderIdentity", ""))
    return ""


async def _held_by(lab: Lab, identity: str) -> None:
    async def look() -> bool:
        return await _holder(lab) == identity

    await eventually(look, f"the Lease in the hands of {identity}", lambda: _holder(lab))


def _writes(control_plane: ControlPlane) -> list[dict[str, Any]]:
    """Those of the operator that is stopped, apart from its Lease."""
    requests = (request for request in control_plane.audit() if STOPPED in request["user"].get("groups", []))
    return [request for request in requests if request["verb"] in WRITES and request["objectRef"]["resource"] != "leases"]


async def _cap(lab: Lab, limit: str) -> None:
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"bandwidth": {"limit": limit}}})

    async def capped() -> bool:
        pod = await lab.pod("sender")
        return pod is not None and pod["metadata"]["annotations"].get(names.ANNOTATION_EGRESS_BANDWIDTH) == limit

    await eventually(capped, f"the cap {limit} at the sender", lambda: lab.pod("sender"))


async def _at_rest(control_plane: ControlPlane) -> None:
    """Returns once it has written nothing for a second. What it is sending when it is stopped would arrive when it wakes."""
    quiet_since_s, seen = time.monotonic(), -1

    async def look() -> bool:
        nonlocal quiet_since_s, seen
        count = len(_writes(control_plane))
        if count != seen:
            quiet_since_s, seen = time.monotonic(), count
        return time.monotonic() - quiet_since_s >= 1.0

    await eventually(look, "a second without a write of the operator that leads")


@pytest.mark.long
async def test_a_standby_takes_over_from_an_operator_that_stands_still_and_that_one_writes_nothing_when_it_wakes(
    lab: Lab, control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig("system:serviceaccount:fairlead-system:fairlead", (STOPPED,), stem=STOPPED)
    first = replace(lab, operator_kubeconfig=kubeconfig, options={"identity": "first", "workers": "2"})
    lab.options |= {"identity": "second", "metrics-address": "127.0.0.1:19091", "health-address": "127.0.0.1:18081"}
    log = tmp_path / "first.log"
    async with _operator_process(first, log) as process, FakeNodes(lab.client, lab.namespace).running() as nodes:
        await _held_by(lab, "first")
        await lab.create_job()
        await nodes.start(await lab.appears("receiver"))
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")
        await _cap(lab, "900M")
        # Last of all: it would rightly take the Lease over as soon as a slow machine stands still.
        async with lab.operator():
            await _at_rest(control_plane)
            async with ClientSession() as session, session.get("http://127.0.0.1:19091/metrics") as answer:
                page = await answer.text()
            assert "fairlead_operator_leading 0.0" in page
            assert "fairlead_operator_queue_depth 0.0" in page
            assert await _holder(lab) == "first"

            process.send_signal(signal.SIGSTOP)
            await _cap(lab, "500M")
            assert await _holder(lab) == "second"
            before = len(_writes(control_plane))
            assert before, "the first one led"

            process.send_signal(signal.SIGCONT)
            # What it would do now, if it still believed in itself.
            await _cap(lab, "400M")
            assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 1
            assert "second holds Lease" in log.read_text()
            assert len(_writes(control_plane)) == before
            assert await _holder(lab) == "second"
        assert await _holder(lab) == ""
