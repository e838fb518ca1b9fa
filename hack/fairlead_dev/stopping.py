"""How commands end: by their exit code, and with everything under way ended first."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fairlead_dev.errors import DevError

_T = TypeVar("_T")


def exit_code(program: str, command: Callable[[], int]) -> int:
    """The command's own code, that of its DevError, or 130 or 143 where it was stopped."""
    try:
        return command()
    except DevError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143


def stoppable(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs to the end; SIGTERM, like Ctrl-C, first ends what is under way. A second one does not disturb that."""

    async def watched() -> _T:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: task.cancelling() or task.cancel())
        return await task

    return asyncio.run(watched())
