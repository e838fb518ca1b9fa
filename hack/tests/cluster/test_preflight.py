from __future__ import annotations

import os
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster.layout import MINIMUM_PYTHON, MINIMUM_RUST, Layout
from fairlead_dev.cluster.machine.preflight import TOOLS, Lack, go_version, packages_of, report, toolchain_lacks, version_in


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go1.27", (1, 27, 0)),
        ("go1.27rc1", (1, 27, 0)),
        ("devel", None),
    ],
)
def test_the_version_of_go_is_read_from_its_answer(text: str, version: tuple[int, ...] | None) -> None:
    assert go_version(text) == version


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A machine with no toolchain, and a checkout on it."""
    for folder in ("checkout", "bin"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("PYTHON", raising=False)
    return Layout(tmp_path / "checkout", tmp_path / "cache", tmp_path / "state", tmp_path / "target")


def install(name: str, answer: str, code: int = 0) -> None:
    program = Path(os.environ["PATH"]) / name
    program.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
    program.chmod(0o755)


def test_rust_and_python_that_are_new_enough_are_no_lack(machine: Layout) -> None:
    install("cargo", "cargo 1.85.0 (d73d2caf9 2024-12-31)")
    install("python3.11", "Python 3.11.2")
    assert toolchain_lacks(machine) == []


def test_rust_and_python_that_are_missing_are_named_with_the_remedy(machine: Layout) -> None:
    rust, python = toolchain_lacks(machine)
    assert (rust.what, "rustup.rs" in rust.remedy) == ("Rust 1.85 or newer (there is no program cargo)", True)
    assert (python.what, "make PYTHON=" in python.remedy) == ("Python 3.11 or newer (there is no program python3.11)", True)


def test_rust_and_python_that_are_too_old_are_named_with_their_versions(machine: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    install("cargo", "cargo 1.63.0 (fd9c4297c 2022-07-01)")
    install("python3", "Python 3.9.2")
    monkeypatch.setenv("PYTHON", "python3")
    assert [lack.what for lack in toolchain_lacks(machine)] == [
        "Rust 1.85 or newer (this is cargo 1.63.0 (fd9c4297c 2022-07-01))",
        "Python 3.11 or newer (this is Python 3.9.2)",
    ]


def test_a_toolchain_that_does_not_work_is_a_lack_and_no_error(machine: Layout) -> None:
    install("cargo", "error: no default toolchain is configured", 1)
    install("python3.11", "Python 3.11.2")
    (lack,) = toolchain_lacks(machine)
    assert "no default toolchain" in lack.what


def test_where_the_environment_is_made_no_other_python_is_asked_for(machine: Layout) -> None:
    install("cargo", "cargo 1.95.0")
    (machine.repository / ".venv").mkdir()
    (machine.repository / ".venv" / ".installed").touch()
    assert toolchain_lacks(machine) == []


@pytest.mark.parametrize(("text", "version"), [("Python 3.12.0rc1", (3, 12, 0)), ("cargo 1.85", (1, 85, 0)), ("error", None)])
def test_a_version_is_read_from_what_a_program_says_of_itself(text: str, version: tuple[int, ...] | None) -> None:
    assert version_in(text) == version


def test_the_versions_are_those_that_the_projects_files_ask_for() -> None:
    manifest = tomllib.loads((CHECKOUT / "Cargo.toml").read_text())
    assert version_in(manifest["workspace"]["package"]["rust-version"]) == (*MINIMUM_RUST, 0)
    assert f"PYTHON ?= python{'.'.join(map(str, MINIMUM_PYTHON))}\n" in (CHECKOUT / "Makefile").read_text()


def test_an_older_python_is_refused_before_anything_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(SystemExit, match=r"Python 3\.11 or newer"):
        runpy.run_path(str(CHECKOUT / "hack" / "__main__.py"), run_name="__main__")


def test_what_tests_read_metrics_with_is_installed() -> None:
    assert TOOLS["curl"] == ("curl",)


def test_a_report_names_everything_at_once_and_one_command_for_all_packages() -> None:
    lacks = [
        Lack("the program nft", ("nftables",)),
        Lack("the program gcc", ("gcc", "libc6-dev")),
        Lack("overlayfs", remedy="modprobe overlay"),
    ]
    text = report(lacks)
    assert "  - the program nft: Debian package nftables" in text
    assert "  - overlayfs: modprobe overlay" in text
    assert "apt-get install --no-install-recommends gcc libc6-dev nftables" in text


def test_a_report_without_packages_offers_no_installation() -> None:
    assert "apt-get" not in report([Lack("the program go", remedy="Go from https://go.dev/dl")])


def test_packages_are_listed_once() -> None:
    assert packages_of([Lack("unshare", ("util-linux",)), Lack("nsenter", ("util-linux",))]) == ["util-linux"]
