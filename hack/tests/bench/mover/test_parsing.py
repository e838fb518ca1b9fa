from __future__ import annotations

import pytest

from fairlead_dev.bench.lab.handshake import suite
from fairlead_dev.bench.mover.parts.switch import parse_sockets
from fairlead_dev.bench.mover.peers.speed import parse_speed
from fairlead_dev.errors import LabError


def frame(payload: bytes, *, protocol: int = 6) -> bytes:
    tcp = bytes(12) + bytes([5 << 4]) + bytes(7)
    ip = bytes([0x45]) + bytes(8) + bytes([protocol]) + bytes(10)
    return bytes(14) + ip + tcp + payload


def server_hello(cipher: int, session: bytes = b"s" * 32) -> bytes:
    hello = b"\x03\x03" + bytes(32) + bytes([len(session)]) + session + cipher.to_bytes(2, "big") + b"\0"
    return b"\x16\x03\x03\0\x7a" + b"\x02\0\0\x76" + hello


@pytest.mark.parametrize("session", [b"", b"s" * 32])
def test_the_suite_is_read_from_a_server_hello(session: bytes) -> None:
    assert suite(frame(server_hello(0x1301, session))) == 0x1301


@pytest.mark.parametrize(
    "other",
    [
        b"",
        frame(b""),
        frame(b"\x17\x03\x03" + bytes(60)),
        frame(b"\x16\x03\x01\0\x7a\x01" + bytes(60)),
        frame(server_hello(0x1301), protocol=17),
        frame(server_hello(0x1301)[:60]),
    ],
    ids=["nothing", "no payload", "application data", "client hello", "UDP", "torn"],
)
def test_no_suite_is_read_from_anything_else(other: bytes) -> None:
    assert suite(other) is None


def test_sockets_have_the_control_that_the_kernel_says() -> None:
    text = (
        "ESTAB 0      1810944 198.18.0.1:40312 198.18.0.2:35011 bbr wscale:10,10 rto:300 rtt:100.2/0.1\n"
        "ESTAB 0      0       198.18.0.1:40310 198.18.0.2:35011 cubic wscale:10,10 rto:300 rtt:100.2/0.1\n"
        "SYN-SENT 0   1       198.18.0.1:40314 198.18.0.2:35011 cubic\n"
    )
    assert parse_sockets(text) == {40312: "bbr", 40310: "cubic"}


def test_openssl_s_speed_is_its_last_column() -> None:
    assert parse_speed("+H:16384\n+F:25:AES-128-GCM:4354563792.59\n") == pytest.approx(4354563792.59)
    with pytest.raises(LabError, match="unknown cipher"):
        parse_speed("speed: unknown cipher nonsense")
