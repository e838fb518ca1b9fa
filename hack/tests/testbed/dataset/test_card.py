from typing import Any

from fairlead_dev.testbed.dataset.card import card


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "specification": {"name": "tiny", "seed": 3, "probe_rate_hz": 50.0},
        "planned": 2,
        "recorded": 2,
        "disturbed": [],
        "missing": [],
        "runs": {"train": {"B0-C1": 1}, "test_seeds": {"B0-C1": 1}, "test_paths": {}, "test_kinds": {}, "active": {}},
        "machine": {"kernel": ["6.18"], "cpus": [2]},
        "versions": {"python": ["3.11.7"]},
        **changes,
    }


def run(rtt_ms: float) -> dict[str, Any]:
    return {
        "path_id": "p0",
        "duration_s": 1800,
        "rate_bps": 50_000_000,
        "rtt_ms": rtt_ms,
        "queue_bdp": 1.0,
        "loss_ratio": 0.0,
        "bbr_flows": 0,
        "cubic_flows": 1,
        "write_lateness_us": {"p99": 200.0},
        "idle_rtt_ms": {"min": rtt_ms + 0.2, "p50": rtt_ms + 0.3, "p95": rtt_ms + 0.6},
        "requests": 100,
        "answered": 99,
    }


def test_the_card_says_what_there_is_from_where_and_how_good() -> None:
    text = card(manifest(), [run(20), run(40)])
    assert "2 recordings, 1.0 hours" in text
    assert "| `train` | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "| RTT (ms) | 20 | 30 | 40 |" in text
    assert "seed 3" in text and "Linux 6.18, 2 processors" in text and "python 3.11.7" in text
    assert "| spread of the idle path's RTT, p95 - least (ms) | 0.4 | 0.4 |" in text
    assert "test_paths" not in text.split("## Ranges")[0].split("## Recordings")[1]


def test_what_is_missing_or_disturbed_stands_at_the_top() -> None:
    text = card(manifest(missing=["a", "b", "c"], planned=5, disturbed=["d"]), [run(20)])
    top = text.split("## Use")[0]
    assert "3 of 5 planned recordings are missing" in top
    assert "1 recordings were disturbed" in top


def test_the_card_names_the_queues_that_there_are() -> None:
    assert "One bottleneck with a drop-tail buffer" in card(manifest(), [run(20)])
    text = card(manifest(), [{**run(20), "queue": "fq-codel"}, run(40)])
    assert "the queue that its line names (drop-tail, fq-codel)" in text
    assert "carried by `fairlead-wan` on one machine" in text
