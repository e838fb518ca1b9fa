"""The seeded defects fit the code as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.defects import DEFECTS, PACKAGE, Defect, StaleDefectError
from faults.plans import read_plan
from faults.workloads import WORKLOADS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_changes_one_place_and_names_runs_that_exist(defect: Defect) -> None:
    text = (PACKAGE / defect.file).read_text()
    assert text.count(defect.before) == 1
    compile(text.replace(defect.before, defect.after), defect.file, "exec")
    assert defect.plans
    for plan in defect.plans:
        assert (read_plan(plan).workload if "/" in plan else plan) in WORKLOADS


def test_every_defect_has_a_name_of_its_own() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)


def test_a_seeded_package_differs_in_that_place_alone(tmp_path: Path) -> None:
    defect = DEFECTS[0]
    defect.seed(tmp_path)
    assert (tmp_path / "forkserver.py").exists()
    changed = [
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if (tmp_path / "fairlead" / file.relative_to(PACKAGE)).read_text() != file.read_text()
    ]
    assert changed == [defect.file]


def test_a_defect_whose_place_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StaleDefectError, match="stale"):
        Defect("stale", "kube/apply.py", "no such line", "", ("create",)).seed(tmp_path)
