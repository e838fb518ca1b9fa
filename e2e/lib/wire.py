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
from fairlead_dev.cluster.client import LocalCluster

WINDOW_S = 5.0
MOST_BLUR = 0.02
"""How long both looks at the counter may take together, as a part of the window: by half of it the rate may be wrong."""

_COUNTED = re.compile(r"counter packets \d+ bytes (\d+)")


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of IP packets in the network namespace of the source node, `namespace` by its file."""

    namespace: str
    table: str

    def rate_mbps(self, window_s: float = WINDOW_S) -> float:
        """The mean rate over a window of at least so long, headers and retransmissions included. It grows where a busy machine is slow."""
        # One slow look would stretch the whole window.
        first, first_s, first_blur_s = min((self._look() for _ in range(3)), key=lambda look: look[2])
        time.sleep(window_s)

        def measured() -> tuple[float] | None:
            last, last_s, last_blur_s = self._look()
            passed_s = last_s - first_s
            return ((last - first) * 8 / passed_s / 1e6,) if first_blur_s + last_blur_s <= MOST_BLUR * passed_s else None

        return wait_until(measured, "a window that is long beside the two looks at the counter")[0]

    def _look(self) -> tuple[int, float, float]:
        """Bytes so far, when that was, and how long it took to read them."""
        began_s = time.monotonic()
        count = self.bytes_sent()
        ended_s = time.monotonic()
        return count, (began_s + ended_s) / 2, ended_s - began_s

    def bytes_sent(self) -> int:
        """Bytes since counting began, headers and retransmissions included."""
        (counted,) = _COUNTED.findall(run(_within(self.namespace, "list", "table", "netdev", self.table)).decode())
        return int(counted)


@contextmanager
def counted(cluster: LocalCluster, job: Job, path: int = 0, *, protocol: str = "tcp") -> Iterator[Counter]:
    """Counts what leaves the source node for the job's receiver until the block is left; of several interfaces by the `path`-th pair,
    of `tcp` or `udp`.

    At the interface's egress: a control group's program drops after every hook of the IP layer.
    """

    def ends() -> list[Object] | None:
        known: Object = job.status.get("endpoints", {})
        found = [_interfaces(known.get(end, {})) for end in ("source", "destination")]
        return [each[path] for each in found] if all(len(each) > path for each in found) else None

    source, destination = wait_until(ends, "both ends with their interfaces")
    interface, address = source["name"], destination["address"]
    port = port_of(job.pod("receiver"), "data")
    counter = Counter(cluster.network_namespace(SOURCE_NODE), f"e2e_{port}_{path}_{protocol}")
    chain = f'chain sent {{ type filter hook egress device "{interface}" priority 0; ip daddr {address} {protocol} dport {port} counter; }}'
    table = f"table netdev {counter.table}"
    # Whatever a killed run left under that name goes first.
    run(_within(counter.namespace, "-f", "-"), stdin=f"{table}\ndelete {table}\n{table} {{\n{chain}\n}}\n")
    try:
        yield counter
    finally:
        run(_within(counter.namespace, "delete", "table", "netdev", counter.table))


def _interfaces(endpoint: Object) -> list[Object]:
    """Those that its mover has reported."""
    one = [{"name": endpoint["interface"], "address": endpoint["address"]}] if {"interface", "address"} <= endpoint.keys() else []
    several: list[Object] = endpoint.get("interfaces", [])
    return several or one


def _within(namespace: str, *words: str) -> tuple[str, ...]:
    return ("nsenter", f"--net={namespace}", "--", "nft", *words)
