import json
from pathlib import Path

import pytest

from fairlead_dev.bench.decisions.stream_counts import FOLDER, SCENES, Sweep, falcon_figures, figures, read_rows


def row(scene: str, who: str, mbps: float) -> dict[str, object]:
    return {"name": f"parallelism_{scene}_{who}", "value": mbps, "unit": "Mb/s"}


def scene_rows(scene: str, own_mbps: float) -> list[dict[str, object]]:
    counts = [row(scene, "4", 50.0), row(scene, "8", 80.0), row(scene, "16", 100.0), row(scene, "falcon", own_mbps + 40)]
    cost = {"clean": 0.01, "lossy": 0.015}.get(scene, 0.012)
    return [*counts, row(scene, "advisor", own_mbps), {"name": f"sidecar_{scene}_cpu", "value": cost, "unit": "cores"}]


def test_the_worst_scene_is_the_figure() -> None:
    found = figures({scene: scene_rows(scene, own) for scene, own in zip(SCENES, (99.0, 96.0, 60.0), strict=True)})
    assert found["parallelism_vs_best_fixed"] == pytest.approx(0.6)
    assert found["parallelism_vs_best_fixed_lossy"] == pytest.approx(0.96)
    assert found["parallelism_vs_4_shared"] == pytest.approx(1.2)
    assert found["parallelism_vs_8_clean"] == pytest.approx(99 / 80)
    assert found["parallelism_vs_16_shared"] == pytest.approx(0.6)
    assert (found["sidecar_cpu_most"], "sidecar_rss_most" in found) == (0.015, False)


def test_what_competes_is_told_beside_and_is_no_fixed_count() -> None:
    found = figures({"shared": [*scene_rows("shared", 55.0), row("shared", "competing", 99.0)]})
    assert found["parallelism_vs_best_fixed_shared"] == pytest.approx(0.55)
    assert found["parallelism_vs_best_fixed_shared_competing"] == pytest.approx(0.99)


def test_without_all_scenes_there_is_no_figure() -> None:
    assert figures({"clean": scene_rows("clean", 99.0)})["parallelism_vs_best_fixed"] is None
    assert figures({}) == falcon_figures({}) == {"parallelism_vs_best_fixed": None}


def test_falcons_search_is_told_over_the_best_fixed_count_and_is_none_itself() -> None:
    found = falcon_figures({scene: scene_rows(scene, own) for scene, own in zip(SCENES, (50.0, 60.0, 70.0), strict=True)})
    assert found == pytest.approx(
        {
            "parallelism_vs_best_fixed": 0.9,
            "parallelism_vs_best_fixed_clean": 0.9,
            "parallelism_vs_best_fixed_lossy": 1.0,
            "parallelism_vs_best_fixed_shared": 1.1,
        }
    )


def test_results_of_another_sweep_or_of_other_programs_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    done = {"fingerprint": "abc/4-8/20", "rows": scene_rows("clean", 99.0)}
    (tmp_path / FOLDER / "clean.json").write_text(json.dumps(done))
    (tmp_path / FOLDER / "lossy.json").write_text("{")
    assert read_rows(tmp_path, Sweep((4, 8), 20.0), "abc").keys() == {"clean"}
    assert read_rows(tmp_path, Sweep((4, 8), 40.0), "abc") == {}
    assert read_rows(tmp_path, Sweep((4, 8), 20.0), "abd") == {}
