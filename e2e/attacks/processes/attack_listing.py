"""Names that a sender with a real key claims to have, so that the receiver writes elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from e2e.attacks.lib.forged import RefusedError, forged_sender
from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.messages import DIRECTORY, SYMLINK, Entry
from e2e.attacks.lib.movers import Movers, succeeded

EVIL = b"evil"


def _listed(movers: Movers, judge: Judge, entries: Sequence[Entry], outside: Sequence[Path]) -> None:
    """Concludes from a transfer of these entries: it is refused, and nothing appears outside of the destination."""
    before = {path: path.exists() for path in outside}
    receiver = movers.receiver("--overwrite", "Always", "--stall-timeout", "5")
    try:
        forged_sender(movers, receiver.port).transfer(entries)
        heard = "it was published"
    except RefusedError as error:
        heard = str(error)
    end = receiver.end()
    appeared = [str(path) for path in outside if path.exists() and not before[path]]
    judge(end.code != 0 and not appeared, f"{end}; sender heard: {heard}; outside: {appeared or 'nothing'}")
    receiver = movers.receiver()
    forged_sender(movers, receiver.port).transfer([Entry(b"d", kind=DIRECTORY, mode=0o755), Entry(b"d/x..", EVIL)])
    assert succeeded(receiver.end()) and movers.destination.joinpath("d/x..").read_bytes() == EVIL


@gains("writes beside the destination")
def attack_with_a_name_that_climbs(movers: Movers, judge: Judge) -> None:
    """The listing has `../escaped`."""
    _listed(movers, judge, [Entry(b"../escaped", EVIL)], [movers.folder / "escaped"])


@gains("writes beside the destination")
def attack_with_a_name_that_climbs_in_the_middle(movers: Movers, judge: Judge) -> None:
    """The listing has `d/../../escaped` after a directory `d`."""
    entries = [Entry(b"d", kind=DIRECTORY, mode=0o755), Entry(b"d/../../escaped", EVIL)]
    _listed(movers, judge, entries, [movers.folder / "escaped"])


@gains("writes anywhere on the node")
def attack_with_an_absolute_name(movers: Movers, judge: Judge) -> None:
    """The listing has an absolute path."""
    escaped = movers.folder / "escaped"
    _listed(movers, judge, [Entry(bytes(escaped), EVIL)], [escaped])


@gains("writes under another name than the one that was checked")
def attack_with_a_name_that_holds_nul(movers: Movers, judge: Judge) -> None:
    """The listing has `file`, NUL, `.txt`."""
    _listed(movers, judge, [Entry(b"file\0.txt", EVIL)], [movers.destination / "file"])


@gains("writes under another name than the one that was checked")
def attack_with_an_empty_component(movers: Movers, judge: Judge) -> None:
    """The listing has `d//file` after a directory `d`."""
    entries = [Entry(b"d", kind=DIRECTORY, mode=0o755), Entry(b"d//file", EVIL)]
    _listed(movers, judge, entries, [movers.destination / "d" / "file"])


@gains("writes into the partial files of another job")
def attack_with_the_name_of_partial_files(movers: Movers, judge: Judge) -> None:
    """The listing has the directory of another job's partial files, and a ledger in it."""
    entries = [Entry(b".fairlead-other", kind=DIRECTORY, mode=0o700), Entry(b".fairlead-other/ledger", EVIL)]
    _listed(movers, judge, entries, [movers.destination / ".fairlead-other"])


@gains("writes through a link of one's own making")
def attack_with_a_file_below_a_listed_link(movers: Movers, judge: Judge) -> None:
    """The listing has a link out of the destination, and a file below that link's name."""
    outside = movers.folder / "outside"
    outside.mkdir()
    entries = [Entry(b"link", kind=SYMLINK, mode=0o777, target=bytes(outside)), Entry(b"link/escaped", EVIL)]
    _listed(movers, judge, entries, [outside / "escaped"])


@gains("writes through a link of one's own making")
def attack_with_a_link_and_a_directory_of_one_name(movers: Movers, judge: Judge) -> None:
    """The listing has a link out of the destination, then a directory of the same name with a file in it."""
    outside = movers.folder / "outside"
    outside.mkdir()
    entries = [
        Entry(b"twice", kind=SYMLINK, mode=0o777, target=bytes(outside)),
        Entry(b"twice", kind=DIRECTORY, mode=0o755),
        Entry(b"twice/escaped", EVIL),
    ]
    _listed(movers, judge, entries, [outside / "escaped"])


@gains("a program that runs as the destination's owner")
def attack_with_setuid_bits(movers: Movers, judge: Judge) -> None:
    """The listing claims mode 6755 for a file and 7777 for a directory."""
    entries = [Entry(b"d", kind=DIRECTORY, mode=0o7777), Entry(b"d/tool", EVIL, mode=0o6755)]
    receiver = movers.receiver("--preserve", "Mode")
    forged_sender(movers, receiver.port).transfer(entries)
    end = receiver.end()
    modes = [movers.destination.joinpath(name).stat().st_mode & 0o7777 for name in ("d", "d/tool")]
    judge(modes == [0o777, 0o755], f"{end}; modes {', '.join(map(oct, modes))}")
    assert succeeded(end), "permission bits alone are no reason to refuse"
