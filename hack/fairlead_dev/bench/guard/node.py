"""A program: the guard of a node that has one sender, without an API server. Ended by a signal, it leaves the caps in force as ever."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from fairlead.api import names
from fairlead.guard.cgroups import PodGroups
from fairlead.guard.holds import Holds
from fairlead.guard.loop import Change, Guard, Pod
from fairlead.guard.main import check, install
from fairlead.guard.programs import CgroupPrograms
from fairlead.guard.senders import JobRef

JOB_UID = "62d99370-e51f-44b2-8abc-643dc71bbea1"
LIES = ("100G", "1", "fast", "200G")
LIE_SECONDS = 1.0


def sender(uid: str, receiver: str, cap: str) -> Pod:
    """The sender's pod as the API server would show it."""
    controller = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "job", "uid": JOB_UID, "controller": True}
    labels = {names.LABEL_JOB_UID: JOB_UID, names.LABEL_ROLE: "sender", names.LABEL_ATTEMPT: "1", names.LABEL_MANAGED_BY: names.MANAGER}
    return {
        "metadata": {
            "name": names.child_name("job", JOB_UID, "sender", 1),
            "namespace": "bench",
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "ownerReferences": [controller],
            "annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: cap},
        },
        "spec": {"hostNetwork": True, "containers": [{"name": "mover", "args": ["send", f"--connect={receiver}"]}]},
        "status": {"phase": "Running"},
    }


async def _guard(options: argparse.Namespace) -> None:
    pod = sender(options.uid, options.receiver, options.cap)

    async def pods() -> list[Pod]:
        return [pod]

    async def changes() -> AsyncIterator[Change]:
        # The pods that were listed are held by now.
        print(f"held by {holds.now[options.uid].by}", flush=True)
        while True:
            for lie in LIES:
                await asyncio.sleep(LIE_SECONDS)
                yield "MODIFIED", sender(options.uid, options.receiver, lie)

    async def jobs(_: JobRef) -> AsyncIterator[Mapping[str, Any]]:
        yield {"metadata": {"uid": JOB_UID}, "status": {"bandwidth": {"allocated": options.cap}}}
        await asyncio.Event().wait()

    programs = CgroupPrograms(PodGroups(options.groups)) if options.groups else None
    holds = Holds(programs=programs, classes=None, install=install, check=check)
    await Guard(pods=pods, changes=changes, jobs=jobs, holds=holds).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=Path, help="control groups of version 2; without them the guard has rules of nftables alone")
    for required in ("--uid", "--receiver", "--cap"):
        parser.add_argument(required, required=True)
    asyncio.run(_guard(parser.parse_args()))
