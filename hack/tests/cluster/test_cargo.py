"""Checkouts of one machine share a folder of builds, and each gets its own programs."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster.artifacts import cargo
from fairlead_dev.cluster.artifacts.cargo import LOCK, OWN_PACKAGES, in_turn, place, to_place


def workspace(checkout: Path, text: str) -> Path:
    """A workspace with one program that prints this; its files are older than any build."""
    files = {
        "Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["wan"]\n',
        "wan/Cargo.toml": '[package]\nname = "fairlead-wan"\nversion = "0.1.0"\nedition = "2021"\n',
        "wan/src/main.rs": f'fn main() {{\n    println!("{text}");\n}}\n',
    }
    for name, content in files.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(content)
        os.utime(checkout / name, (1_000_000_000, 1_000_000_000))
    return checkout


def built(checkout: Path, target: Path) -> str:
    """What the program prints that cargo has made of a checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"}
    with in_turn(target, checkout, print):
        subprocess.run(
            ["cargo", "build", "--quiet", "--offline"], cwd=checkout, check=True, env={**environment, "CARGO_TARGET_DIR": str(target)}
        )
        return subprocess.run([target / "debug" / "fairlead-wan"], check=True, capture_output=True, text=True).stdout.strip()


def test_a_checkout_never_gets_the_program_of_another_one(tmp_path: Path) -> None:
    one, other = workspace(tmp_path / "one", "one"), workspace(tmp_path / "other", "other")
    assert [built(checkout, tmp_path / "target") for checkout in (one, other, one)] == ["one", "other", "one"]


def fingerprints(target: Path) -> set[str]:
    return {path.relative_to(target).as_posix() for path in target.rglob(".fingerprint/*")}


def test_another_checkouts_packages_are_built_again_in_every_profile_and_what_they_depend_on_is_not(tmp_path: Path) -> None:
    own = {f"{profile}/.fingerprint/fairlead-wan-1f" for profile in ("debug", "release", "x86_64-unknown-linux-gnu/release")}
    for name in [*own, "debug/.fingerprint/rustls-2e"]:
        (tmp_path / name).mkdir(parents=True)
    with in_turn(tmp_path, Path("/one"), print):
        assert fingerprints(tmp_path) == {"debug/.fingerprint/rustls-2e"}
    (tmp_path / "debug/.fingerprint/fairlead-wan-1f").mkdir()
    with in_turn(tmp_path, Path("/one"), print):
        assert "debug/.fingerprint/fairlead-wan-1f" in fingerprints(tmp_path)


def test_every_package_of_the_workspace_and_no_other_has_such_a_name() -> None:
    members = tomllib.loads((CHECKOUT / "Cargo.toml").read_text())["workspace"]["members"]
    manifests = [folder / "Cargo.toml" for member in members for folder in CHECKOUT.glob(member)]
    own = {str(tomllib.loads(manifest.read_text())["package"]["name"]) for manifest in manifests}
    locked = {str(package["name"]) for package in tomllib.loads((CHECKOUT / "Cargo.lock").read_text())["package"]}
    assert own == {name for name in locked if fnmatch(name, OWN_PACKAGES)}


def test_commands_of_one_checkout_use_the_folder_beside_each_other(tmp_path: Path) -> None:
    with in_turn(tmp_path, Path("/one"), pytest.fail), in_turn(tmp_path, Path("/one"), pytest.fail):
        pass


def test_another_checkout_waits_for_the_first_one_and_says_so(tmp_path: Path) -> None:
    told, done = threading.Event(), threading.Event()

    def other() -> None:
        with in_turn(tmp_path, Path("/other"), lambda _: told.set()):
            done.set()

    with in_turn(tmp_path, Path("/one"), print):
        waiting = threading.Thread(target=other)
        waiting.start()
        assert told.wait(30)
        assert not done.is_set()
    waiting.join(30)
    assert done.is_set()


def release(folder: Path, content: str) -> Path:
    """A folder as cargo leaves it."""
    folder.mkdir(exist_ok=True)
    for name in ("fairlead-wan", "fairlead-wan.d"):
        (folder / name).write_text(content)
    (folder / "fairlead-wan").chmod(0o755)
    return folder


def test_programs_are_copied_with_their_notes_and_no_link_stays(tmp_path: Path) -> None:
    source, programs = release(tmp_path / "release", "first"), tmp_path / "build" / "bin"
    programs.mkdir(parents=True)
    (programs / "fairlead-wan").symlink_to(source / "fairlead-wan")
    place(["fairlead-wan"], source, programs)
    release(source, "of another checkout")
    assert {path.name: path.read_text() for path in programs.iterdir()} == {"fairlead-wan": "first", "fairlead-wan.d": "first"}
    assert os.access(programs / "fairlead-wan", os.X_OK)
    assert not (programs / "fairlead-wan").is_symlink()


def test_a_program_that_is_the_same_stays_as_it_is(tmp_path: Path) -> None:
    source, programs = release(tmp_path / "release", "first"), tmp_path / "bin"
    place(["fairlead-wan"], source, programs)
    before = (programs / "fairlead-wan").stat()
    place(["fairlead-wan"], source, programs)
    assert (programs / "fairlead-wan").stat().st_ino == before.st_ino
    assert (source / "fairlead-wan").stat().st_mtime_ns == before.st_mtime_ns


def test_only_what_is_built_for_release_is_placed() -> None:
    target = cargo.rust_target()
    built_for_release = ["build", "--locked", "--release", "--target", target, "-p", "fairlead-mover", "-p", "fairlead-wan"]
    assert to_place(built_for_release) == ["fairlead-mover", "fairlead-wan"]
    assert to_place(["build", "--release", "-p", "fairlead-wan"]) == []
    assert to_place(["test", "--target", target, "--release", "-p", "fairlead-wan"]) == []
    assert to_place([]) == []


def test_the_makefiles_programs_are_placed() -> None:
    (recipe,) = [line for line in (CHECKOUT / "Makefile").read_text().splitlines() if "hack/cargo build" in line]
    assert to_place(recipe.split("hack/cargo ")[1].split()) == ["fairlead-mover", "fairlead-wan"]


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """An environment whose cargo says what it is given, and sleeps if that is `wait`."""
    program = tmp_path / "bin" / "cargo"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$CARGO_TARGET_DIR $*"\n[ "$1" != wait ] || exec sleep 60\nexit 3\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "CARGO_TARGET_DIR": str(tmp_path / "target")}


def test_cargos_arguments_and_exit_code_are_passed_on(stand_in: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run([CHECKOUT / "hack" / "cargo", "test", "-p", "x y"], env=stand_in, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{tmp_path / 'target'} test -p x y\n", "")


def test_a_signal_ends_cargo_and_frees_the_folder(stand_in: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, str(CHECKOUT / "hack"), "cluster.artifacts.cargo", "wait"]
    with subprocess.Popen(command, env=stand_in, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().endswith("wait\n")
        # Its parent may not have come to pass signals on yet.
        deadline = time.monotonic() + 30
        while running.poll() is None and time.monotonic() < deadline:
            running.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        assert running.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
    with (tmp_path / "target" / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
