"""The blocks of node ports that movers hold, kept up to date pod by pod."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from fairlead.core.observed import MoverPod, PodPhase
from fairlead.core.plan import CreatePod
from fairlead.core.ports import NOT_PLACED, PortsInUse

K = TypeVar("K", int, str)

_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class JobUid(NamedTuple):
    """A job by its namespace and UID."""

    namespace: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Holding:
    job: JobUid
    node: str
    base: int
    is_placed: bool


class PortLedger:
    """Which blocks are held on which node, by which job and namespace."""

    def __init__(self) -> None:
        self._placed: dict[str, Counter[int]] = defaultdict(Counter)
        self._awaited: dict[str, Counter[int]] = defaultdict(Counter)
        self._of_namespace: dict[str, Counter[str]] = defaultdict(Counter)
        self._by_holder: dict[Hashable, _Holding] = {}
        self._of_job: dict[JobUid, dict[Hashable, _Holding]] = defaultdict(dict)

    def hold(self, holder: Hashable, job: JobUid, pod: MoverPod) -> None:
        """Takes in the present state of a pod, in the place of what it held before."""
        self.release(holder)
        if pod.on_host_network and pod.port_base is not None and pod.phase not in _ENDED:
            self._add(holder, _Holding(job, pod.node or pod.wanted_node or NOT_PLACED, pod.port_base, pod.node is not None))

    def release(self, holder: Hashable) -> None:
        """Ends what a pod holds, if anything."""
        holding = self._by_holder.pop(holder, None)
        if holding is None:
            return
        of_job = self._of_job[holding.job]
        del of_job[holder]
        if not of_job:
            del self._of_job[holding.job]
        _take(self._bases(holding), holding.base)
        _take(self._of_namespace[holding.job.namespace], holding.node)

    @contextmanager
    def reserve(self, job: JobUid, creates: Iterable[CreatePod]) -> Iterator[None]:
        """Holds the blocks of pods about to be created until they are known themselves, or were not created."""
        holders = []
        for action in creates:
            if not action.on_host_network:
                continue
            holder = object()
            holders.append(holder)
            self._add(holder, _Holding(job, action.node or NOT_PLACED, action.port_base, is_placed=action.node is not None))
        try:
            yield
        finally:
            for holder in holders:
                self.release(holder)

    def in_use(self, job: JobUid) -> PortsInUse:
        """What limits the choice for a new pod of `job`."""
        placed: dict[str, Counter[int]] = defaultdict(Counter)
        awaited: dict[str, Counter[int]] = defaultdict(Counter)
        for holding in self._of_job.get(job, {}).values():
            (placed if holding.is_placed else awaited)[holding.node][holding.base] += 1
        return PortsInUse(_Others(self._placed, placed), _Rest(self._awaited, awaited), self._of_namespace.get(job.namespace, Counter()))

    def _add(self, holder: Hashable, holding: _Holding) -> None:
        self._by_holder[holder] = holding
        self._of_job[holding.job][holder] = holding
        self._bases(holding)[holding.base] += 1
        self._of_namespace[holding.job.namespace][holding.node] += 1

    def _bases(self, holding: _Holding) -> Counter[int]:
        return (self._placed if holding.is_placed else self._awaited)[holding.node]


class _Rest(Mapping[str, Mapping[int, int]]):
    """Counts of holders by node and block, without those of one job."""

    def __init__(self, every: Mapping[str, Counter[int]], own: Mapping[str, Counter[int]]) -> None:
        self._every = every
        self._own = own

    def __getitem__(self, node: str) -> Mapping[int, int]:
        if node not in self._every:
            raise KeyError(node)
        return self._every[node] - self._own.get(node, Counter())

    def __iter__(self) -> Iterator[str]:
        return iter(self._every)

    def __len__(self) -> int:
        return len(self._every)


class _Others(Mapping[str, Set[int]]):
    """Blocks by node that others than one job hold."""

    def __init__(self, every: Mapping[str, Counter[int]], own: Mapping[str, Counter[int]]) -> None:
        self._rest = _Rest(every, own)

    def __getitem__(self, node: str) -> Set[int]:
        return frozenset(self._rest[node])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rest)

    def __len__(self) -> int:
        return len(self._rest)


def _take(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
