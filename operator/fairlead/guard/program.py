"""The eBPF program that holds what a control group sends to a rate. A pure function of two map descriptors, assembled here.

It is a leaky bucket (generic cell rate algorithm, ITU-T I.371) in virtual time: `arrival` is when everything that has passed would have
left at the rate. A packet that would bring it more than the depth ahead of the clock is dropped. Instruction set: RFC 9669.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

TOLERANCE = 1.01
"""The rate above the cap: a mover that keeps to its cap is within 0.2 % of it over some seconds."""
DEPTH_SECONDS = 0.03
"""What may pass at once after a pause. With TOLERANCE it is the most by which a second may exceed the cap: 4 %."""
_LEAST_BPS = 8_000
"""The products below stay within 64 bits for packets of up to a megabyte."""
_SCALE_BITS = 20
_NANOSECONDS = 10**9
_BITS = 8

CONFIG = struct.Struct("=QQQ")
"""Cost of a byte in 2^-20 ns, depth in ns, and until when the program holds by CLOCK_MONOTONIC in ns (0: not at all)."""
STATE = struct.Struct("=QQQ")
"""Virtual arrival time in ns, packets dropped, bytes dropped."""

_ATTEMPTS = 8
"""Processors that send at the same time retry; after so many attempts the packet is dropped."""
_TCP, _LOOPBACK = 6, 1
_IPV4_ETHERTYPE = struct.unpack("=H", b"\x08\x00")[0]
_IPV4_PROTOCOL_OFFSET, _IPV6_PROTOCOL_OFFSET = 9, 6
_IPV4_TCP_HEADERS, _IPV6_TCP_HEADERS = 52, 72
"""With timestamps. Each segment of a packet that the device cuts has them."""
_TCP_ABOVE_UDP = 32 - 8
"""What the headers of TCP have more than those of UDP, whose packets the device cuts too."""
_SKB_LENGTH, _SKB_PROTOCOL, _SKB_INTERFACE, _SKB_SEGMENTS = 0, 16, 40, 164
"""Offsets in `struct __sk_buff`."""
_KTIME_GET_NS, _SKB_LOAD_BYTES = 5, 26
_FRAME = 10
"""The register with the end of the stack."""
_DROP, _PASS, _DROP_SILENTLY = 0, 1, 2
"""Of TCP a dropped packet stays in its queue; a datagram is lost without an error for its sender."""


def config(cap_bps: int, until_ns: int) -> bytes:
    """The value of the first map for a cap."""
    rate_bps = max(cap_bps, _LEAST_BPS) * TOLERANCE
    cost = max(1, round(_BITS * _NANOSECONDS * 2**_SCALE_BITS / rate_bps))
    return CONFIG.pack(cost, round(DEPTH_SECONDS * _NANOSECONDS), until_ns)


def empty_bucket(now_ns: int) -> bytes:
    """The value of the second map for a start at which nothing may pass at once: another program may have held until now."""
    return STATE.pack(now_ns + round(DEPTH_SECONDS * _NANOSECONDS), 0, 0)


@dataclass(slots=True)
class _Assembler:
    """Instructions of eight bytes, with jumps forward to labels."""

    code: list[bytes] = field(default_factory=list)
    jumps: list[tuple[int, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def put(self, opcode: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> None:
        self.code.append(struct.pack("=BBhi", opcode, to | source << 4, offset, value))

    def jump(self, opcode: int, label: str, to: int = 0, source: int = 0, value: int = 0) -> None:
        self.jumps.append((len(self.code), label))
        self.put(opcode, to, source, 0, value)

    def value_of_map(self, to: int, descriptor: int) -> None:
        self.put(0x18, to, 2, 0, descriptor)
        self.put(0)

    def label(self, name: str) -> None:
        self.labels[name] = len(self.code)

    def assembled(self) -> bytes:
        for at, label in self.jumps:
            patched = bytearray(self.code[at])
            struct.pack_into("=h", patched, 2, self.labels[label] - at - 1)
            self.code[at] = bytes(patched)
        return b"".join(self.code)


def instructions(config_map: int, state_map: int) -> bytes:
    """The program. Both maps are arrays of one element: `config` and `empty_bucket` make their values."""
    asm = _Assembler()
    _measure_packet(asm)
    _read_config(asm, config_map)
    _admit(asm, state_map)
    return asm.assembled()


def _measure_packet(asm: _Assembler) -> None:
    """r7: bytes of the packet as the wire will have them. r8: its protocol above IP. Traffic within the node passes."""
    asm.put(0xBF, 6, 1)  # r6 = context
    asm.put(0x61, 1, 6, _SKB_INTERFACE)
    asm.jump(0x15, "pass", 1, value=_LOOPBACK)
    asm.put(0x61, 7, 6, _SKB_LENGTH)
    asm.put(0x61, 1, 6, _SKB_PROTOCOL)
    asm.put(0xB7, 9, value=_IPV4_TCP_HEADERS)
    asm.put(0xB7, 8, value=_IPV4_PROTOCOL_OFFSET)
    asm.jump(0x15, "version known", 1, value=_IPV4_ETHERTYPE)
    asm.put(0xB7, 9, value=_IPV6_TCP_HEADERS)
    asm.put(0xB7, 8, value=_IPV6_PROTOCOL_OFFSET)
    asm.label("version known")
    asm.put(0xBF, 1, 6)  # the byte at r8 goes to the stack, and from there to r8
    asm.put(0xBF, 2, 8)
    asm.put(0xBF, 3, _FRAME)
    asm.put(0x07, 3, value=-8)
    asm.put(0xB7, 4, value=1)
    asm.put(0x7A, _FRAME, offset=-8)
    asm.put(0x85, value=_SKB_LOAD_BYTES)
    asm.put(0x71, 8, _FRAME, -8)
    asm.jump(0x15, "headers known", 8, value=_TCP)
    asm.put(0x07, 9, value=-_TCP_ABOVE_UDP)
    asm.label("headers known")
    asm.put(0x61, 1, 6, _SKB_SEGMENTS)
    asm.jump(0x15, "length known", 1, value=0)
    asm.put(0x07, 1, value=-1)
    asm.put(0x2F, 1, 9)
    asm.put(0x0F, 7, 1)  # r7 += (segments - 1) * headers
    asm.label("length known")


def _read_config(asm: _Assembler, config_map: int) -> None:
    """r4: the packet's time at the rate in ns. r5: the depth. r6: now. r7 stays. Without a rate in force everything passes."""
    asm.value_of_map(9, config_map)
    asm.put(0x85, value=_KTIME_GET_NS)
    asm.put(0xBF, 6, 0)
    asm.put(0x79, 1, 9, 16)
    asm.jump(0x2D, "pass", 6, 1)  # now > until
    asm.put(0x79, 4, 9, 0)
    asm.put(0x2F, 4, 7)
    asm.put(0x77, 4, value=_SCALE_BITS)
    asm.put(0x79, 5, 9, 8)


