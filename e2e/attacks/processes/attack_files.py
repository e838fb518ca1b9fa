"""Links, pipes and devices where a mover expects files, put there before it starts or while it runs."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.movers import End, Movers, succeeded
from fairlead_dev.netlab.processes import run, wait_until

SECRET = b"top secret " * 1000


def _outside(movers: Movers) -> Path:
    """A folder beside source and destination that holds what must be neither read nor written."""
    outside = movers.folder / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    (outside / "secret").chmod(0o600)
    return outside


def _untouched(outside: Path) -> bool:
    secret = outside / "secret"
    names = [path.name for path in outside.iterdir()]
    return names == ["secret"] and secret.read_bytes() == SECRET and stat.S_IMODE(secret.stat().st_mode) == 0o600


def _leaked(movers: Movers) -> bool:
    """Whether the secret is anywhere at the destination, as a file or in the partial files."""
    return any(SECRET[:11] in path.read_bytes() for path in movers.destination.rglob("*") if path.is_file() and not path.is_symlink())


def _swapped_at_the_source(movers: Movers, late: str, swap: Callable[[Path], None]) -> tuple[End, End]:
    """A transfer in which a file that comes late (or its folder) is replaced after it was listed: receiver, sender."""
    movers.write("a-large", os.urandom(8 << 20))
    path = movers.write(late, b"x" * (2 << 20))
    receiver = movers.receiver()
    sender = movers.slow_sender(receiver.port, "--streams", "1", "--stall-timeout", "10")
    swap(path)
    sender.hurry()
    ends = receiver.end(), sender.end()
    assert ends[1].code != 0 or path.is_file(), "the file was replaced before it was read"
    return ends


def _an_ordinary_transfer_works(movers: Movers) -> None:
    """The positive control, in folders of its own."""
    again = Movers(movers.binary, movers.folder / "again")
    again.write("d/file", b"x" * 100_000)
    (again.source / "link").symlink_to("d/file")
    try:
        assert succeeded(*again.transfer())
        assert (again.destination / "link").is_symlink() and (again.destination / "d" / "file").read_bytes() == b"x" * 100_000
    finally:
        again.close()


@gains("reads files that the sender may read and the tenant may not")
def attack_with_a_link_in_the_source(movers: Movers, judge: Judge) -> None:
    """The source holds a link to a secret file and one to the folder that holds it."""
    outside = _outside(movers)
    (movers.source / "file").symlink_to(outside / "secret")
    (movers.source / "folder").symlink_to(outside)
    ends = movers.transfer()
    links = [(movers.destination / name).is_symlink() for name in ("file", "folder")]
    judge(not _leaked(movers) and all(links), f"{ends[0]}; arrived as links: {links}")
    _an_ordinary_transfer_works(movers)


@gains("reads files that the sender may read and the tenant may not")
def attack_by_a_link_in_place_of_a_listed_file(movers: Movers, judge: Judge) -> None:
    """A listed file is replaced by a link to a secret of the same size before it is read."""
    outside = _outside(movers)
    (outside / "secret").write_bytes((SECRET * 200)[: 2 << 20])

    def swap(path: Path) -> None:
        path.unlink()
        path.symlink_to(outside / "secret")

    ends = _swapped_at_the_source(movers, "z-late", swap)
    judge(ends[1].code != 0 and not _leaked(movers), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("reads files that the sender may read and the tenant may not")
def attack_by_a_link_in_place_of_a_listed_folder(movers: Movers, judge: Judge) -> None:
    """A listed folder is replaced by a link to a folder with a secret of the same name and size."""
    outside = _outside(movers)
    (outside / "secret").write_bytes((SECRET * 200)[: 2 << 20])

    def swap(path: Path) -> None:
        shutil.rmtree(path.parent)
        path.parent.symlink_to(outside)

    ends = _swapped_at_the_source(movers, "z-late/secret", swap)
    judge(ends[1].code != 0 and not _leaked(movers), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("reads files that the sender may read and the tenant may not")
def attack_by_a_link_in_the_middle_of_a_listed_path(movers: Movers, judge: Judge) -> None:
    """A folder in the middle of a listed path is replaced by a link, with the rest of the path behind it."""
    outside = _outside(movers)
    (outside / "inner").mkdir()
    (outside / "inner" / "secret").write_bytes((SECRET * 200)[: 2 << 20])

    def swap(path: Path) -> None:
        shutil.rmtree(path.parents[1])
        path.parents[1].symlink_to(outside)

    ends = _swapped_at_the_source(movers, "z-late/inner/secret", swap)
    judge(ends[1].code != 0 and not _leaked(movers), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("hangs a transfer, and with it its share of the link, for ever")
def attack_by_a_pipe_in_place_of_a_listed_file(movers: Movers, judge: Judge) -> None:
    """A listed file is replaced by a pipe that nobody writes to."""

    def swap(path: Path) -> None:
        path.unlink()
        os.mkfifo(path)

    ends = _swapped_at_the_source(movers, "z-late", swap)
    judge(ends[1].code != 0 and ends[1].reason in ("SourceChanged", "SourceUnreadable"), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("reads a disk of the node, or sends without an end")
def attack_by_a_device_in_place_of_a_listed_file(movers: Movers, judge: Judge) -> None:
    """A listed file is replaced by the device of endless zeros."""

    def swap(path: Path) -> None:
        path.unlink()
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))

    ends = _swapped_at_the_source(movers, "z-late", swap)
    judge(ends[1].code != 0 and ends[1].reason == "SourceChanged", "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("reads a disk of the node, or hangs a transfer")
def attack_with_a_device_and_a_pipe_in_the_source(movers: Movers, judge: Judge) -> None:
    """The source holds a device and a pipe from the start."""
    movers.write("file", b"x")
    os.mknod(movers.source / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.mkfifo(movers.source / "pipe")
    # Nobody listens there: the source is looked at before.
    end = movers.sender(1, "--peer-timeout", "3").end()
    judge(end.reason == "NameNotAllowed", str(end))
    _an_ordinary_transfer_works(movers)


@gains("writes where the receiver may write and the tenant may not")
def attack_with_a_link_in_place_of_a_folder_of_the_destination(movers: Movers, judge: Judge) -> None:
    """The destination has a link out of it where the transfer has a folder."""
    outside = _outside(movers)
    movers.write("d/secret", b"evil")
    movers.destination.mkdir()
    (movers.destination / "d").symlink_to(outside)
    ends = movers.transfer(receiver=("--overwrite", "Always"))
    judge(_untouched(outside), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("writes where the receiver may write and the tenant may not")
def attack_with_a_link_in_place_of_a_file_of_the_destination(movers: Movers, judge: Judge) -> None:
    """The destination has a link to a secret file where the transfer has a file, and may overwrite."""
    outside = _outside(movers)
    movers.write("file", b"evil").chmod(0o777)
    movers.destination.mkdir()
    (movers.destination / "file").symlink_to(outside / "secret")
    ends = movers.transfer(receiver=("--overwrite", "Always"))
    judge(_untouched(outside), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("learns whether a file that nobody may read holds what one guesses")
def attack_by_comparison_with_a_link_at_the_destination(movers: Movers, judge: Judge) -> None:
    """A tenant guesses a secret file's content, and has the receiver compare it through a link at the destination."""
    outside = _outside(movers)
    movers.write("guess", SECRET)
    movers.destination.mkdir()
    (movers.destination / "guess").symlink_to(outside / "secret")
    ends = movers.transfer(receiver=("--overwrite", "IfDifferent"))
    skipped = ends[0].verdict.get("files_skipped", 0)
    judge(skipped == 0 and _untouched(outside), f"{ends[0]}; files taken for identical: {skipped}")
    _an_ordinary_transfer_works(movers)


