"""What the locks name: Python packages with their hashes, and the crates that become part of the mover."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairlead_dev.errors import LabError
from fairlead_dev.sbom.contents import Package, canonical

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
_TARGET = "x86_64-unknown-linux-gnu"


class NotAsLockedError(LabError):
    """An image holds other packages than its lock names."""


def read_python_lock(text: str) -> dict[str, str]:
    """Version by canonical name of a hashed requirements file."""
    return {canonical(found[1]): found[2] for line in text.splitlines() if (found := _PINNED.match(line))}


def check_python(image: str, packages: Iterable[Package], locked: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Raises NotAsLockedError unless the image's Python packages are the locked ones, `own`, and pip and setuptools of the base image."""
    found = {package.name: package.version for package in packages if package.kind == "pypi"}
    expected = {**locked, **own}
    wrong = [f"{name} {version} is not in the lock" for name, version in found.items() if name not in expected and name not in _OF_BASE]
    wrong += [f"{name} is {found[name]}, locked is {version}" for name, version in expected.items() if found.get(name, version) != version]
    wrong += [f"{name} {version} is missing" for name, version in expected.items() if name not in found]
    if wrong:
        raise NotAsLockedError(f"image {image} is not what its lock names: {'; '.join(sorted(wrong))}. Build it again with `make images`")


_OF_BASE = frozenset({"pip", "setuptools", "wheel"})


def crates_of(checkout: Path, root: str = "fairlead-mover") -> list[Package]:
    """The crates whose code is in `root`'s program: its dependencies without those of builds, tests and procedural macros."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={_TARGET}"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip()}")
    checksums = read_checksums((checkout / "Cargo.lock").read_text(encoding="utf-8"))
    return linked_crates(json.loads(done.stdout), root, checksums)


def linked_crates(metadata: Mapping[str, Any], root: str, checksums: Mapping[tuple[str, str], str]) -> list[Package]:
    """What `cargo metadata` says is linked into `root`, itself excluded, sorted."""
    crates = {crate["id"]: crate for crate in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (start,) = [identity for identity, crate in crates.items() if crate["name"] == root]
    linked: set[str] = set()
    ahead = [start]
    while ahead:
        for dependency in nodes[ahead.pop()]["deps"]:
            identity = dependency["pkg"]
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            macro = any("proc-macro" in target["kind"] for target in crates[identity]["targets"])
            if normal and not macro and identity not in linked:
                linked.add(identity)
                ahead.append(identity)
    return sorted(
        Package(
            "cargo",
            crate["name"],
            crate["version"],
            licence=crate["license"] or "",
            sha256=checksums.get((crate["name"], crate["version"]), ""),
        )
        for crate in (crates[identity] for identity in linked)
    )


def read_checksums(lock: str) -> dict[tuple[str, str], str]:
    """SHA-256 of the crates of a Cargo.lock, by name and version; those of this repository have none."""
    return {(crate["name"], crate["version"]): crate["checksum"] for crate in tomllib.loads(lock)["package"] if "checksum" in crate}
