"""Gives memory back that bursts of work have left unused between what is kept: the C library does so at the end of its heap alone."""

from __future__ import annotations

import asyncio
import ctypes

PAUSE_SECONDS = 30.0


def trim() -> None:
    """Gives back all whole pages of the heap that are not in use. Does nothing with a C library that cannot."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)


async def trim_now_and_then() -> None:
    """Does so until it is cancelled, beside the event loop."""
    while True:
        await asyncio.sleep(PAUSE_SECONDS)
        await asyncio.to_thread(trim)
