"""A cluster is taken for broken when it is, and not for one late answer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_dev.cluster.cluster import HEALTH_PATIENCE_S, Cluster
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine.progress import BuildProgress


class FakeClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float, /) -> None:
        self.now_s += seconds


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    paths = Layout(tmp_path / "checkout", tmp_path / "cache", tmp_path / "state", tmp_path / "target")
    return Cluster(paths, BuildProgress(io.StringIO()))


def test_a_cluster_that_answers_late_is_healthy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[str | None] = iter(["the API server does not answer", "not Ready: dtn-a", None])
    monkeypatch.setattr(cluster, "_ended", lambda: None)
    monkeypatch.setattr(cluster, "_unhealthy", lambda: next(answers))
    assert cluster.lasting_trouble(FakeClock()) is None


def test_trouble_that_lasts_is_told_after_some_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(cluster, "_ended", lambda: None)
    monkeypatch.setattr(cluster, "_unhealthy", lambda: "not Ready: dtn-a")
    assert cluster.lasting_trouble(clock) == "not Ready: dtn-a"
    assert clock.now_s == HEALTH_PATIENCE_S


def test_a_cluster_that_does_not_run_is_not_waited_for(cluster: Cluster) -> None:
    clock = FakeClock()
    assert cluster.lasting_trouble(clock) == cluster.trouble() == "it is not up"
    assert clock.now_s == 0


def test_a_start_asks_again_before_it_removes_a_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "preflight", lambda install: None)
    monkeypatch.setattr(cluster, "trouble", lambda: "the API server does not answer")
    monkeypatch.setattr(cluster, "lasting_trouble", lambda: None)
    cluster.up({}, install=False, project_images=True)
