"""`fairlead preflight` tells of a job what would keep it from running, and leaves nothing behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.lib.lab import Lab
from e2e.lib.manifests import FOLDER, transfer_job
from e2e.lib.waiting import PATIENCE_S
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.trees.listing import Listing

BYTES = 2_000_000


def check(lab: Lab, folder: Path, **spec: Any) -> tuple[int, dict[str, Any]]:
    """The command's exit code and findings about a job with `spec`."""
    file = folder / "job.json"
    file.write_text(json.dumps(transfer_job(lab.namespace, **spec)))
    try:
        words = ("preflight", str(file), "-o", "json", "--timeout", f"{PATIENCE_S:g}")
        code, output = 0, lab.cluster.inside(sys.executable, "-m", "fairlead", *words).decode()
    except CommandError as error:
        code, output = error.returncode, error.stdout
        assert output, error
    findings: dict[str, Any] = json.loads(output)
    return code, findings


def assert_nothing_left(lab: Lab, before: Listing) -> None:
    """No job, and once its pods are gone a destination as it was."""
    assert lab.kubectl.list("transferjobs", namespace=lab.namespace) == []
    lab.wait_no_mover_pods()
    assert lab.kept(lab.destination) == before


def test_a_job_that_will_work_passes_every_check(lab: Lab, tmp_path: Path) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES, files=2)
    before = lab.kept(lab.destination)

    code, findings = check(lab, tmp_path)

    results = {(each["end"], each["check"]): each["result"] for each in findings["checks"]}
    assert (code, findings["passed"]) == (0, True), findings
    assert "Failed" not in results.values()
    assert {("source", "Listing"), ("source", "Peer"), ("destination", "Space"), ("destination", "Destination")} <= results.keys()
    assert_nothing_left(lab, before)


@pytest.mark.parametrize(
    ("end", "reason"), [("source", "SourceMissing"), ("destination", "DestinationUnwritable")], ids=["missing source", "destination"]
)
def test_a_job_that_cannot_work_fails_with_the_reason(lab: Lab, tmp_path: Path, end: str, reason: str) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES, files=2)
    lab.write_file(lab.destination, f"{FOLDER}/kept.txt", "was here before\n")
    if end == "destination":
        lab.cluster.on(lab.destination.node, "chown", "0:0", f"{lab.destination.path}/{FOLDER}")
    before = lab.kept(lab.destination)

    code, findings = check(lab, tmp_path, **({"source": {"path": "nowhere"}} if end == "source" else {}))

    failed = {(each["end"], each["reason"]): each for each in findings["checks"] if each["result"] == "Failed"}
    assert (code, findings["passed"]) == (1, False)
    assert failed.keys() == {(end, reason)}
    assert failed[end, reason]["remedy"]
    assert_nothing_left(lab, before)
