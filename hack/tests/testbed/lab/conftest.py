"""Runs in real namespaces, all side by side and once for all tests; they need root and the built emulator."""

import asyncio

import pytest

from fairlead_dev.testbed.runs.record import RecordingLab, record
from fairlead_dev.wan.emulator import find_program

from .recorded import SCENARIOS, Run, obstacle


@pytest.fixture(scope="session")
def bench() -> RecordingLab:
    if why := obstacle():
        pytest.skip(why)
    return RecordingLab(find_program())


@pytest.fixture(scope="session")
def runs(bench: RecordingLab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")

    async def all_of_them() -> None:
        await asyncio.gather(*(record(of, folder / name, bench, number) for number, (name, of) in enumerate(SCENARIOS.items())))

    asyncio.run(all_of_them())
    return {name: Run(of, folder / name) for name, of in SCENARIOS.items()}
