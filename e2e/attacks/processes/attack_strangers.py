"""Strangers in numbers at the ports of movers: the data port, and the pages."""

from __future__ import annotations

import asyncio
import itertools
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from e2e.attacks.lib.forged import connect
from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.movers import ADDRESS, Mover, Movers, succeeded

ONE_WAY_S = 0.064
IDLE = 5000
KEPT_OPEN = 400
PATIENCE_S = 10.0


class Flood:
    """Connects again and again from 200 addresses, says nothing, and keeps the last connections open."""

    def __init__(self, port: int) -> None:
        self.connected, self.seconds = 0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port,), daemon=True)

    def __enter__(self) -> Flood:
        self._thread.start()
        while self.connected < KEPT_OPEN:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def rate(self) -> int:
        """Connections a second."""
        return round(self.connected / max(self.seconds, 1e-3))

    def _run(self, port: int) -> None:
        began_s, kept = time.monotonic(), deque[socket.socket]()
        for number in itertools.count():
            if self._over.is_set():
                return
            with suppress(OSError):
                kept.append(connect(port, f"127.2.0.{number % 200 + 1}"))
                self.connected += 1
            if len(kept) > KEPT_OPEN:
                kept.popleft().close()
            self.seconds = time.monotonic() - began_s
            # No more than 1,500 a second.
            time.sleep(max(0.0, self.connected / 1500 - self.seconds))


@contextmanager
def far_away(port: int) -> Iterator[int]:
    """A port from which everything takes 64 ms to a receiver, and as long back."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while piece := await reader.read(1 << 16):
                loop.call_later(ONE_WAY_S, writer.write, piece)
        loop.call_later(ONE_WAY_S, writer.close)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The connection and its first bytes arrive together, as they do on a long path.
        first = await reader.read(1 << 16)
        await asyncio.sleep(ONE_WAY_S)
        onward_reader, onward = await asyncio.open_connection(ADDRESS, port)
        onward.write(first)
        await asyncio.gather(carry(reader, onward), carry(onward_reader, writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, ADDRESS, 0), loop).result()
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@gains("keeps a job's sender from its receiver")
def attack_by_a_thousand_a_second_over_a_path_of_128_ms(movers: Movers, judge: Judge) -> None:
    """Strangers make over a thousand connections a second to a receiver whose sender is 128 ms away."""
    movers.write("own", bytes(1 << 20))
    receiver = movers.receiver("--peer-timeout", "25")
    with far_away(receiver.port) as port, Flood(receiver.port) as flood:
        ends = movers.sender(port, "--peer-timeout", "15").end(), receiver.end()
    judge(succeeded(*ends), f"{flood.rate} a second; {'; '.join(map(str, ends))}")
    receiver = movers.receiver("--overwrite", "Always")
    with far_away(receiver.port) as port:
        assert succeeded(movers.sender(port).end(), receiver.end())


_HOLD = """
import contextlib, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
host, port, count, held = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), []
for number in range(count):
    with contextlib.suppress(OSError):
        held.append(socket.create_connection((host, port), 5, (f"127.3.0.{number % 5 + 1}", 0)))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def _idle(port: int) -> Iterator[None]:
    """Another process holds connections that say nothing."""
    arguments = [sys.executable, "-c", _HOLD, ADDRESS, str(port), str(IDLE)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


@contextmanager
def _usual_descriptors() -> Iterator[None]:
    """Programs that are started meanwhile have the usual soft limit of 1,024 descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _pages(mover: Mover) -> int:
    return int(mover.await_event("http")["address"].rpartition(":")[2])


def _status(port: int) -> str:
    """The first line of the answer to a probe; empty if there is none in time."""
    with suppress(OSError), connect(port) as stream:
        stream.settimeout(PATIENCE_S)
        stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: mover\r\nConnection: close\r\n\r\n")
        return stream.recv(64).partition(b"\r\n")[0].decode(errors="replace")
    return ""


@gains("has a mover fail for want of descriptors")
def attack_by_5000_idle_connections_to_the_pages(movers: Movers, judge: Judge) -> None:
    """A stranger opens 5,000 connections to the receiver's HTTP port and says nothing."""
    movers.write("own", bytes(1 << 20))
    with _usual_descriptors():
        receiver = movers.receiver("--http", f"{ADDRESS}:0")
    pages = _pages(receiver)
    assert "200" in _status(pages)
    with _idle(pages):
        answered = _status(pages)
        ends = movers.sender(receiver.port).end(), receiver.end(60)
    judge("200" in answered and succeeded(*ends), f"probe: {answered or 'no answer'}; {'; '.join(map(str, ends))}")


@gains("has a mover fail for want of descriptors")
def attack_by_5000_idle_connections_to_the_data_port(movers: Movers, judge: Judge) -> None:
    """A stranger opens 5,000 connections to the receiver's data port and says nothing."""
    movers.write("own", bytes(1 << 20))
    with _usual_descriptors():
        receiver = movers.receiver()
    with _idle(receiver.port):
        ends = movers.sender(receiver.port).end(), receiver.end()
    judge(succeeded(*ends), "; ".join(map(str, ends)))


@gains("holds a mover's descriptors for ever")
def attack_by_a_header_that_never_ends(movers: Movers, judge: Judge) -> None:
    """A stranger sends a byte of a request's header now and then to the receiver's HTTP port."""
    receiver = movers.receiver("--http", f"{ADDRESS}:0", "--peer-timeout", "60")
    pages = _pages(receiver)
    assert "200" in _status(pages)
    ended_s, began_s = 0.0, time.monotonic()
    with connect(pages) as stream:
        stream.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        stream.settimeout(0.5)
        while not ended_s and time.monotonic() - began_s < 20:
            try:
                stream.sendall(b"y")
                if not stream.recv(64):
                    ended_s = time.monotonic() - began_s
            except TimeoutError:
                continue
            except OSError:
                ended_s = time.monotonic() - began_s
    judge(bool(ended_s), f"ended after {ended_s:.0f} s" if ended_s else "still open after 20 s")
    receiver.stop()
