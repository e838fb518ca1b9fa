"""Calls and numbers of Linux that Python 3.11's library does not have."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

TCP_NOTSENT_LOWAT = 25
SO_RCVLOWAT = 18
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
SO_MEMINFO = 55
UDP_SEGMENT = 103

_PR_SET_PDEATHSIG = 1
_MEMINFO_DROPS = 8
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, so that a killed runner leaves nothing behind."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


def be_real_time(priority: int) -> None:
    """Go before every ordinary process; PermissionError without CAP_SYS_NICE."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """What is used of the kernel's `struct tcp_info` (include/uapi/linux/tcp.h)."""

    rtt_ms: float
    congestion_window_segments: int
    retransmits: int
    bytes_acked: int
    bytes_received: int
    minimum_rtt_ms: float


_TCP_INFO_BYTES = 192


def tcp_info(connection: socket.socket) -> TcpInfo:
    """The counters of a TCP connection now."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    (rtt_us,) = struct.unpack_from("=I", raw, 68)
    (window,) = struct.unpack_from("=I", raw, 80)
    (retransmits,) = struct.unpack_from("=I", raw, 100)
    acked, received = struct.unpack_from("=QQ", raw, 120)
    (minimum_us,) = struct.unpack_from("=I", raw, 148)
    return TcpInfo(rtt_us / 1000, window, retransmits, acked, received, minimum_us / 1000)


def offered_congestion_controls() -> list[str]:
    """What a privileged process may choose on this kernel."""
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def congestion_control_of(connection: socket.socket) -> str:
    """The congestion control in force on a TCP socket."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()


def receive_drops(connection: socket.socket) -> int:
    """Datagrams that arrived and found no room in the socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)
    return int(struct.unpack_from("=I", raw, 4 * _MEMINFO_DROPS)[0])
