"""The echo datagram of 48 bytes: a header of 24 bytes and its keyed BLAKE3 tag."""

import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum

from blake3 import blake3

from fairlead_advisor.errors import UsageError, WireError

MAGIC = b"FLE1"
VERSION = 1
KEY_BYTES = 16
TAG_BYTES = 24
KEY_CONTEXT = "fairlead echo v1"

_HEADER = struct.Struct(">4sBBHQQ")
DATAGRAM_BYTES = _HEADER.size + TAG_BYTES


class EchoKind(IntEnum):
    """Which way a datagram travels."""

    REQUEST = 1
    REPLY = 2


@dataclass(frozen=True, slots=True)
class Echo:
    """The content of a datagram. `stamp_ns` is the sender's clock, opaque to the peer, which repeats it."""

    kind: EchoKind
    sequence: int
    stamp_ns: int


def parse_key(text: str) -> bytes:
    """The 16-byte echo key from its 32 hexadecimal digits; UsageError if it is anything else."""
    digits = text.strip()
    if len(digits) != 2 * KEY_BYTES or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise UsageError(f"the echo key must be {2 * KEY_BYTES} hexadecimal digits, got {len(digits)} characters: copy it whole")
    return bytes.fromhex(digits)


class Codec:
    """Encodes and decodes datagrams under one job's echo key."""

    def __init__(self, key: bytes) -> None:
        """`key` is the 16-byte echo key; the tag's key is derived from it."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"an echo key has {KEY_BYTES} bytes, not {len(key)}")
        self._tag_key = blake3(key, derive_key_context=KEY_CONTEXT).digest()

    def encode(self, echo: Echo) -> bytes:
        """The datagram of `echo`."""
        header = _HEADER.pack(MAGIC, VERSION, echo.kind, 0, echo.sequence, echo.stamp_ns)
        return header + self._tag(header)

    def decode(self, datagram: bytes) -> Echo:
        """The content of an authentic datagram; WireError for any other bytes."""
        if len(datagram) != DATAGRAM_BYTES:
            raise WireError(f"an echo datagram has {DATAGRAM_BYTES} bytes, not {len(datagram)}")
        header, tag = datagram[: _HEADER.size], datagram[_HEADER.size :]
        if not hmac.compare_digest(tag, self._tag(header)):
            raise WireError("the tag does not match: another key, or altered on the way")
        magic, version, kind, reserved, sequence, stamp_ns = _HEADER.unpack(header)
        if magic != MAGIC or version != VERSION or reserved != 0:
            raise WireError(f"not an echo datagram of version {VERSION}")
        try:
            return Echo(EchoKind(kind), sequence, stamp_ns)
        except ValueError:
            raise WireError(f"unknown kind {kind}") from None

    def _tag(self, header: bytes) -> bytes:
        return blake3(header, key=self._tag_key).digest(length=TAG_BYTES)
