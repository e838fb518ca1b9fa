"""The movers' protocol as far as a peer that does not keep to it needs it: protobuf fields, frames, packs and digests."""

from __future__ import annotations

import mmap
import os
import ssl
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

BLOCK_BYTES = 1 << 20
FILE, DIRECTORY, SYMLINK = 1, 2, 3
OPENING_CONTROL, OPENING_DATA, OPENING_KEYED = b"FLMC", b"FLMD", b"FLMK"
LISTING, LISTING_END, COMPARE, DIGESTS, PLAN, STORED, DAMAGED, COMPLETE, PUBLISHED, FAILURE, HEARTBEAT = range(1, 12)

Value = int | bytes
_OPENING_CONTEXT = "fairlead opening v1"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a listing, as a sender may claim it."""

    path: bytes
    content: bytes = b""
    kind: int = FILE
    mode: int = 0o644
    target: bytes = b""
    size: int | None = None
    """Claimed instead of the content's."""
    hole_bytes: int = 0

    @property
    def bytes_total(self) -> int:
        """What is claimed."""
        return len(self.content) if self.size is None else self.size

    def encoded(self) -> bytes:
        """An `EntryMessage`."""
        fields: list[tuple[int, Value]] = [
            (1, self.path),
            (2, self.kind),
            (3, self.mode),
            (6, self.bytes_total),
            (7, self.target),
            (11, self.hole_bytes),
        ]
        return encode(*((number, value) for number, value in fields if value))

    def digest(self) -> bytes:
        """Of the content, by its blocks."""
        hasher = blake3(derive_key_context="fairlead file v1")
        hasher.update(struct.pack(">IQ", BLOCK_BYTES, self.bytes_total))
        for block in self.blocks():
            hasher.update(blake3(block).digest())
        return hasher.digest()

    def blocks(self) -> list[bytes]:
        """The content in blocks."""
        return [self.content[at : at + BLOCK_BYTES] for at in range(0, len(self.content), BLOCK_BYTES)]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between versions of the protocol."""

    has_tagged_openings: bool

    @classmethod
    def of(cls, mover: Path) -> Dialect:
        """That of a mover, by the constants in its program."""
        with mover.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
            return cls(program.find(_OPENING_CONTEXT.encode()) >= 0)

    @property
    def preamble(self) -> bytes:
        """What a connection starts with in TLS."""
        return b"FLMV" + struct.pack(">H", 4 if self.has_tagged_openings else 3)

    def opening(self, purpose: bytes, authority_pem: str) -> bytes:
        """What a connection starts with in the clear, made by somebody who has the certificate of the attempt's authority."""
        if not self.has_tagged_openings:
            return purpose
        said = purpose + os.urandom(16)
        key = blake3(ssl.PEM_cert_to_DER_cert(authority_pem), derive_key_context=_OPENING_CONTEXT).digest()
        return said + blake3(said, key=key).digest()[:16]


def root_digest(entries: Sequence[Entry]) -> bytes:
    """Of the tree, as both ends compute it: permission bits alone count."""
    hasher = blake3(derive_key_context="fairlead root v1")
    for entry in entries:
        head = struct.pack(">I", len(entry.path)) + entry.path
        head += struct.pack(">BIqIQ", entry.kind, entry.mode & 0o777, 0, 0, entry.bytes_total)
        tail = entry.digest() if entry.kind == FILE else entry.target
        hasher.update(head + struct.pack(">I", len(tail)) + tail)
    return hasher.digest()


def packs(entries: Sequence[Entry]) -> Iterator[bytes]:
    """One pack for each block of the files."""
    number = 0
    for index, entry in enumerate(entries):
        for block, content in enumerate(entry.blocks()):
            header = struct.pack(">4sBBHIIQQ", b"FLPK", 1, 0, 1, len(content), 0, number, 0)
            yield header + struct.pack(">IIII", index, block, len(content), 0) + blake3(content).digest() + content
            number += 1


def listing_end(entries: Sequence[Entry]) -> bytes:
    """A `ListingEnd` for these entries."""
    counts = [sum(entry.kind == kind for entry in entries) for kind in (FILE, DIRECTORY, SYMLINK)]
    counts.append(sum(entry.bytes_total for entry in entries))
    return encode(*((number, count) for number, count in enumerate(counts, 1) if count))


def frame(body: bytes) -> bytes:
    """A message with its length before it."""
    return struct.pack(">I", len(body)) + body


def encode(*fields: tuple[int, Value]) -> bytes:
    """Protobuf fields: numbers as varints, bytes with their length."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3) + _varint(value))
        else:
            parts.append(_varint(number << 3 | 2) + _varint(len(value)) + value)
    return b"".join(parts)


def decode(body: bytes) -> dict[int, Value]:
    """The last value of each field."""
    found: dict[int, Value] = {}
    at = 0
    while at < len(body):
        key, at = _read_varint(body, at)
        value, at = _read_varint(body, at)
        if key & 7 == 2:
            found[key >> 3] = body[at : at + value]
            at += value
        else:
            found[key >> 3] = value
    return found


def raw(value: Value) -> bytes:
    """A field that is bytes. Raises TypeError for a number."""
    if isinstance(value, int):
        raise TypeError(f"the field holds the number {value}")
    return value


def numbers(packed: Value) -> list[int]:
    """Repeated numbers, as protobuf packs them."""
    body, found, at = raw(packed), [], 0
    while at < len(body):
        value, at = _read_varint(body, at)
        found.append(value)
    return found


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
