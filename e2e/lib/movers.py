"""What the versions of a job's pods say about its movers."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_dev.clients.watch import WatchEvent


def most_senders_at_once(versions: Iterable[WatchEvent]) -> int:
    """How many senders had not ended at the same time, by every version of every pod of one job."""
    running: set[str] = set()
    most = 0
    for change in versions:
        metadata, phase = change.object["metadata"], change.object.get("status", {}).get("phase")
        if metadata.get("labels", {}).get("fairlead.io/role") != "sender":
            continue
        if change.kind == "DELETED" or phase in ("Succeeded", "Failed"):
            running.discard(metadata["uid"])
        else:
            running.add(metadata["uid"])
        most = max(most, len(running))
    return most
