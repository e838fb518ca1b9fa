"""The demo claims what it has seen, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.demo import __main__ as demo
from fairlead_dev.demo.__main__ import Steps, demonstrate, main
from fairlead_dev.demo.outcome import DemoError
from fairlead_dev.demo.progress import LinkSample
from fairlead_dev.demo.sites.base import JOB, NAMESPACE, SiteEnd, TreeSize
from fairlead_dev.trees.listing import Entry, Listing

TREE: Listing = {b"data.bin": Entry("f", "644", "1600000000.5", 600, b"", "aa")}
VERDICT = {"verdict": "Succeeded", "reason": "Verified", "message": "", "bytes_total": 600, "files_total": 1, "bulk_seconds": 0.00003}


def job(kind: str, reason: str) -> Object:
    conditions = [{"type": kind, "status": "True", "reason": reason, "message": "words for a person"}]
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:20Z"}
    return {"metadata": {"uid": "1"}, "status": {"phase": kind, "conditions": conditions, **times}}


def receiver(verdict: Object | None) -> Object:
    state = {"terminated": {"message": json.dumps(verdict)}} if verdict else {"running": {}}
    return {"metadata": {"labels": {"fairlead.io/role": "receiver"}}, "status": {"containerStatuses": [{"name": "mover", "state": state}]}}


class FakeSite:
    """A cluster whose kubectl announces what a test has prepared."""

    link_mbps: int | None = 200

    def __init__(self, folder: Path, ending: Object, verdict: Object | None, destination: Listing) -> None:
        self._destination = destination
        self.done: list[str] = []
        for name, value in (("job", ending), ("pods", receiver(verdict))):
            (folder / name).write_text(json.dumps({"type": "ADDED", "object": value}, indent=4) + "\n")
        script = f"""#!/bin/sh
case "$*" in
*"get transferjob "*--watch*) cat {folder}/job; exec sleep 60;;
*"get pods "*--watch*) sleep 0.3; cat {folder}/pods; exec sleep 60;;
*) echo "Status: as told";;
esac
"""
        (folder / "kubectl").write_text(script)
        (folder / "kubectl").chmod(0o755)
        self._kubectl = Kubectl((str(folder / "kubectl"),))

    @property
    def kubectl(self) -> Kubectl:
        return self._kubectl

    def start(self) -> None:
        self.done.append("start")

    def install(self) -> None:
        self.done.append("install")

    def clear(self) -> None:
        self.done.append("clear")

    def lay_out(self, size: TreeSize) -> None:
        self.done.append("lay out")

    def apply_job(self) -> None:
        self.done.append("apply")

    def list_tree(self, end: SiteEnd) -> Listing:
        return TREE if end is SiteEnd.SOURCE else self._destination

    def link_sample(self) -> LinkSample | None:
        return None


def test_an_equal_copy_ends_with_the_line_of_json_and_cleans_up(tmp_path: Path) -> None:
    site = FakeSite(tmp_path, job("Succeeded", "Verified"), VERDICT, TREE)
    assert json.loads(demonstrate(site, Steps(), keep=False)) == {
        "demo": "first-transfer",
        "bytes": 600,
        "files": 1,
        "seconds": 20.0,
        "goodput_mbps": 160.0,
        "link_mbps": 200,
        "verified": True,
    }
    assert site.done == ["start", "install", "clear", "lay out", "apply", "clear"]


def test_keep_leaves_the_job(tmp_path: Path) -> None:
    site = FakeSite(tmp_path, job("Succeeded", "Verified"), VERDICT, TREE)
    demonstrate(site, Steps(), keep=True)
    assert site.done[-1] == "apply"


@pytest.mark.parametrize(
    ("ending", "verdict", "destination", "message"),
    [
        (job("Failed", "SourceMissing"), None, TREE, "SourceMissing: words for a person"),
        (job("Succeeded", "Verified"), VERDICT, {}, "differ in 1 places"),
        (job("Succeeded", "Verified"), VERDICT | {"bytes_total": 601}, TREE, "601 bytes"),
        (job("Succeeded", "Verified"), None, TREE, "no receiver pod showed a verdict"),
    ],
    ids=["failed", "different copy", "wrong count", "no verdict"],
)
def test_anything_else_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: Object, verdict: Object | None, destination: Listing, message: str
) -> None:
    monkeypatch.setattr(demo, "VERDICT_TIMEOUT_S", 1)
    site = FakeSite(tmp_path, ending, verdict, destination)
    with pytest.raises(DemoError, match=message):
        demonstrate(site, Steps(), keep=False)


def test_a_job_of_another_demo_is_not_taken_for_our_own(tmp_path: Path) -> None:
    site = FakeSite(tmp_path, job("Succeeded", "Verified"), VERDICT, TREE)
    events = [{"type": kind, "object": {"metadata": {"uid": uid}}} for kind, uid in (("ADDED", "1"), ("DELETED", "1"), ("ADDED", "2"))]
    (tmp_path / "job").write_text("\n".join(json.dumps(event) for event in events) + "\n")
    with pytest.raises(DemoError, match="a second demo"):
        demonstrate(site, Steps(), keep=False)


def test_a_cluster_of_others_needs_its_nodes_and_images(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cluster", "current", "--source-node", "one"]) == 1
    assert "--destination-node, --images" in capsys.readouterr().err


def test_boards_are_for_the_local_cluster_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cluster", "kind", "--boards"]) == 1
    assert "BOARDS=1 needs CLUSTER=local" in capsys.readouterr().err


def test_the_manifest_is_what_the_demo_looks_for() -> None:
    manifest = (CHECKOUT / "hack" / "demo" / "transferjob.yaml").read_text()
    assert f"name: {JOB}, namespace: {NAMESPACE}" in manifest
    assert all(f"claimName: {end.value}" in manifest for end in SiteEnd)
