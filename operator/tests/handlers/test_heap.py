"""Memory that is given back."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from fairlead.handlers.heap import trim

BLOCK_BYTES, BLOCKS, KEPT_EVERY = 2000, 20_000, 200


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot")
def test_what_lies_unused_between_what_is_kept_is_given_back() -> None:
    blocks = [bytes([number % 256]) * BLOCK_BYTES for number in range(BLOCKS)]
    kept = blocks[::KEPT_EVERY]
    blocks.clear()
    before = resident_bytes()
    trim()
    assert before - resident_bytes() > BLOCK_BYTES * BLOCKS / 2
    assert len(kept) == BLOCKS // KEPT_EVERY
