from __future__ import annotations

import re
import subprocess
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster.artifacts import base_image

PIN = CHECKOUT / "hack" / "cluster" / "pin-bases"
DOCKERFILE = CHECKOUT / "Dockerfile"
DIGEST = f"sha256:{'ab' * 32}"


def pin(tmp_path: Path, skopeo: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Pins a copy of the Dockerfile, with a stand-in for skopeo."""
    file, program = tmp_path / "Dockerfile", tmp_path / "skopeo"
    if not file.exists():
        file.write_text(DOCKERFILE.read_text())
    program.write_text(f"#!/bin/sh\n{skopeo}\n")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run([str(PIN), str(file)], env=environment, capture_output=True, text=True, check=False)
    return done, file.read_text()


def bases(text: str) -> list[str]:
    return re.findall(r"^ARG [A-Z]+_IMAGE=(.*)$", text, re.MULTILINE)


def test_every_base_gets_the_digest_behind_its_tag_and_a_later_one_replaces_it(tmp_path: Path) -> None:
    done, text = pin(tmp_path, f"echo {DIGEST}")
    assert done.returncode == 0
    assert bases(text) == [f"{base.partition('@')[0]}@{DIGEST}" for base in bases(DOCKERFILE.read_text())]
    _, again = pin(tmp_path, f"echo sha256:{'cd' * 32}")
    assert bases(again) == [base.replace("ab" * 32, "cd" * 32) for base in bases(text)]


def test_without_a_registry_or_with_a_strange_answer_nothing_is_written(tmp_path: Path) -> None:
    for skopeo in ("exit 1", "echo latest", "echo 'sha256:ab; rm -rf /'"):
        done, text = pin(tmp_path, skopeo)
        assert done.returncode == 1
        assert text == DOCKERFILE.read_text()
        assert done.stderr.startswith("pin-bases: ")


def test_no_stage_names_an_image_that_is_no_value() -> None:
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", DOCKERFILE.read_text(), re.MULTILINE)
    names = {name for _, name in stages}
    assert all(base == "scratch" or base.startswith("${") or base in names for base, _ in stages)


def test_the_local_clusters_base_is_the_dockerfiles_python() -> None:
    assert base_image.NAME in [base.partition("@")[0] for base in bases(DOCKERFILE.read_text())]