def _admit(asm: _Assembler, state_map: int) -> None:
    asm.value_of_map(9, state_map)
    for attempt in range(_ATTEMPTS):
        asm.put(0x79, 0, 9, 0)  # r0 = r1 = arrival
        asm.put(0xBF, 1, 0)
        asm.put(0xBF, 2, 0)
        asm.jump(0x3D, f"busy {attempt}", 2, 6)
        asm.put(0xBF, 2, 6)  # r2 = max(arrival, now)
        asm.label(f"busy {attempt}")
        asm.put(0x0F, 2, 4)
        asm.put(0xBF, 3, 2)
        asm.put(0x1F, 3, 6)  # r3 = how far it would be ahead of now
        asm.jump(0xBD, f"conforms {attempt}", 3, 5)
        asm.jump(0x5D, "drop", 3, 4)  # larger than the depth: it passes when nothing else is ahead
        asm.label(f"conforms {attempt}")
        asm.put(0xDB, 9, 2, 0, 0xF1)  # compare and exchange: arrival == r0 -> r2
        asm.jump(0x1D, "pass", 0, 1)
    asm.label("drop")
    asm.put(0xB7, 1, value=1)
    asm.put(0xDB, 9, 1, 8)
    asm.put(0xDB, 9, 7, 16)
    asm.put(0xB7, 0, value=_DROP)
    asm.jump(0x15, "end", 8, value=_TCP)
    asm.put(0xB7, 0, value=_DROP_SILENTLY)
    asm.jump(0x05, "end")
    asm.label("pass")
    asm.put(0xB7, 0, value=_PASS)
    asm.label("end")
    asm.put(0x95)
