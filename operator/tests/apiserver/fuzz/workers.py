"""Carries out transitions in a process of its own, which has an API server of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from faults.bed import Bed
from faults.places import own_bed
from faults.runs import NotConvergedError

from fuzz.scenes import SCENES
from fuzz.session import Session, Verdict, session
from fuzz.transitions import Transition, TransitionError

_LONGEST_LINE = 16 << 20
NOT_SET = "the scene could not be set"


class Performer:
    """Keeps a scene set as long as its transitions come, and sets it anew after one that went wrong."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._stack = AsyncExitStack()
        self._session: Session | None = None

    async def perform(self, transitions: Sequence[Transition]) -> AsyncIterator[Verdict]:
        """Carries out transitions of one scene; then the canary runs."""
        for number, transition in enumerate(transitions, start=1):
            try:
                session = await self._of(transition.scene)
            except NotConvergedError as error:
                await self.close()
                yield Verdict(str(transition), NOT_SET, (f"{NOT_SET}: {error}",), 0.0)
                continue
            verdict = await session.carry_out(transition)
            if number == len(transitions) and not verdict.is_stuck:
                verdict = replace(verdict, problems=tuple(await session.look_after()))
            yield verdict

    async def close(self) -> None:
        """Ends the scene."""
        self._session = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def _of(self, scene: str) -> Session:
        if self._session is None or self._session.is_broken or self._session.scene.name != scene:
            await self.close()
            self._session = await self._stack.enter_async_context(session(self._bed, SCENES[scene]))
        return self._session


async def serve() -> None:
    """Carries out the lists of transitions in the lines of standard input, until they end."""
    known: Mapping[str, Mapping[str, Transition]] = {}
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder:
        async with own_bed(Path(folder)) as bed:
            performer = Performer(bed)
            print(json.dumps("ready"), flush=True)
            try:
                while line := await reader.readline():
                    asked: dict[str, Any] = json.loads(line)
                    if asked["scene"] not in known:
                        known = {asked["scene"]: {str(each): each for each in SCENES[asked["scene"]].transitions}}
                    transitions = [_known(known[asked["scene"]], text) for text in asked["transitions"]]
                    print(json.dumps([asdict(verdict) async for verdict in performer.perform(transitions)]), flush=True)
            finally:
                await performer.close()


def _known(known: Mapping[str, Transition], text: str) -> Transition:
    if text not in known:
        raise TransitionError(f"{text!r}: there is no such transition")
    return known[text]
