"""Links on the path that a job names, put there by somebody who shares the volume."""

from __future__ import annotations

from pathlib import Path

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.movers import Movers, succeeded
from fairlead_dev.errors import LabError

SECRET = b"another user's"


def _volume(movers: Movers, tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    """A volume with the job's `a/b/c` and another user's directory of the same form, and the options that a pod gives for it."""
    volume = tmp_path / "volume"
    for name in ("a/b/c", "private/b/c"):
        (volume / name).mkdir(parents=True)
    (volume / "private/b/c/secret").write_bytes(SECRET)
    (volume / "a/b/c/own").write_bytes(b"own")
    # Programs before the option reached the path without it.
    knows = b"FAIRLEAD_VOLUME" in movers.binary.read_bytes()
    return volume, ("--volume", str(volume)) if knows else ()


def _link(volume: Path, depth: int) -> None:
    own = volume.joinpath(*("a", "b", "c")[: depth + 1])
    own.rename(volume / "moved")
    own.symlink_to(volume.joinpath(*("private", "b", "c")[: depth + 1]))


def _read_through(movers: Movers, judge: Judge, tmp_path: Path, depth: int) -> None:
    volume, options = _volume(movers, tmp_path)
    _link(volume, depth)
    receiver = movers.receiver("--peer-timeout", "8")
    end = movers.sender(receiver.port, *options, source=volume / "a/b/c").end()
    receiver.end()
    judge(not (movers.destination / "secret").exists(), str(end))
    receiver = movers.receiver()
    own = (volume / "moved").joinpath(*("a", "b", "c")[depth + 1 :])
    assert succeeded(movers.sender(receiver.port, *options, source=own).end(), receiver.end())


@gains("reads another user's files")
def attack_by_a_link_as_the_first_component_of_a_source(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """A co-user makes the first name of the job's path a link to another directory of the volume."""
    _read_through(movers, judge, tmp_path, 0)


@gains("reads another user's files")
def attack_by_a_link_in_the_middle_of_a_source(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """A co-user makes a name in the middle of the job's path a link."""
    _read_through(movers, judge, tmp_path, 1)


@gains("reads another user's files")
def attack_by_a_link_as_the_last_component_of_a_source(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """A co-user makes the last name of the job's path a link."""
    _read_through(movers, judge, tmp_path, 2)


def _write_through(movers: Movers, judge: Judge, tmp_path: Path, depth: int) -> None:
    volume, options = _volume(movers, tmp_path)
    _link(volume, depth)
    movers.write("evil", b"evil")
    receiver = movers.receiver(*options, "--peer-timeout", "8", destination=volume / "a/b/c/new")
    # A receiver that refuses its path never listens.
    port = receiver.port if _listens(receiver) else 1
    movers.sender(port, "--peer-timeout", "2").end()
    end = receiver.end()
    judge(not list((volume / "private").rglob("new")), str(end))
    receiver = movers.receiver(*options, destination=volume / "fresh/parents")
    assert succeeded(movers.sender(receiver.port).end(), receiver.end())


def _listens(receiver: object) -> bool:

    try:
        receiver.await_event("listening")  # type: ignore[attr-defined]
    except LabError:
        return False
    return True


@gains("writes among another user's files")
def attack_by_a_link_as_the_first_component_of_a_destination(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """A co-user makes the first name of the destination's path a link to another directory of the volume."""
    _write_through(movers, judge, tmp_path, 0)


@gains("writes among another user's files")
def attack_by_a_link_as_the_last_component_of_a_destination(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """A co-user makes the last existing name of the destination's path a link."""
    _write_through(movers, judge, tmp_path, 2)
