import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.errors import UsageError, WireError
from fairlead_advisor.probe.wire import DATAGRAM_BYTES, Codec, Echo, EchoKind, parse_key

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "echo_v1.json").read_text())
KEY = bytes.fromhex(GOLDEN["key_hex"])
U64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(("kind", "field"), [(EchoKind.REQUEST, "request_hex"), (EchoKind.REPLY, "reply_hex")])
def test_encodes_and_decodes_the_golden_datagrams(kind: EchoKind, field: str) -> None:
    echo = Echo(kind, GOLDEN["sequence"], GOLDEN["stamp_ns"])
    assert Codec(KEY).encode(echo).hex() == GOLDEN[field]
    assert Codec(KEY).decode(bytes.fromhex(GOLDEN[field])) == echo


@given(st.sampled_from(EchoKind), U64, U64, st.binary(min_size=16, max_size=16))
def test_decodes_what_it_encoded(kind: EchoKind, sequence: int, stamp_ns: int, key: bytes) -> None:
    echo = Echo(kind, sequence, stamp_ns)
    datagram = Codec(key).encode(echo)
    assert len(datagram) == DATAGRAM_BYTES
    assert Codec(key).decode(datagram) == echo


@given(st.one_of(st.binary(max_size=128), st.binary(min_size=48, max_size=48)))
def test_arbitrary_bytes_raise_the_typed_error_only(datagram: bytes) -> None:
    with pytest.raises(WireError):
        Codec(KEY).decode(datagram)


@given(st.integers(0, 8 * DATAGRAM_BYTES - 1))
def test_any_flipped_bit_is_noticed(bit: int) -> None:
    datagram = bytearray.fromhex(GOLDEN["reply_hex"])
    datagram[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError):
        Codec(KEY).decode(bytes(datagram))


def test_another_key_is_foreign() -> None:
    with pytest.raises(WireError, match="another key"):
        Codec(bytes(16)).decode(bytes.fromhex(GOLDEN["reply_hex"]))


@pytest.mark.parametrize(
    ("offset", "value", "complaint"),
    [(0, b"FLE2", "not an echo"), (4, b"\x02", "not an echo"), (5, b"\x03", "unknown kind 3"), (7, b"\x01", "not an echo")],
)
def test_an_authentic_tag_does_not_excuse_a_wrong_header(offset: int, value: bytes, complaint: str) -> None:
    codec = Codec(KEY)
    header = bytearray.fromhex(GOLDEN["request_hex"])[:24]
    header[offset : offset + len(value)] = value
    with pytest.raises(WireError, match=complaint):
        codec.decode(bytes(header) + codec._tag(bytes(header)))


@pytest.mark.parametrize("text", ["", "00", "g" * 32, "0" * 31, "0" * 33, "\u0660" * 32, "0" * 30 + "é0"])
def test_a_bad_key_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(UsageError, match="32 hexadecimal digits"):
        parse_key(text)


def test_a_key_is_read_from_its_digits() -> None:
    assert parse_key(GOLDEN["key_hex"].upper() + "\n") == KEY
