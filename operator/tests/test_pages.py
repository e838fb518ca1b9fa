from __future__ import annotations

import asyncio

import pytest
from local_ports import free_port

from fairlead.pages import PageServer, probe_page


@pytest.mark.asyncio
async def test_without_a_host_pages_are_served_in_both_families() -> None:
    port = free_port()
    async with await PageServer({"/healthz": probe_page(lambda: True)}).start("", port):
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
