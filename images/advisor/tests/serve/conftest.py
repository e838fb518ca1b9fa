"""The sidecar as a process, between an echo service and a mover's control socket."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from tests.support.command import PATIENCE_S, Outcome, finish, start
from tests.support.echo_server import echo_server, prompt
from tests.support.fake_mover import FakeMover, serving_mover
from tests.support.models import METADATA, tiny_model, write_model

WINDOW_S = 2.0


@dataclass
class Running:
    process: asyncio.subprocess.Process
    url: str
    http: aiohttp.ClientSession

    async def get(self, path: str) -> tuple[int, Any]:
        try:
            async with self.http.get(self.url + path) as response:
                return response.status, await (response.json() if response.content_type == "application/json" else response.text())
        except aiohttp.ClientConnectionError:
            return 0, None

    async def until(self, path: str, satisfied: Callable[[int, Any], bool]) -> Any:
        """The body of the first answer that satisfies."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                status, body = await self.get(path)
                if status != 0 and satisfied(status, body):
                    return body
                assert self.process.returncode is None, "the sidecar ended"
                await asyncio.sleep(0.02)

    async def decision(self, *, applied: bool = True) -> Any:
        return await self.until("/v1/decision", lambda status, body: status == 200 and body["applied"] == applied)

    async def stop(self) -> Outcome:
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(finish(self.process), PATIENCE_S)


Start = Callable[..., Awaitable[Running]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first. Workers take one at a time."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def own_loopback_address() -> str:
    """An address of this process alone: all its ports below those that the kernel gives out are free."""
    number = os.getpid()
    return f"127.{64 + number // 65536 % 128}.{number // 256 % 256}.{number % 256}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Says B1-C0 for sure of whatever it sees, on windows short enough for a test."""
    weights = np.zeros((len(NAMES), len(CLASSES)))
    weights[NAMES.index("spectral_entropy"), CLASSES.index("B1-C0")] = 60.0
    # A pause of the machine may spoil the first window. The second one is long enough for several.
    metadata = replace(METADATA, window_s=(WINDOW_S, 5 * WINDOW_S), maximum_novelty=50.0)
    return write_model(tmp_path / "model.onnx", tiny_model(metadata, weights))


@pytest.fixture
def control_socket(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.fixture
async def sidecar(tmp_path: Path, control_socket: Path) -> AsyncIterator[Start]:
    started: list[Running] = []
    ports = itertools.count(20000)

    async def begin(*arguments: object, environment: Mapping[str, str] | None = None) -> Running:
        address = f"{own_loopback_address()}:{next(ports)}"
        files = ("--control-socket", control_socket, "--trace", tmp_path / "trace.csv")
        process = await start("run", "--http", address, *files, "--seconds", 1, "--model", "none", *arguments, environment=environment)
        running = Running(process, f"http://{address}", aiohttp.ClientSession())
        started.append(running)
        await running.until("/healthz", lambda status, _body: status == 200)
        return running

    yield begin
    for running in started:
        await running.http.close()
        if running.process.returncode is None:
            running.process.kill()
            await running.process.communicate()


@asynccontextmanager
async def met_mover(control_socket: Path, mover: FakeMover, behaviour: Any = prompt) -> AsyncIterator[FakeMover]:
    async with echo_server(behaviour) as echo, serving_mover(mover, control_socket):
        mover.meet(echo.port)
        yield mover
