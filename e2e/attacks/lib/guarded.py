"""A sender's pod on a node with the guard of the attacked checkout: real processes in a control group, network and API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from lab import transfer_job

from e2e.attacks.lib.victim import Site
from fairlead.api import names
from fairlead.kube.client import JOBS, PODS, KubeObject

NODE = "dtn-a"
CAP, CAP_BPS = "8M", 8_000_000
HELD_RATIO = 1.5
"""Above this a flood is not held; what is not held is some hundred times the cap here."""
SETTLE_S, MEASURED_S = 3.0, 3.0
"""Rules of nftables let up to two seconds' worth through at once."""
START_S = 120.0
DEVICE, RECEIVER, SECOND_SOURCE, RECEIVER_V6 = "data9", "198.18.9.2", "198.18.9.5", "fd00:9::2"
PORT, OTHER_PORT = 24000, 31000
TABLE = "fairlead_guard"
METRICS = "http://127.0.0.1:9810/metrics"

_SINK = """
import socket, threading
def drain(connection):
    with connection:
        while connection.recv(1 << 20): pass
def serve(listener):
    while True: threading.Thread(target=drain, args=(listener.accept()[0],), daemon=True).start()
for port in (24000, 31000):
    threading.Thread(target=serve, args=(socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True),)).start()
print("ready", flush=True)
"""
_FLOOD = """
import socket, sys, time
kind, address, port, source, seconds = sys.argv[1:]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
end = time.monotonic() + float(seconds)
sender = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
sender.settimeout(1)
if source: sender.bind((source, 0))
while time.monotonic() < end:
    try: sender.connect((address, int(port))); break
    except OSError: time.sleep(0.05)
while time.monotonic() < end:
    try: sender.send(bytes(1400 if kind == "udp" else 65536))
    except OSError: pass
"""