@gains("writes where the receiver may write and the tenant may not")
def attack_with_a_link_in_place_of_the_partial_files(movers: Movers, judge: Judge) -> None:
    """The destination has a link out of it under the name of the folder for partial files."""
    outside = _outside(movers)
    movers.write("file", b"evil" * 100_000)
    movers.destination.mkdir()
    (movers.destination / ".fairlead-local").symlink_to(outside)
    ends = movers.transfer()
    judge(_untouched(outside), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


def _swapped_at_the_destination(movers: Movers, swap: Callable[[], None]) -> tuple[End, End]:
    movers.write("d/file", b"evil" * (2 << 20))
    movers.source.joinpath("d/file").chmod(0o777)
    receiver = movers.receiver("--overwrite", "Always")
    sender = movers.slow_sender(receiver.port, "--streams", "1")
    receiver.await_bytes(1)
    swap()
    sender.hurry()
    return receiver.end(), sender.end()


@gains("writes where the receiver may write and the tenant may not")
def attack_by_a_link_in_place_of_a_folder_while_data_arrive(movers: Movers, judge: Judge) -> None:
    """A folder of the destination is replaced by a link out of it between the look at it and the publication."""
    outside = _outside(movers)
    (movers.destination / "d").mkdir(parents=True)

    def swap() -> None:
        (movers.destination / "d").rmdir()
        (movers.destination / "d").symlink_to(outside)

    ends = _swapped_at_the_destination(movers, swap)
    judge(_untouched(outside), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("writes into, and changes the mode of, files of others")
def attack_by_a_link_in_place_of_a_partial_file(movers: Movers, judge: Judge) -> None:
    """A co-user of the destination replaces a partial file by a link to a secret before its mode is set."""
    outside = _outside(movers)

    def swap() -> None:
        def partial_files() -> list[Path]:
            return [path for path in (movers.destination / ".fairlead-local").rglob("*") if path.is_file() and path.name != "ledger"]

        wait_until(lambda: bool(partial_files()), "a partial file", 30)
        for path in partial_files():
            path.unlink()
            path.symlink_to(outside / "secret")

    ends = _swapped_at_the_destination(movers, swap)
    judge(_untouched(outside), "; ".join(map(str, ends)))
    _an_ordinary_transfer_works(movers)


@gains("removes folders of others")
def attack_by_a_job_name_that_climbs(movers: Movers, judge: Judge) -> None:
    """The partial files to be removed are named by a job that is called `x/../../outside`."""
    outside = _outside(movers)
    (movers.destination / ".fairlead-x").mkdir(parents=True)
    refused = True
    try:
        run([movers.binary, "clean", "--destination", movers.destination, "--job", "x/../../outside"])
        refused = False
    except Exception as error:
        said = str(error)
    judge(_untouched(outside) and refused, said if refused else "it was carried out")
    run([movers.binary, "clean", "--destination", movers.destination, "--job", "x"])
    assert not (movers.destination / ".fairlead-x").exists()


@gains("removes folders of others")
def attack_by_a_link_in_place_of_partial_files_to_be_removed(movers: Movers, judge: Judge) -> None:
    """The folder of partial files that is to be removed is a link to another folder, and so is one in it."""
    outside = _outside(movers)
    partial = movers.destination / ".fairlead-x"
    partial.mkdir(parents=True)
    (partial / "inner").symlink_to(outside)
    (movers.destination / ".fairlead-y").symlink_to(outside)
    run([movers.binary, "clean", "--destination", movers.destination, "--job", "x"])
    assert not partial.exists(), "the job's own are removed"
    try:
        run([movers.binary, "clean", "--destination", movers.destination, "--job", "y"])
        said = "cleaned"
    except Exception as error:
        said = str(error)
    judge(_untouched(outside), said)
