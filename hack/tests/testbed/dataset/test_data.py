import math
from pathlib import Path

import numpy as np
import pytest

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.data import BurstPackets, RawTrace, read_burst_packets, read_split, write_burst_packets, write_runs, write_split


def trace(name: str, rtts_ms: list[float], late_s: float = 0.0005) -> RawTrace:
    return RawTrace(name, 50.0, [index / 50 + late_s * (index % 2) for index in range(len(rtts_ms))], rtts_ms)


def packed(folder: Path, *traces: RawTrace) -> Path:
    write_split(folder / "train.npz", traces)
    write_runs(folder, [{"name": one.name, "class": "B0-C1"} for one in traces])
    return folder


def test_what_is_packed_comes_back_to_a_few_microseconds(tmp_path: Path) -> None:
    rtts_ms = [40.0 + 60 * abs(math.sin(index / 7)) for index in range(500)]
    one, other = read_split(packed(tmp_path, trace("a", rtts_ms), trace("b", rtts_ms[:100])), "train")
    assert (one.name, other.name, len(other.rtts_ms)) == ("a", "b", 100)
    assert one.run["class"] == "B0-C1"
    np.testing.assert_allclose(one.rtts_ms, rtts_ms, atol=0.002)
    np.testing.assert_allclose(one.send_times_s, trace("a", rtts_ms).send_times_s, atol=1e-5)


def test_lost_requests_stay_lost_and_the_largest_value_is_not_taken_for_one(tmp_path: Path) -> None:
    (recording,) = read_split(packed(tmp_path, trace("a", [10.0, math.nan, 1500.0])), "train")
    assert math.isnan(recording.rtts_ms[1])
    np.testing.assert_allclose(recording.rtts_ms[[0, 2]], [10.0, 1500.0], atol=0.03)


def test_packets_of_bursts_come_back_with_their_times_and_losses(tmp_path: Path) -> None:
    times_s = np.array([20.2, 20.2, 20.2, 21.502])
    runs = [BurstPackets(name, times_s + shift, np.array([40.0, 40.25, math.nan, 55.5])) for shift, name in enumerate("ab")]
    write_burst_packets(tmp_path, runs)
    found = read_burst_packets(tmp_path)
    assert list(found) == ["a", "b"]
    np.testing.assert_allclose(found["b"].send_times_s, times_s + 1, atol=1e-6)
    np.testing.assert_allclose(found["b"].rtts_ms, runs[1].rtts_ms, atol=1e-3)


def test_a_data_set_without_bursts_says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandUsageError, match="has no bursts"):
        read_burst_packets(tmp_path)


def test_a_trace_without_any_answer_is_kept(tmp_path: Path) -> None:
    (recording,) = read_split(packed(tmp_path, trace("a", [math.nan, math.nan])), "train")
    assert np.isnan(recording.rtts_ms).all()


def test_a_first_request_later_than_the_others_does_not_lose_their_times(tmp_path: Path) -> None:
    late_first = RawTrace("a", 50.0, [0.0, 0.018, 0.038], [1.0, 2.0, 3.0])
    (recording,) = read_split(packed(tmp_path, late_first), "train")
    np.testing.assert_allclose(np.diff(recording.send_times_s), [0.018, 0.020], atol=1e-5)


@pytest.mark.parametrize("rate_hz", [30.0, 50.0])
def test_requests_that_left_together_after_a_pause_stay_in_order(tmp_path: Path, rate_hz: float) -> None:
    paused_s = [index / rate_hz for index in range(10)] + [0.5 + index * 1e-6 for index in range(5)]
    (recording,) = read_split(packed(tmp_path, RawTrace("a", rate_hz, paused_s, [1.0] * 15)), "train")
    assert (np.diff(recording.send_times_s) > 0).all()
    np.testing.assert_allclose(recording.send_times_s, paused_s, atol=1.5e-4)


def test_the_same_traces_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        packed(tmp_path / name, trace("a", [1.0, 2.0, math.nan]))
    for file in ("train.npz", "runs.jsonl.gz"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_missing_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CommandUsageError, match=r"runs\.jsonl\.gz: cannot be read"):
        list(read_split(tmp_path, "train"))
    packed(tmp_path, trace("a", [1.0, 2.0]))
    with pytest.raises(CommandUsageError, match="no split 'test_paths'"):
        list(read_split(tmp_path, "test_paths"))
    write_runs(tmp_path, [{"name": "b"}])
    with pytest.raises(CommandUsageError, match="different data sets"):
        list(read_split(tmp_path, "train"))
    (tmp_path / "train.npz").write_bytes((tmp_path / "train.npz").read_bytes()[:200])
    with pytest.raises(CommandUsageError, match=r"train\.npz: is damaged"):
        list(read_split(tmp_path, "train"))
    (tmp_path / "runs.jsonl.gz").write_bytes(b"nothing of the kind")
    with pytest.raises(CommandUsageError, match=r"runs\.jsonl\.gz: cannot be read"):
        list(read_split(tmp_path, "train"))
