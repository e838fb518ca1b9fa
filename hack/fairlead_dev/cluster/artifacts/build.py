"""Compiling programs into the cache, each appearing under its final name only when it is whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from fairlead_dev.cluster.artifacts import cargo
from fairlead_dev.cluster.artifacts.programs import GO_MODULES, LINKED_INTO_CHECKOUT, GoProgram, path_of
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.progress import BuildProgress, BuildStep, duration


def missing(programs: Iterable[GoProgram], paths: Layout) -> list[GoProgram]:
    """Those that the cache does not hold."""
    return [program for program in programs if not program.path(paths.programs).exists()]


def build_programs(programs: Iterable[GoProgram], paths: Layout, progress: BuildProgress) -> None:
    """Compile what is missing, and link what people call into the checkout."""
    to_build = missing(programs, paths)
    if to_build:
        estimate = duration(sum(program.expected_s for program in to_build))
        progress.say(f"Compiling {len(to_build)} programs from source; with empty caches and two cores this takes about {estimate}.")
    for number, program in enumerate(to_build, start=1):
        with progress.step(f"[{number}/{len(to_build)}] {program.name} {program.version}", program.expected_s) as step:
            _compile(program, paths, step)
    for name in LINKED_INTO_CHECKOUT:
        if path_of(name, paths).exists():
            link_into_checkout(path_of(name, paths), paths)


def link_into_checkout(program: Path, paths: Layout) -> None:
    """Let `build/bin` point to a program in a cache."""
    paths.checkout_programs.mkdir(parents=True, exist_ok=True)
    link = paths.checkout_programs / program.name
    if link.is_symlink() and link.readlink() == program:
        return
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(program)
    temporary.replace(link)


def _compile(program: GoProgram, paths: Layout, step: BuildStep) -> None:
    final = program.path(paths.programs)
    final.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{program.name}-", dir=paths.programs))
    try:
        flags = ["-v", "-trimpath", "-buildvcs=false", "-tags", program.tags, "-ldflags", f"-s -w {program.link_flags}".strip()]
        environment = {
            "CGO_ENABLED": "1" if program.cgo else "0",
            # The Go that is here, or a clear refusal: never another one fetched behind one's back.
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "",
            "GOWORK": "off",
        }
        if program.module:
            folder: Path | None = GO_MODULES / program.module
            command = ["go", "build", "-mod=readonly", *flags, "-o", str(staging / program.name), program.package]
        else:
            folder = None
            command = ["go", "install", *flags, f"{program.package}@{program.version}"]
            environment["GOBIN"] = str(staging)
        log = paths.logs / f"build-{program.name}.log"
        shell.run_logged(command, log, cwd=folder, env=environment, watch=_package_counter(step))
        step.detail = ""
        (staging / program.name).replace(final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _package_counter(step: BuildStep) -> Callable[[Path], None]:
    def count(log: Path) -> None:
        lines = log.read_text(errors="replace").splitlines()
        downloads = sum(line.startswith("go: downloading") for line in lines)
        step.detail = f"{len(lines) - downloads} packages compiled" if len(lines) > downloads else f"{downloads} modules fetched"

    return count


def rust_program(name: str, paths: Layout) -> Path:
    """Where a program of this workspace is, once it is built: the folder where Cargo leaves it may be another checkout's meanwhile."""
    return paths.checkout_programs / name


def build_rust_programs(paths: Layout, progress: BuildProgress) -> None:
    """Compile the mover and the WAN emulator, needing no library of the system, and copy them into the checkout.

    One call with the same flags as everywhere in the project: anything else would compile all dependencies twice.
    """
    names = ("fairlead-mover", "fairlead-wan")
    packages = [word for name in names for word in ("-p", name)]
    env = {
        "CARGO_TARGET_DIR": str(paths.cargo_target),
        "CARGO_TERM_COLOR": "never",
        "RUSTFLAGS": "-C target-feature=+crt-static",
    }
    complete = all(rust_program(name, paths).exists() for name in names)
    with progress.step(" and ".join(names), None if complete else 120):
        command = ["cargo", "build", "--release", "--locked", "--target", cargo.rust_target(), *packages]
        with cargo.in_turn(paths.cargo_target, paths.repository, progress.say):
            shell.run_logged(command, paths.logs / "build-rust.log", cwd=paths.repository, env=env)
            cargo.place(names, cargo.released(paths.cargo_target), paths.checkout_programs)