@dataclass
class GuardedSender:
    """The sender's pod of a job with a cap of 8 Mb/s, and the guard of its node."""

    site: Site
    job: KubeObject
    pod: KubeObject
    group: Path
    log: Path
    guard: asyncio.subprocess.Process | None = None

    async def flood(self, kind: str, *, address: str = RECEIVER, port: int = PORT, source: str = "", container: str = "container") -> float:
        """Sends as fast as it can from a process of the pod; the rate on the wire as a share of the cap, once bursts are over."""
        group = self.group / container
        group.mkdir(exist_ok=True)
        words = (sys.executable, "-c", _FLOOD, kind, address, str(port), source, str(SETTLE_S + MEASURED_S + 1))
        process = await asyncio.create_subprocess_exec("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *words)
        try:
            await asyncio.sleep(SETTLE_S)
            before, started_s = _sent_bytes(), asyncio.get_running_loop().time()
            await asyncio.sleep(MEASURED_S)
            sent, took_s = _sent_bytes() - before, asyncio.get_running_loop().time() - started_s
        finally:
            process.kill()
            await process.wait()
        return sent * 8 / took_s / CAP_BPS

    async def start_guard(self) -> None:
        """Starts the guard and waits until it says that it holds the sender."""
        environment = os.environ | {"FAIRLEAD_NODE": NODE}
        words = (str(self.site.target.python), "-m", "fairlead", "guard", f"--kubeconfig={self.site.kubectl.kubeconfig}")
        with self.log.open("ab") as output:
            self.guard = await asyncio.create_subprocess_exec(
                *words, env=environment, cwd=self.site.target.root, stdout=output, stderr=output
            )
        await until(self._holds, "the guard holds the sender")

    async def stop_guard(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends the guard as a kubelet does, or the kernel."""
        if self.guard is not None and self.guard.returncode is None:
            self.guard.send_signal(number)
            await self.guard.wait()
        self.guard = None

    async def make_pod(self, attempt: int, receiver: str, annotation: str = CAP) -> KubeObject:
        """A running sender's pod of the job, with what its receiver reported and what is annotated."""
        uid, client = str(self.job["metadata"]["uid"]), self.site.client
        made = await client.create(PODS, self.site.namespace, sender_pod("job", uid, attempt, receiver, annotation))
        status = {"status": {"phase": "Running"}}
        return await client.merge_patch(PODS, self.site.namespace, made["metadata"]["name"], status, subresource="status")

    async def annotate(self, cap: str | None) -> None:
        """Rewrites the annotation with the cap."""
        patch = {"metadata": {"annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: cap}}}
        await self.site.client.merge_patch(PODS, self.site.namespace, self.pod["metadata"]["name"], patch)

    async def _holds(self) -> bool:
        assert self.guard is not None
        if self.guard.returncode is not None:
            raise RuntimeError(f"the guard ended: {self.log.read_text(errors='replace')[-500:]}")
        if f"dport {PORT} limit" in _nft("list", "ruleset"):
            return True
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(METRICS) as answer:
                return f'pod="{self.pod["metadata"]["name"]}"' in await answer.text()
        return False


@contextlib.asynccontextmanager
async def guarded_sender(site: Site) -> AsyncIterator[GuardedSender]:
    """A sender that the guard holds: a flood to its receiver by TCP stays at the cap before the attack begins."""
    manifest = transfer_job(site.namespace, "job")
    manifest["spec"]["suspend"] = True
    job = await site.client.create(JOBS, site.namespace, manifest)
    status = {"status": {"bandwidth": {"allocated": CAP, "enforcedBy": "TrafficControl"}}}
    job = await site.client.merge_patch(JOBS, site.namespace, "job", status, subresource="status")
    sender = GuardedSender(site, job, {}, Path(), site.folder / "guard.log")
    sender.pod = await sender.make_pod(1, f"{RECEIVER}:{PORT}")
    with _control_group(str(sender.pod["metadata"]["uid"])) as sender.group, _network(site.folder):
        try:
            await sender.start_guard()
            rate = await sender.flood("tcp")
            assert 0 < rate < HELD_RATIO, f"a flood to the receiver reaches {rate:.2f} of the cap: the guard does not hold even that"
            yield sender
        finally:
            await sender.stop_guard()
            _nft("-f", "-", script=f"table inet {TABLE}\ndelete table inet {TABLE}\n")


def sender_pod(job: str, uid: str, attempt: int, receiver: str, annotation: str) -> dict[str, Any]:
    """The pod as the operator makes it, in what the guard reads."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": job, "uid": uid, "controller": True, "blockOwnerDeletion": True}
    labels = {
        names.LABEL_JOB_UID: uid,
        names.LABEL_ROLE: "sender",
        names.LABEL_ATTEMPT: str(attempt),
        names.LABEL_MANAGED_BY: names.MANAGER,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.child_name(job, uid, "sender", attempt),
            "labels": labels,
            "ownerReferences": [owner],
            "annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: annotation},
        },
        "spec": {
            "nodeName": NODE,
            "hostNetwork": True,
            "containers": [{"name": "mover", "image": "mover", "args": ["send", f"--connect={receiver}"]}],
        },
    }


async def until(condition: Any, what: str) -> None:
    """Waits until the coroutine function answers True. Raises RuntimeError past the limit."""
    deadline_s = asyncio.get_running_loop().time() + START_S
    while not await condition():
        if asyncio.get_running_loop().time() > deadline_s:
            raise RuntimeError(f"not within {START_S:.0f} s: {what}")
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def _control_group(uid: str) -> Iterator[Path]:
    mounted = Path("/sys/fs/cgroup")
    unified = mounted if (mounted / "cgroup.controllers").exists() else mounted / "unified"
    root = unified / f"fairlead-attack-{os.getpid()}"
    group = root / "kubepods" / f"pod{uid}"
    group.mkdir(parents=True)
    try:
        yield group
    finally:
        for folder in (*group.iterdir(), group, group.parent, root):
            if folder.is_dir():
                folder.rmdir()


@contextlib.contextmanager
def _network(folder: Path) -> Iterator[None]:
    """A receiver in a namespace of its own, one link away."""
    name = f"fairlead-attack-{os.getpid()}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", name)
        for where, v4, v6 in (((), "198.18.9.1/24", "fd00:9::1/64"), (("-n", name), f"{RECEIVER}/24", f"{RECEIVER_V6}/64")):
            ip(*where, "addr", "add", v4, "dev", DEVICE)
            ip(*where, "addr", "add", v6, "dev", DEVICE, "nodad")
            ip(*where, "link", "set", DEVICE, "up")
        ip("addr", "add", f"{SECOND_SOURCE}/24", "dev", DEVICE)
        words = ["ip", "netns", "exec", name, sys.executable, "-c", _SINK]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as sink:
            assert sink.stdout is not None
            assert sink.stdout.readline() == b"ready\n"
            try:
                yield
            finally:
                sink.kill()
    finally:
        ip("netns", "del", name)


def _nft(*words: str, script: str = "") -> str:
    return subprocess.run(["nft", *words], input=script, capture_output=True, text=True, check=True).stdout


def _sent_bytes() -> int:
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == DEVICE:
            return int(counters.split()[8])
    raise RuntimeError(f"there is no {DEVICE}")
