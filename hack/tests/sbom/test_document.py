"""The documents: valid by the schema of CycloneDX, whole, and refused if they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster.artifacts.images import Archive
from fairlead_dev.cluster.cluster import Cluster
from fairlead_dev.sbom.__main__ import main
from fairlead_dev.sbom.contents import Package
from fairlead_dev.sbom.document import make_document, validate
from fairlead_dev.sbom.locks import crates_of, read_python_lock

from .archives import DPKG, MOVER, OS_RELEASE, SITE, metadata, write_archive

BASE = {"var/lib/dpkg/status": DPKG, "etc/os-release": OS_RELEASE, "opt/fairlead/pyvenv.cfg": b"version = 3.11.2\n"}
TARGETS = {"operator": ("operator", "fairlead"), "advisor": ("images/advisor", "fairlead-advisor")}


def image(tmp_path: Path, target: str, **changed: str) -> str:
    """TARGET=FILE of an archive that holds what the lock names, with these versions changed."""
    if target == "mover":
        return f"mover={write_archive(tmp_path / 'mover.tar', [{'usr/local/bin/fairlead-mover': MOVER}])}"
    folder, own = TARGETS[target]
    versions = {**read_python_lock((CHECKOUT / folder / "requirements.lock").read_text()), own: "0.1.0", **changed}
    layer = {
        f"{SITE}/{name}-{version}.dist-info/METADATA": metadata(name, version, "License-Expression: MIT")
        for name, version in versions.items()
    }
    return f"{target}={write_archive(tmp_path / f'{target}.tar', [BASE, layer])}"


@pytest.mark.parametrize("target", ["operator", "advisor", "mover"])
def test_the_bill_of_each_image_is_valid_and_has_what_the_lock_names(tmp_path: Path, target: str) -> None:
    assert main([image(tmp_path, target), "--output", str(tmp_path)]) == 0
    text = (tmp_path / f"{target}.cdx.json").read_text()
    document = json.loads(text)
    assert validate(text) == ""
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == f"fairlead-{target}"
    found = {component["purl"] for component in document["components"]}
    if target == "mover":
        assert {f"pkg:cargo/{crate.name}@{crate.version}" for crate in crates_of(CHECKOUT)} | {"pkg:generic/rust-std@1.95.0"} == found
        assert document["metadata"]["component"]["hashes"][0]["alg"] == "SHA-256"
    else:
        locked = read_python_lock((CHECKOUT / TARGETS[target][0] / "requirements.lock").read_text())
        assert {f"pkg:pypi/{name}@{version}" for name, version in locked.items()} <= found
        assert {"pkg:generic/cpython@3.11.2", "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12"} <= found


def test_an_image_with_another_version_than_the_locks_gets_no_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([image(tmp_path, "operator", kopf="0.1"), "--output", str(tmp_path)]) == 1
    assert "kopf is 0.1, locked is" in capsys.readouterr().err
    assert not (tmp_path / "operator.cdx.json").exists()


def test_without_archives_the_images_of_the_local_cluster_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = [Archive("localhost/coredns:1", tmp_path / "coredns.tar", "")]
    for target in ("operator", "mover", "advisor"):
        file = Path(image(tmp_path, target).partition("=")[2])
        archives.append(Archive(f"localhost/fairlead-{target}:dev", file, ""))
    monkeypatch.setattr(Cluster, "build_archives", lambda cluster: archives)
    assert main(["--output", str(tmp_path / "bills")]) == 0
    assert sorted(file.name for file in (tmp_path / "bills").iterdir()) == ["advisor.cdx.json", "mover.cdx.json", "operator.cdx.json"]


@pytest.mark.parametrize("word", ["operator", "guard=x.tar", "=x"])
def test_an_archive_without_a_known_target_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert "write TARGET=FILE" in capsys.readouterr().err


def test_the_schema_refuses_what_is_no_bill_of_materials() -> None:
    text = make_document("mover", "1.0", "c0ffee", [Package("cargo", "a", "1")], None)
    assert validate(text) == ""
    assert "components" in validate(text.replace('"type": "library"', '"type": "thing"')) or validate(text.replace('"library"', '"thing"'))
    assert validate(text.replace('"specVersion": "1.6"', '"specVersion": "1.6", "surprise": 1'))
