"""Counters of a namespace's devices, queues and packet filter, asked of the kernel by netlink.

A program such as `tc` for each of ten questions a second would cost a run more of the processor than its packets do.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from fairlead_dev.errors import LabError
from fairlead_dev.netlab.namespaces import inside

_PATIENCE_S = 30.0
_LONGEST_ANSWER_BYTES = 1 << 18

# linux/netlink.h
_NETLINK_NETFILTER = 12
_REQUEST, _DUMP = 1, 0x300
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_KIND_OF_ATTRIBUTE = 0x3FFF

# linux/rtnetlink.h, linux/if_link.h, linux/gen_stats.h
_GET_LINK, _GET_QUEUE = 18, 38
_LINK = struct.Struct("=BxHiII")
_LINK_NAME, _LINK_STATISTICS = 3, 23
_SEND_DROPS = 7
"""Which of the statistics, each of 64 bits."""
_QUEUE = struct.Struct("=BxxxiIII")
_AT_ROOT = 0xFFFFFFFF
_QUEUE_STATISTICS, _BASIC, _QUEUED = 7, 1, 3
_BASIC_FIELDS, _QUEUED_FIELDS = struct.Struct("=QI"), struct.Struct("=III")

# linux/netfilter/nf_tables.h
_GET_OBJECT = (10 << 8) | 19
_IPV4 = 2
_OBJECT_TABLE, _OBJECT_NAME, _OBJECT_TYPE, _OBJECT_DATA = 1, 2, 3, 4
_COUNTER, _COUNTER_PACKETS = 1, 2


@dataclass(frozen=True, slots=True)
class QueueCounters:
    """Of a device's queue, as `tc -s qdisc` shows them: what has left it, what waits, and what found no room."""

    sent_bytes: int
    sent_packets: int
    waiting_bytes: int
    waiting_packets: int
    dropped_packets: int

    @property
    def offered_packets(self) -> int:
        """All that came to the queue."""
        return self.sent_packets + self.waiting_packets + self.dropped_packets


class NamespaceCounters:
    """The counters of one namespace, until it is closed."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._indices: dict[str, int] = {}
        with ExitStack() as stack:
            try:
                with inside(namespace):
                    families = (socket.NETLINK_ROUTE, _NETLINK_NETFILTER)
                    sockets = [stack.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)) for family in families]
            except OSError as error:
                raise LabError(f"{namespace}: the kernel cannot be asked for its counters: {error.strerror}") from None
            self._routes, self._filter = sockets
            for opened in sockets:
                opened.settimeout(_PATIENCE_S)
            self._open = stack.pop_all()

    def close(self) -> None:
        """Let go of the sockets."""
        self._open.close()

    def queue(self, device: str) -> QueueCounters:
        """Of the queue by which `device` sends. Raises LabError."""
        index = self._indices.get(device) or self._link(device)[0]
        for answer in self._ask(self._routes, _GET_QUEUE, _DUMP, _QUEUE.pack(0, 0, 0, 0, 0)):
            _, of, _, parent, _ = _QUEUE.unpack_from(answer)
            if (of, parent) == (index, _AT_ROOT):
                figures = _attributes(_attributes(answer[_QUEUE.size :])[_QUEUE_STATISTICS])
                sent_bytes, sent_packets = _BASIC_FIELDS.unpack_from(figures[_BASIC])
                waiting_packets, waiting_bytes, dropped = _QUEUED_FIELDS.unpack_from(figures[_QUEUED])
                return QueueCounters(sent_bytes, sent_packets, waiting_bytes, waiting_packets, dropped)
        raise LabError(f"{self._namespace}: {device} has no queue that counts")

    def dropped_sending(self, device: str) -> int:
        """The packets that `device` was to send and that its other end did not take. Raises LabError."""
        return self._link(device)[1]

    def counted(self, table: str, counter: str) -> int:
        """The packets that a named counter of the packet filter, in a table for IPv4, has seen. Raises LabError."""
        request = b"".join(
            [
                struct.pack(">BBH", _IPV4, 0, 0),
                _attribute(_OBJECT_TABLE, table.encode() + b"\0"),
                _attribute(_OBJECT_NAME, counter.encode() + b"\0"),
                _attribute(_OBJECT_TYPE, struct.pack(">I", _COUNTER)),
            ]
        )
        (answer,) = self._ask(self._filter, _GET_OBJECT, 0, request)
        (packets,) = struct.unpack(">Q", _attributes(_attributes(answer[4:])[_OBJECT_DATA])[_COUNTER_PACKETS])
        return int(packets)

    def _link(self, device: str) -> tuple[int, int]:
        """A device's index, and the packets that it did not get rid of."""
        (answer,) = self._ask(self._routes, _GET_LINK, 0, _LINK.pack(0, 0, 0, 0, 0) + _attribute(_LINK_NAME, device.encode() + b"\0"))
        self._indices[device] = index = _LINK.unpack_from(answer)[2]
        (dropped,) = struct.unpack_from("=Q", _attributes(answer[_LINK.size :])[_LINK_STATISTICS], 8 * _SEND_DROPS)
        return index, dropped

    def _ask(self, opened: socket.socket, kind: int, flags: int, content: bytes) -> Iterator[bytes]:
        """What the kernel answers, message by message. Raises LabError."""
        try:
            opened.send(_HEADER.pack(_HEADER.size + len(content), kind, _REQUEST | flags, 0, 0) + content)
            answers: list[bytes] = []
            while _take(opened.recv(_LONGEST_ANSWER_BYTES), answers) and flags & _DUMP:
                pass
        except OSError as error:
            raise LabError(f"{self._namespace}: the kernel does not tell its counters: {error.strerror or error}") from None
        return iter(answers)


def _take(received: bytes, answers: list[bytes]) -> bool:
    """Adds the messages of a datagram to `answers`; whether more may follow. Raises OSError."""
    offset = 0
    while offset + _HEADER.size <= len(received):
        length, kind, _, _, _ = _HEADER.unpack_from(received, offset)
        content = received[offset + _HEADER.size : offset + length]
        if kind == _DONE:
            return False
        if kind == _ERROR:
            (number,) = struct.unpack_from("=i", content)
            raise OSError(-number, os.strerror(-number))
        answers.append(content)
        offset += _aligned(length)
    return True


def _attribute(kind: int, content: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(length, kind) + content + bytes(_aligned(length) - length)


def _attributes(content: bytes) -> Mapping[int, bytes]:
    found, offset = {}, 0
    while offset + _ATTRIBUTE.size <= len(content):
        length, kind = _ATTRIBUTE.unpack_from(content, offset)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _KIND_OF_ATTRIBUTE] = content[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3
