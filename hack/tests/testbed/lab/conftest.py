"""Runs in real namespaces, all side by side and once for all tests; they need root and the built emulator."""

import asyncio

import pytest

from fairlead_dev.testbed.runs.record import RecordingLab, record
from fairlead_dev.wan.emulator import find_program

from .recorded import SCENARIOS, Run, obstacle

PAUSE_MS = 300
"""A run that is later than this stood still, which one of a few seconds does not survive."""
MOST_RECORDINGS = 6


@pytest.fixture(scope="session")
def bench() -> RecordingLab:
    if why := obstacle():
        pytest.skip(why)
    return RecordingLab(find_program())


@pytest.fixture(scope="session")
def runs(bench: RecordingLab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")

    async def all_of_them() -> None:
        names = list(SCENARIOS)
        for _ in range(MOST_RECORDINGS):
            await asyncio.gather(*(record(SCENARIOS[name], folder / name, bench, number) for number, name in enumerate(names)))
            # By their clocks alone: what the tests look at must not decide which runs they see.
            names = [name for name in names if Run(SCENARIOS[name], folder / name).latest_ms > PAUSE_MS]
            if not names:
                return

    asyncio.run(all_of_them())
    return {name: Run(of, folder / name) for name, of in SCENARIOS.items()}
