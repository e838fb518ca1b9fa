"""What an administrator of a node can see and do: the movers' processes, their interfaces, the token buckets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from e2e.lib.job import port_of
from fairlead_dev.clients.kubectl import Object
from fairlead_dev.cluster.client import LocalCluster

_FIND = """
import os, sys
def words(pid):
    try:
        with open(f"/proc/{pid}/cmdline", errors="surrogateescape") as file:
            return file.read().split("\\0")
    except OSError:
        return []
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
found = [pid for pid in pids if sys.argv[1] in words(pid) and f"--job={sys.argv[2]}" in words(pid)]
assert len(found) == 1, f"{len(found)} processes run {sys.argv[1]} for the job"
"""

_HIDE = (
    _FIND
    + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
namespace = os.open(f"/proc/{found[0]}/ns/mnt", os.O_RDONLY)
CLONE_NEWNS = 0x20000
if libc.setns(namespace, CLONE_NEWNS) or libc.mount(b"none", sys.argv[3].encode(), b"tmpfs", 0, None):
    sys.exit(os.strerror(ctypes.get_errno()))
if sys.argv[5]:
    # As bytes: in the container there are no codecs to load.
    with open(sys.argv[4], "wb") as file:
        file.write(sys.argv[5].encode())
"""
)

_PEER = _FIND + 'os.execvp("nsenter", ["nsenter", "-t", str(found[0]), "-n", "ip", "-j", "link", "show", sys.argv[3]])'

_REDIRECT = re.compile(r"mirred \(Egress Redirect to device (\S+)\)")

CAP_FOLDER = "/run/fairlead/live"
CAP_FILE = f"{CAP_FOLDER}/egress-bandwidth"


def make_deaf_to_its_cap(cluster: LocalCluster, node: str, job_uid: str, own: str = "") -> None:
    """Lays a folder over the one with the cap, in the running sender alone: from then on it keeps to a cap of its `own`, like `30M`, or to
    none."""
    cluster.on(node, "python3", "-c", _HIDE, "send", job_uid, CAP_FOLDER, CAP_FILE, own)


def interface_of(cluster: LocalCluster, node: str, role: str, job_uid: str, name: str = "eth0") -> str:
    """The node's end of a mover pod's interface, by default that on the pod network; `role` is `send` or `receive`."""
    inside = json.loads(cluster.on(node, "python3", "-c", _PEER, role, job_uid, name))
    links: list[dict[str, Any]] = json.loads(cluster.on(node, "ip", "-j", "link", "show"))
    return next(str(link["ifname"]) for link in links if link["ifindex"] == inside[0]["link_index"])


def advisor_command_line(sender: Object | None) -> str:
    """What `pgrep` finds the advisor of a sender's pod by: its listener's address too, as pods with one of their own share the port."""
    port = port_of(sender, "advisor-http")
    assert sender is not None
    return f"fairlead-advisor run .*--http[= ]{re.escape(sender['status']['podIP'])}:{port}( |$)"


@contextmanager
def frozen(cluster: LocalCluster, node: str, *found_by: str) -> Iterator[None]:
    """The one process of the node that `pgrep` finds by these words is stopped, and goes on when the block is left if it is still there."""
    (pid,) = cluster.on(node, "pgrep", *found_by).split()
    cluster.on(node, "kill", "-STOP", pid.decode())
    try:
        yield
    finally:
        cluster.on(node, "sh", "-c", f"kill -CONT {pid.decode()} 2>/dev/null || true")


def token_buckets(cluster: LocalCluster, node: str) -> dict[str, int]:
    """The token bucket filters of a node: the interface and the rate in bits per second of each."""
    return _rates(json.loads(cluster.on(node, "tc", "-j", "qdisc", "show")))


def _rates(queues: Sequence[Mapping[str, Any]], interface: str = "") -> dict[str, int]:
    return {str(queue.get("dev", interface)): int(queue["options"]["rate"]) * 8 for queue in queues if queue["kind"] == "tbf"}


def packets_held_back(cluster: LocalCluster, node: str, interface: str) -> int:
    """How often the token bucket at an interface had a packet wait."""
    queues: list[dict[str, Any]] = json.loads(cluster.on(node, "tc", "-s", "-j", "qdisc", "show", "dev", interface))
    return sum(int(queue["overlimits"]) for queue in queues if queue["kind"] == "tbf")


def bucket_of(cluster: LocalCluster, node: str, interface: str) -> tuple[str, int]:
    """The token bucket that holds what comes in at an interface: its own interface, and its rate in bits per second."""
    # One filter for each family of addresses leads there.
    (bucket,) = set(_REDIRECT.findall(redirects_of(cluster, node, interface)))
    # By its name: what the kernel lists of all interfaces may lack some while others come and go.
    (rate_bps,) = _rates(json.loads(cluster.on(node, "tc", "-j", "qdisc", "show", "dev", bucket)), bucket).values()
    return bucket, rate_bps


def redirects_of(cluster: LocalCluster, node: str, interface: str) -> str:
    """The filters on what comes in at an interface, as `tc` tells them."""
    return cluster.on(node, "tc", "filter", "show", "dev", interface, "parent", "ffff:").decode()
