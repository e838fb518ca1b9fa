"""Lists a tree with `find`, `sha256sum` and `stat` semantics, and compares two listings.

Nothing here shares code with the mover: agreement of two listings is evidence of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LIST_SCRIPT = r"""
set -eu
cd -- "$1"
find . -mindepth 1 -printf '%y %m %T@ %s %P\0%l\0'
printf 'CHECKSUMS\0'
find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 -r sha256sum --zero --binary --
printf 'END\0'
"""
"""Run as `sh -c LIST_SCRIPT sh DIRECTORY`; needs GNU find, sort, xargs and coreutils. `parse_listing` reads its output."""


class ListingError(ValueError):
    """A listing that was cut short or is not one; running it again may help, and no comparison may be based on it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a tree. `kind` is find's letter (`f`, `d`, `l`, ...); `mtime` is seconds with all decimals, as text."""

    kind: str
    mode: str
    mtime: str
    size_bytes: int
    target: bytes
    sha256: str | None


Listing = Mapping[bytes, Entry]


@dataclass(frozen=True, slots=True)
class Difference:
    """One name on which two trees disagree, and the aspect: `missing`, `unexpected`, `kind`, `content`, ..."""

    path: bytes
    aspect: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path!r}: {self.aspect}: expected {self.expected}, found {self.found}"


def parse_listing(output: bytes) -> Listing:
    """Reads what `LIST_SCRIPT` wrote. Raises ListingError where it is incomplete."""
    fields = output.split(b"\0")
    if fields[-2:] != [b"END", b""]:
        raise ListingError("the listing has no end mark: the command that made it was cut short")
    # A name's record is two fields, so the heading can only be where a pair would begin; a link's target may read the same.
    middle = next((at for at in range(0, len(fields), 2) if fields[at] == b"CHECKSUMS"), None)
    if middle is None:
        raise ListingError("the listing has no checksums: the command that made it was cut short")
    digests = dict(_parse_sum(record) for record in fields[middle + 1 : -2])
    entries: dict[bytes, Entry] = {}
    for head, target in zip(fields[0:middle:2], fields[1:middle:2], strict=True):
        kind, mode, mtime, size, path = head.split(b" ", 4)
        digest = digests.pop(path, None)
        if kind == b"f" and digest is None:
            raise ListingError(f"no checksum for {path!r}: the tree changed while it was listed")
        entries[path] = Entry(kind.decode(), mode.decode(), mtime.decode(), int(size), target, digest)
    if digests:
        raise ListingError(f"a checksum without a name, {next(iter(digests))!r}: the tree changed while it was listed")
    return entries


def _parse_sum(record: bytes) -> tuple[bytes, str]:
    digest, _, path = record.partition(b" *")
    return path, digest.decode()


def compare(expected: Listing, found: Listing) -> list[Difference]:
    """Everything in which `found` differs from `expected`: names, kinds, contents, modes, times and link targets.

    A link's own mode and time and a directory's size mean nothing and are not compared.
    """
    differences: list[Difference] = []
    for path in sorted(expected.keys() | found.keys()):
        want, got = expected.get(path), found.get(path)
        if want is None:
            differences.append(Difference(path, "unexpected", "nothing", "an entry"))
        elif got is None:
            differences.append(Difference(path, "missing", "an entry", "nothing"))
        elif want.kind != got.kind:
            differences.append(Difference(path, "kind", want.kind, got.kind))
        else:
            differences.extend(_compare_entry(path, want, got))
    return differences


def _compare_entry(path: bytes, want: Entry, got: Entry) -> list[Difference]:
    if want.kind == "l":
        pairs = [("target", repr(want.target), repr(got.target))]
    else:
        pairs = [("mode", want.mode, got.mode), ("modification time", want.mtime, got.mtime)]
        if want.kind == "f":
            pairs += [("size in bytes", str(want.size_bytes), str(got.size_bytes)), ("sha256", want.sha256 or "", got.sha256 or "")]
    return [Difference(path, aspect, one, other) for aspect, one, other in pairs if one != other]


def totals(listing: Listing) -> tuple[int, int]:
    """The number of regular files and the sum of their sizes in bytes."""
    sizes = [entry.size_bytes for entry in listing.values() if entry.kind == "f"]
    return len(sizes), sum(sizes)
