"""What the agent serves, over real connections."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from host_trees import MELLANOX, TWO_SOCKETS, VIRTUAL, tree
from metric_samples import value_of

from fairlead.agent.collect import Collector
from fairlead.agent.files import HostFiles
from fairlead.agent.links import Link
from fairlead.agent.loop import ALIVE_SECONDS, Agent, Writes
from fairlead.agent.serve import FRESH_SECONDS, NODE_METRICS, InterfaceCounters, metrics_page, node_page
from fairlead.agent.storage import Space, StorageReader
from fairlead.api.datatransfernode.status import AgentStatus
from fairlead.kube.errors import UnavailableError
from fairlead.pages import PageServer
from fairlead_dev.promtool import complaints

pytestmark = pytest.mark.asyncio
HOST = "127.0.0.1"


class Node:
    """An agent over recorded files that writes nowhere."""

    def __init__(self, files: HostFiles) -> None:
        self.seconds = 1000.0
        storage = StorageReader({"/data": Path("/data")}, lambda folder: Space(1000, 400))
        collector = Collector(
            files=files,
            links=lambda names: [Link(name, is_up=True, has_carrier=True, addresses=("198.18.0.1/24",)) for name in names],
            storage=storage,
            management=(),
            agent=AgentStatus(instance="one"),
            clock=lambda: self.seconds,
        )

        async def look() -> Any:
            return collector.look()

        self.refusal: Exception | None = None
        node = self

        class Server:
            async def merge_patch(self, *_: Any, **__: Any) -> Any:
                if node.refusal is not None:
                    raise node.refusal
                return {}

        self.agent = Agent(
            node="dtn-a",
            look=look,
            client=cast(Writes, Server()),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            monotonic=lambda: self.seconds,
            chance=lambda: 0.0,
        )
        self.counters = InterfaceCounters(self.agent, files, lambda: self.seconds, lambda: 1.75e9)

    async def get(self, path: str) -> tuple[str, str]:
        pages = {"/v1/node": node_page("dtn-a", self.agent, self.counters), "/metrics": metrics_page(self.agent, self.counters)}
        async with await PageServer(pages).start(HOST, 0) as listener:
            reader, writer = await asyncio.open_connection(HOST, listener.sockets[0].getsockname()[1])
            writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
            writer.close()
            return head, body


async def test_the_report_comes_with_the_counters_of_this_moment(tmp_path: Path) -> None:
    node = Node(tree(tmp_path, MELLANOX, TWO_SOCKETS))
    assert (await node.get("/v1/node"))[0].startswith("HTTP/1.1 503")
    await node.agent.step()
    head, body = await node.get("/v1/node")
    assert "application/json" in head
    shown = json.loads(body)
    assert (shown["version"], shown["node"], shown["cpus"], shown["load"]) == (1, "dtn-a", 32, "Moderate")
    assert shown["storage"] == [{"path": "/data", "totalBytes": 1000, "freeBytes": 400}]
    # Interfaces whose driver has no counters have none here.
    assert shown["counters"] == {"ens1f0np0": {"transmit_bytes": 1234567890123, "receive_bytes": 987}}
    assert shown["read_at"] == {"monotonic_seconds": 1000.0, "wall_seconds": 1.75e9}
    (tmp_path / "sys/class/net/ens1f0np0/statistics/tx_bytes").write_text("1234567890999\n")
    assert json.loads((await node.get("/v1/node"))[1])["counters"] == shown["counters"]
    node.seconds += 2 * FRESH_SECONDS
    assert json.loads((await node.get("/v1/node"))[1])["counters"]["ens1f0np0"]["transmit_bytes"] == 1234567890999


async def test_metrics_have_counters_speed_and_space(tmp_path: Path) -> None:
    node = Node(tree(tmp_path, MELLANOX, VIRTUAL))
    await node.agent.step()
    _, text = await node.get("/metrics")
    assert 'fairlead_node_transmit_bytes_total{interface="data0"} 7.0' in text
    assert 'fairlead_node_speed_bytes_per_second{interface="ens1f0np0"} 1.25e+10' in text
    assert 'fairlead_node_speed_bytes_per_second{interface="data0"}' not in text
    assert 'fairlead_node_carrier{interface="data0"} 1.0' in text
    assert 'fairlead_node_storage_free_bytes{path="/data"} 400.0' in text
    assert "fairlead_node_report_writes_total 1.0" in text


async def test_every_metric_has_the_value_of_the_node(tmp_path: Path) -> None:
    node = Node(tree(tmp_path, MELLANOX, VIRTUAL))
    await node.agent.step()
    node.refusal = UnavailableError("the API server is away")
    node.seconds += ALIVE_SECONDS
    await node.agent.step()
    _, text = await node.get("/metrics")
    expected: dict[str, list[tuple[dict[str, str], float]]] = {
        "fairlead_node_transmit_bytes_total": [({"interface": "ens1f0np0"}, 1234567890123), ({"interface": "data0"}, 7)],
        "fairlead_node_receive_bytes_total": [({"interface": "ens1f0np0"}, 987), ({"interface": "data0"}, 8)],
        "fairlead_node_carrier": [({"interface": "data0"}, 1)],
        "fairlead_node_speed_bytes_per_second": [({"interface": "ens1f0np0"}, 100e9 / 8)],
        "fairlead_node_storage_free_bytes": [({"path": "/data"}, 400)],
        "fairlead_node_storage_size_bytes": [({"path": "/data"}, 1000)],
        "fairlead_node_report_writes_total": [({}, 2)],
        "fairlead_node_report_failures_total": [({}, 1)],
    }
    for name, values in expected.items():
        for labels, value in values:
            assert value_of(text, name, labels) == value, (name, labels)
    assert expected.keys() == {described.name for described in NODE_METRICS}
    assert complaints(text) == ""
