"""Work that is spread over processes, with results that do not depend on their number."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


def spread(function: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], jobs: int, *, chunksize: int = 1) -> Iterator[ResultT]:
    """The result of every task in their order, by `jobs` processes; a single one is this process itself."""
    if jobs == 1:
        yield from map(function, tasks)
        return
    # Not forked: the training libraries may have threads by now.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(function, tasks, chunksize=chunksize)
