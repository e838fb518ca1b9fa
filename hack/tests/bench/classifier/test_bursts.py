from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.store import find_model
from fairlead_dev.bench.classifier.active import bursts
from fairlead_dev.bench.classifier.active.bursts import compare, look
from fairlead_dev.testbed.data import BurstPackets, RawTrace, write_burst_packets, write_runs, write_split
from fairlead_dev.testbed.dataset.bursts import bursts_of
from fairlead_dev.testbed.scenario.model import BURST_PACKET_BYTES
from fairlead_dev.testbed.scenario.model import Path as NetworkPath

PATH = NetworkPath(rate_bps=20_000_000, rtt_ms=40, buffer_bdp=1)
BURSTS = bursts_of(PATH, 60)
PATHS = tuple(f"p{number}" for number in range(6))


def packets_of(name: str, answered: int) -> BurstPackets:
    """Packets behind an empty queue; of pushes only so many in a hundred come back."""
    times_s, rtts_ms = [], []
    for burst in BURSTS:
        number = np.arange(burst.packets)
        times_s.append(burst.start_s + number * burst.seconds / burst.packets)
        waits_ms = (1 + number) * BURST_PACKET_BYTES * 8 / PATH.rate_bps * 1000
        rtts_ms.append(np.where(number % 100 < (100 if burst.rate_bps is None else answered), PATH.rtt_ms + waits_ms, np.nan))
    return BurstPackets(name, np.concatenate(times_s), np.concatenate(rtts_ms))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Traces that say nothing, and bursts whose losses tell the class."""
    draws = np.random.default_rng(1)
    traces, packets, runs = [], [], []
    for path in PATHS:
        for number, class_name in enumerate(CLASSES):
            name = f"{path}__{class_name}__b0"
            traces.append(RawTrace(name, 50.0, (np.arange(3000) / 50).tolist(), (40 + draws.random(3000)).tolist()))
            packets.append(packets_of(name, 100 - 15 * number))
            planned = [burst.model_dump(mode="json") for burst in BURSTS]
            about = {"name": name, "path_id": path, "class": class_name, "seed": "b0", "duration_s": 60, "rate_bps": PATH.rate_bps}
            runs.append({**about, "bursts": planned})
    write_split(tmp_path / "bursts.npz", traces)
    write_burst_packets(tmp_path, packets)
    write_runs(tmp_path, runs)
    return tmp_path


def test_every_cycle_is_a_row_and_its_trains_tell_the_rate(data: Path) -> None:
    looks = look(data, find_model(None))
    assert len(looks.truth) == len(looks.first) == len(looks.longer) == len(looks.response) == len(PATHS) * 6 * 2
    assert looks.rate_errors().max() < 0.01


def test_a_second_step_learns_on_other_paths_what_bursts_show_and_a_passive_one_does_not(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bursts, "REPEATS", 1)
    looks = look(data, find_model(None))
    found = {(result.name, result.learner): result.macro_f1 for result in compare(looks, {})}
    assert found["passive 10 s, bursts 10 s", "boosting"] > 0.7
    assert found["passive 10 s", "boosting"] < 0.5
