"""What a job's sender puts on the network, counted by the node's kernel, whatever the movers say."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.lib.job import Job, port_of
from e2e.lib.manifests import SOURCE_NODE
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Object, run
from fairlead_dev.clients.nodes import LocalCluster

WINDOW_S = 5.0
BLUR_S = 0.25
"""How long both looks at the counter may take together: what a busy machine reads more slowly says nothing of a rate."""

_COUNTED = re.compile(r"counter packets \d+ bytes (\d+)")


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of IP packets in the network namespace of the source node, `namespace` by its file."""

    namespace: str
    table: str

    def rate_mbps(self, window_s: float = WINDOW_S) -> float:
        """The mean rate over a window, headers and retransmissions included."""
        return wait_until(lambda: self._window(window_s), "a window that the machine measures without a pause")[0]

    def _window(self, window_s: float) -> tuple[float] | None:
        began_s = time.monotonic()
        first = self.bytes_sent()
        counted_s = time.monotonic()
        time.sleep(window_s)
        again_s = time.monotonic()
        last = self.bytes_sent()
        ended_s = time.monotonic()
        blur_s = (counted_s - began_s) + (ended_s - again_s)
        return ((last - first) * 8 / (again_s - began_s) / 1e6,) if blur_s <= BLUR_S else None

    def bytes_sent(self) -> int:
        """Bytes since counting began, headers and retransmissions included."""
        (counted,) = _COUNTED.findall(run(_within(self.namespace, "list", "table", "netdev", self.table)).decode())
        return int(counted)


@contextmanager
def counted(cluster: LocalCluster, job: Job, path: int = 0) -> Iterator[Counter]:
    """Counts what leaves the source node for the job's receiver until the block is left; of several interfaces by the `path`-th pair.

    At the interface's egress: a control group's program drops after every hook of the IP layer.
    """
    source, destination = (_interfaces(job.status["endpoints"][end])[path] for end in ("source", "destination"))
    interface, address = source["name"], destination["address"]
    port = port_of(job.pod("receiver"), "data")
    counter = Counter(cluster.network_namespace(SOURCE_NODE), f"e2e_{port}_{path}")
    chain = f'chain sent {{ type filter hook egress device "{interface}" priority 0; ip daddr {address} tcp dport {port} counter; }}'
    table = f"table netdev {counter.table}"
    # Whatever a killed run left under that name goes first.
    run(_within(counter.namespace, "-f", "-"), stdin=f"{table}\ndelete {table}\n{table} {{\n{chain}\n}}\n")
    try:
        yield counter
    finally:
        run(_within(counter.namespace, "delete", "table", "netdev", counter.table))


def _interfaces(endpoint: Object) -> list[Object]:
    one: Object = {"name": endpoint["interface"], "address": endpoint["address"]}
    several: list[Object] = endpoint.get("interfaces", [])
    return several or [one]


def _within(namespace: str, *words: str) -> tuple[str, ...]:
    return ("nsenter", f"--net={namespace}", "--", "nft", *words)
