"""Probes and metrics over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from guard_pods import UIDS, make_sender
from guard_programs import FakeKernel
from metric_samples import value_of

from fairlead.guard.cgroups import PodGroups
from fairlead.guard.holds import Holds, RulesRefusedError
from fairlead.guard.program import STATE
from fairlead.guard.programs import CgroupPrograms
from fairlead.guard.serve import GUARD_METRICS, metrics_page
from fairlead.pages import CONNECTIONS, PageServer, probe_page
from fairlead_dev.promtool import complaints

pytestmark = pytest.mark.asyncio
HOST = "127.0.0.1"


@asynccontextmanager
async def serving(server: PageServer) -> AsyncIterator[int]:
    async with await server.start(HOST, 0) as listener:
        yield listener.sockets[0].getsockname()[1]


async def ask(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(f"{request}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_a_probe_answers_by_the_guards_state() -> None:
    well = [True]
    async with serving(PageServer({"/healthz": probe_page(lambda: well[0])})) as port:
        assert (await ask(port, "GET /healthz HTTP/1.1")).startswith("HTTP/1.1 200")
        well[0] = False
        assert (await ask(port, "GET /healthz HTTP/1.1")).startswith("HTTP/1.1 503")
        assert (await ask(port, "GET /other HTTP/1.1")).startswith("HTTP/1.1 404")
        assert (await ask(port, "POST /healthz HTTP/1.1")).startswith("HTTP/1.1 405")


async def test_metrics_name_the_sender_that_is_not_held() -> None:
    async def ignore(_: str) -> None:
        return

    holds = Holds(programs=None, classes=None, install=ignore, check=ignore)
    await holds.apply([(make_sender(UIDS[0], address="fe80::1%5"), 8000), (make_sender(UIDS[1]), 16000)])
    async with serving(PageServer({"/metrics": metrics_page(holds)})) as port:
        text = await ask(port, "GET /metrics HTTP/1.1")
    assert 'fairlead_guard_senders{by="Nothing"} 1.0' in text
    assert 'fairlead_guard_senders{by="ControlGroup"} 0.0' in text
    assert 'fairlead_guard_sender_loose{by="Nothing",namespace="physics",pod="run42-sender"} 1.0' in text
    assert 'fairlead_guard_cap_bytes_per_second{namespace="physics",pod="run42-sender"} 2000.0' in text


async def test_every_metric_has_the_value_of_what_is_held(tmp_path: Path) -> None:
    async def refuse(_: str) -> None:
        raise RulesRefusedError("nft refused the rules")

    (tmp_path / "kubepods" / f"pod{UIDS[0]}").mkdir(parents=True)
    kernel = FakeKernel()
    holds = Holds(programs=CgroupPrograms(PodGroups(tmp_path), kernel=kernel), classes=None, install=refuse, check=refuse)
    await holds.apply([(make_sender(UIDS[0]), 8000), (make_sender(UIDS[1], pod="other-sender"), 16000)])
    *_, state = kernel.values
    kernel.write_map(state, STATE.pack(0, 3, 4500))
    async with serving(PageServer({"/metrics": metrics_page(holds)})) as port:
        _, _, text = (await ask(port, "GET /metrics HTTP/1.1")).partition("\r\n\r\n")
    held, loose = ({"namespace": "physics", "pod": pod} for pod in ("run42-sender", "other-sender"))
    expected: dict[str, list[tuple[dict[str, str], float]]] = {
        "fairlead_guard_senders": [({"by": "ControlGroup"}, 1), ({"by": "Nothing"}, 1), ({"by": "Receiver"}, 0)],
        "fairlead_guard_sender_loose": [(loose | {"by": "Nothing"}, 1)],
        "fairlead_guard_cap_bytes_per_second": [(held, 1000), (loose, 2000)],
        "fairlead_guard_dropped_packets_total": [(held, 3), (loose, 0)],
        "fairlead_guard_dropped_bytes_total": [(held, 4500), (loose, 0)],
        "fairlead_guard_rules_refused_total": [({}, 1)],
    }
    for name, values in expected.items():
        for labels, value in values:
            assert value_of(text, name, labels) == value, (name, labels)
    assert expected.keys() == {described.name for described in GUARD_METRICS}
    assert complaints(text) == ""


async def test_the_series_of_a_sender_vanish_with_it() -> None:
    async def ignore(_: str) -> None:
        return

    holds = Holds(programs=None, classes=None, install=ignore, check=ignore)
    await holds.apply([(make_sender(UIDS[0]), 8000), (make_sender(UIDS[1], pod="other-sender"), 16000)])
    await holds.apply([(make_sender(UIDS[1], pod="other-sender"), 16000)])
    async with serving(PageServer({"/metrics": metrics_page(holds)})) as port:
        text = await ask(port, "GET /metrics HTTP/1.1")
    assert 'pod="other-sender"' in text
    assert "run42-sender" not in text


async def test_idle_connections_do_not_keep_a_probe_out() -> None:
    async with serving(PageServer({"/healthz": probe_page(lambda: True)})) as port:
        idle = [await asyncio.open_connection(HOST, port) for _ in range(3 * CONNECTIONS)]
        assert (await ask(port, "GET /healthz HTTP/1.1")).startswith("HTTP/1.1 200")
        for _, writer in idle:
            writer.close()
