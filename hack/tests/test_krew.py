"""The plugin's packages: which libraries they have, that they are the same each time, and what the manifest says of them."""

from __future__ import annotations

import ast
import importlib.metadata
import io
import os
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from fairlead_dev import krew
from fairlead_dev.checkout import CHECKOUT


def _imported_by_the_plugin() -> set[str]:
    """Names of the libraries that the plugin imports, and what it imports of ours."""
    waiting, seen, libraries = {"fairlead.plugin.main", "fairlead.plugin.cli"}, set[str](), set[str]()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        path = CHECKOUT / "operator" / Path(*module.split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not source.exists():
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            waiting |= {name for name in names if name.split(".")[0] == "fairlead"} - seen
            libraries |= {name.split(".")[0] for name in names} - {"fairlead"} - sys.stdlib_module_names
    return libraries


def test_the_packages_have_every_library_that_the_plugin_imports() -> None:
    providers = importlib.metadata.packages_distributions()
    needed = {canonicalize_name(providers[library][0]) for library in _imported_by_the_plugin()}
    assert {"aiohttp", "kubernetes", "pydantic", "typer"} <= needed <= krew.plugin_packages()
    assert krew.locked(krew.LOCK.read_text(), needed).count("==") == len(needed)


def test_a_package_that_the_lock_lacks_is_named() -> None:
    with pytest.raises(krew.KrewError, match="lacks left-pad: run `make lock`"):
        krew.locked("rich==1 \\\n    --hash=sha256:ab\n", ["rich", "left-pad"])


def test_an_archive_is_the_same_each_time_and_keeps_what_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.py").write_text("a")
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o700)
    first = krew.pack(tmp_path)
    os.utime(tmp_path / "run", (1, 1))
    assert krew.pack(tmp_path) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(each.name, each.mode, each.mtime) for each in archive.getmembers()] == [("lib/a.py", 0o644, 0), ("run", 0o755, 0)]


def test_the_manifest_names_each_package_once_with_its_digest() -> None:
    made = krew.manifest("1.2.3", "https://packages.example.org/fairlead/", {"amd64": "a" * 64, "arm64": "b" * 64})
    assert [(each["selector"]["matchLabels"]["arch"], each["uri"], each["sha256"]) for each in made["spec"]["platforms"]] == [
        ("amd64", "https://packages.example.org/fairlead/kubectl-fairlead-1.2.3-linux-amd64.tar.gz", "a" * 64),
        ("arm64", "https://packages.example.org/fairlead/kubectl-fairlead-1.2.3-linux-arm64.tar.gz", "b" * 64),
    ]
    assert made["spec"]["version"] == "v1.2.3"
