"""Holds pods to their caps by programs at the egress of their control groups, whatever their processes send and to whom."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fairlead.guard import bpf
from fairlead.guard.cgroups import PodGroups
from fairlead.guard.program import STATE, config, empty_bucket, instructions

VALID_SECONDS = 900
"""A program holds so long after the guard last renewed it: longer than a kubelet's longest pause between restarts of a container.

So nothing has to be cleaned up where the guard was taken away.
"""
_NANOSECONDS = 10**9

logger = logging.getLogger(__name__)


class Kernel(Protocol):
    """The system calls of `fairlead.guard.bpf`."""

    def create_map(self, value: bytes) -> int: ...
    def write_map(self, descriptor: int, value: bytes) -> None: ...
    def read_map(self, descriptor: int, size: int) -> bytes: ...
    def load_program(self, instructions: bytes) -> int: ...
    def attach(self, group: Path, program: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a pod sent above its cap since this guard has held it."""

    packets: int
    count_bytes: int


@dataclass(slots=True)
class _Attached:
    group: Path
    config_map: int
    state_map: int
    cap_bps: int


class CgroupPrograms:
    """The programs of one node's pods. They stay in force without this process, for `VALID_SECONDS`."""

    def __init__(self, groups: PodGroups, *, kernel: Kernel = bpf, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """`clock_ns` is CLOCK_MONOTONIC."""
        self._groups, self._kernel, self._clock_ns = groups, kernel, clock_ns
        self._attached: dict[str, _Attached] = {}

    def check(self) -> None:
        """Raises OSError where the kernel takes no such programs."""
        _close(*self._loaded(cap_bps=0, until_ns=0))

    def hold(self, uid: str, cap_bps: int) -> bool:
        """Puts a cap in force; False while the pod has no control group. Raises OSError, and what was in force then stays.

        A program of an earlier guard is replaced in one step.
        """
        attached = self._attached.get(uid)
        if attached is not None and attached.group.is_dir():
            if attached.cap_bps != cap_bps:
                self._kernel.write_map(attached.config_map, config(cap_bps, self._until_ns()))
                attached.cap_bps = cap_bps
            return True
        return self._attach(uid, cap_bps, self._until_ns())

    def _attach(self, uid: str, cap_bps: int, until_ns: int) -> bool:
        group = self._groups.find(uid)
        if group is None:
            return False
        self._forget(uid)
        program, config_map, state_map = self._loaded(cap_bps, until_ns)
        try:
            self._kernel.attach(group, program)
        except OSError:
            _close(config_map, state_map)
            raise
        finally:
            _close(program)
        self._attached[uid] = _Attached(group, config_map, state_map, cap_bps)
        return True

    def release(self, uid: str) -> None:
        """Lets a pod send what it likes, whatever an earlier guard held it to. Raises OSError."""
        attached = self._attached.get(uid)
        if attached is not None:
            self._kernel.write_map(attached.config_map, config(0, until_ns=0))
            attached.cap_bps = 0
        else:
            # Where no program can be put, an earlier guard has none either.
            with contextlib.suppress(OSError):
                self._attach(uid, 0, until_ns=0)

    def renew(self) -> None:
        """Keeps all caps in force, also those of pods that are not listed any more; forgets pods whose groups are gone."""
        for uid, attached in list(self._attached.items()):
            if not attached.group.is_dir():
                self._forget(uid)
            elif attached.cap_bps:
                try:
                    self._kernel.write_map(attached.config_map, config(attached.cap_bps, self._until_ns()))
                except OSError as error:
                    logger.error("the cap of the pod %s cannot be renewed: %s", uid, error)

    def dropped(self, uid: str) -> Dropped:
        """What was above the pod's cap; nothing where no program holds it."""
        attached = self._attached.get(uid)
        if attached is None:
            return Dropped(0, 0)
        _, packets, count_bytes = STATE.unpack(self._kernel.read_map(attached.state_map, STATE.size))
        return Dropped(packets, count_bytes)

    def close(self) -> None:
        """Closes what this process holds. The caps stay in force."""
        for uid in list(self._attached):
            self._forget(uid)

    def _until_ns(self) -> int:
        return self._clock_ns() + VALID_SECONDS * _NANOSECONDS

    def _loaded(self, cap_bps: int, until_ns: int) -> tuple[int, int, int]:
        maps: list[int] = []
        try:
            maps.append(self._kernel.create_map(config(cap_bps, until_ns)))
            maps.append(self._kernel.create_map(empty_bucket(self._clock_ns())))
            program = self._kernel.load_program(instructions(*maps))
        except OSError:
            _close(*maps)
            raise
        return program, maps[0], maps[1]

    def _forget(self, uid: str) -> None:
        attached = self._attached.pop(uid, None)
        if attached is not None:
            _close(attached.config_map, attached.state_map)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
