"""Puts together what an agent finds on its node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.agent.files import HostFiles
from fairlead.agent.host import cpus_of, kernel_of, load_level, load_of, numa_nodes_of
from fairlead.agent.interfaces import interfaces_of, listed_names
from fairlead.agent.links import Link
from fairlead.agent.storage import StorageReader
from fairlead.api.datatransfernode.status import AgentStatus, KernelStatus, LoadLevel, NodeReport, NumaNodeStatus

HOST_SECONDS: Final = 60.0
"""So often kernel settings, CPUs and space are read; interfaces and load at each look."""
STORAGE_PATIENCE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Slow:
    kernel: KernelStatus
    cpus: int | None
    numa_nodes: tuple[NumaNodeStatus, ...]


class Collector:
    """Looks at one node. `links` reads interfaces by name, `clock` counts seconds. Blocks for some milliseconds, or for lost storage."""

    def __init__(
        self,
        *,
        files: HostFiles,
        links: Callable[[Iterable[str]], list[Link]],
        storage: StorageReader,
        management: Collection[str],
        agent: AgentStatus,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._links = links
        self._storage = storage
        self._management = management
        self._agent = agent
        self._clock = clock
        self._level: LoadLevel | None = None
        self._slow: _Slow | None = None
        self._spaces = storage.read(0)
        self._read_at = -HOST_SECONDS

    def look(self) -> NodeReport:
        """What the node has now, without a time. Raises OSError where interfaces cannot be listed."""
        if self._slow is None or self._clock() >= self._read_at + HOST_SECONDS:
            self._read_at = self._clock()
            self._slow = _Slow(kernel_of(self._files), cpus_of(self._files), numa_nodes_of(self._files))
            self._spaces = self._storage.read(STORAGE_PATIENCE_SECONDS)
        self._level = load_level(load_of(self._files), self._slow.cpus, self._level)
        return NodeReport(
            agent=self._agent,
            interfaces=interfaces_of(self._files, self._links(listed_names(self._files)), self._management),
            kernel=self._slow.kernel,
            cpus=self._slow.cpus,
            numa_nodes=self._slow.numa_nodes,
            storage=self._spaces,
            load=self._level,
        )
