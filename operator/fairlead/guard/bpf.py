"""System calls of eBPF: maps of one element, and programs at the egress of a control group. Needs CAP_BPF and CAP_NET_ADMIN."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

_CALL_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _PROGRAM_LOAD, _PROGRAM_ATTACH = 0, 1, 2, 5, 8
_ARRAY_MAP, _CGROUP_SKB, _CGROUP_EGRESS = 2, 8, 1
_ATTRIBUTE_BYTES = 128
_INSTRUCTION_BYTES = 8
_LICENSE = b"Apache-2.0\0"
_NAME = b"fairlead_cap"

_libc = ctypes.CDLL(None, use_errno=True)


def create_map(value: bytes) -> int:
    """An array of one element with this value; returns its descriptor. Raises OSError."""
    descriptor = _call(_MAP_CREATE, struct.pack("=IIII", _ARRAY_MAP, 4, len(value), 1))
    write_map(descriptor, value)
    return descriptor


def write_map(descriptor: int, value: bytes) -> None:
    """Replaces the element. Raises OSError."""
    key, content = ctypes.c_uint32(0), ctypes.create_string_buffer(value, len(value))
    _call(_MAP_UPDATE, struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(content), 0))


def read_map(descriptor: int, size: int) -> bytes:
    """The element. Raises OSError."""
    key, content = ctypes.c_uint32(0), ctypes.create_string_buffer(size)
    _call(_MAP_LOOKUP, struct.pack("=IIQQQ", descriptor, 0, ctypes.addressof(key), ctypes.addressof(content), 0))
    return content.raw


def load_program(instructions: bytes) -> int:
    """A program for the egress of control groups, checked by the kernel; returns its descriptor. Raises OSError."""
    code = ctypes.create_string_buffer(instructions, len(instructions))
    license_name = ctypes.create_string_buffer(_LICENSE)
    count = len(instructions) // _INSTRUCTION_BYTES
    names = (ctypes.addressof(code), ctypes.addressof(license_name))
    attribute = struct.pack("=IIQQIIQII16sII", _CGROUP_SKB, count, *names, 0, 0, 0, 0, 0, _NAME, 0, _CGROUP_EGRESS)
    return _call(_PROGRAM_LOAD, attribute)


def attach(group: Path, program: int) -> None:
    """Attaches a program to the egress of a control group, in the place of an earlier one of ours, in one step.

    Nothing below the group can take its place. It stays without this process, until the group is removed. Raises OSError.
    """
    descriptor = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _call(_PROGRAM_ATTACH, struct.pack("=IIII", descriptor, program, _CGROUP_EGRESS, 0))
    finally:
        os.close(descriptor)


def _call(command: int, attribute: bytes) -> int:
    number = _CALL_NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(f"the number of the system call bpf is not known on {platform.machine()}")
    padded = ctypes.create_string_buffer(attribute.ljust(_ATTRIBUTE_BYTES, b"\0"), _ATTRIBUTE_BYTES)
    result = int(_libc.syscall(number, command, padded, _ATTRIBUTE_BYTES))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
