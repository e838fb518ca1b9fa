"""Bytes on the wire that are replayed, cut off, or too many."""

from __future__ import annotations

import struct
from contextlib import suppress

from e2e.attacks.lib import messages
from e2e.attacks.lib.forged import RefusedError, answer_to, connect, forged_sender, tapped
from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.messages import Entry
from e2e.attacks.lib.movers import Mover, Movers, succeeded

MOST_RSS_BYTES = 512 << 20
"""Half of what a mover's container may use."""
ANSWER_BYTES = 64
"""What a receiver says to a greeting before the sender has proved itself."""
GREETING_BYTES = 72
FILE = [Entry(b"file", bytes(range(256)) * 12_000)]


def _replayed(movers: Movers, flip: int = 0) -> tuple[list[int], bool]:
    """What a stranger hears who replays a data stream: with its own opening, and with a fresh one before the greeting.

    Bits of the last byte of the greeting are changed by `flip`. Bytes of each answer, and whether the transfer was unharmed.
    """
    movers.write("own", bytes(3 << 20))
    receiver = movers.receiver("--encryption", "None")
    with tapped(receiver.port) as tap:
        sender = movers.slow_sender(tap.port, "--encryption", "None", "--streams", "1")
        (recorded,) = tap.data_connections()
        fresh = movers.opening(messages.OPENING_KEYED)
        greeting = len(fresh)
        assert len(recorded) > 10 * GREETING_BYTES, "an opening, a greeting, a proof and a pack were recorded"
        changed = bytearray(recorded)
        changed[greeting + GREETING_BYTES - 1] ^= flip
        answers = [len(answer_to(receiver.port, said)) for said in (bytes(changed), fresh + bytes(changed[greeting:]))]
        sender.hurry()
        ends = sender.end(), receiver.end()
    unharmed = succeeded(*ends) and ends[0].verdict["bytes_resent"] == 0 and ends[1].verdict["blocks_damaged"] == 0
    return answers, unharmed


@gains("puts recorded data into a transfer again")
def attack_by_replay_of_a_greeting_and_its_packs(movers: Movers, judge: Judge) -> None:
    """A stranger replays the start of an unencrypted data stream, its greeting, its proof and its first packs."""
    answers, unharmed = _replayed(movers)
    judge(max(answers) <= ANSWER_BYTES and unharmed, f"answered {answers} bytes; transfer unharmed: {unharmed}")


@gains("joins an unencrypted transfer without its secret")
def attack_with_a_greeting_under_a_wrong_key(movers: Movers, judge: Judge) -> None:
    """A stranger greets an unencrypted transfer with one bit of the greeting's tag changed."""
    answers, unharmed = _replayed(movers, flip=1)
    judge(not any(answers) and unharmed, f"answered {answers} bytes; transfer unharmed: {unharmed}")


OVERLONG = struct.pack(">I", 0xFFFFFFFF) + bytes(1 << 20)


def _memory_is_bounded(receiver: Mover, judge: Judge, heard: str) -> None:
    peak = receiver.process.look()
    judge(peak < MOST_RSS_BYTES, f"{heard}; the receiver's memory reached {peak >> 20} MiB")


@gains("has the receiver killed for its memory")
def attack_with_a_greeting_of_4_gib(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key announces a greeting of 2^32-1 bytes."""
    receiver = movers.receiver()
    heard = b""
    plain = connect(receiver.port)
    plain.sendall(movers.opening(messages.OPENING_CONTROL))
    with suppress(OSError), movers.tls("sender").wrap_socket(plain, server_hostname="receiver.local.fairlead.internal") as stream:
        stream.sendall(movers.dialect.preamble + OVERLONG)
        heard = stream.recv(4096)
    _memory_is_bounded(receiver, judge, f"answered {len(heard)} bytes")
    forged_sender(movers, receiver.port).transfer(FILE)
    assert succeeded(receiver.end())


@gains("has the receiver killed for its memory")
def attack_with_a_control_message_of_4_gib(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key announces a control message of 2^32-1 bytes."""
    receiver = movers.receiver()
    sender = forged_sender(movers, receiver.port)
    sender.greet()
    with suppress(OSError):
        sender.control.sendall(OVERLONG)
    _memory_is_bounded(receiver, judge, "greeted")
    end = receiver.end()
    judge(end.code != 0, str(end))
    receiver = movers.receiver()
    forged_sender(movers, receiver.port).transfer(FILE)
    assert succeeded(receiver.end())


def _pack_is_refused(movers: Movers, judge: Judge, pack: bytes) -> None:
    """Concludes from a strange pack before the right ones: either the right tree comes about, or none."""
    receiver = movers.receiver("--stall-timeout", "5")
    sender = forged_sender(movers, receiver.port)
    sender.greet()
    sender.list(FILE)
    with suppress(OSError), sender.data() as stream:
        stream.sendall(pack)
        stream.recv(1)
    _memory_is_bounded(receiver, judge, "strange pack")
    with suppress(RefusedError, OSError), sender.send(FILE):
        sender.complete(FILE)
    sender.close()
    end = receiver.end()
    file = movers.destination / "file"
    published = file.read_bytes() if file.exists() else b""
    judge(published == FILE[0].content if succeeded(end) else not published, f"{end}; published {len(published)} bytes")
    receiver = movers.receiver("--overwrite", "Always")
    forged_sender(movers, receiver.port).transfer(FILE)
    assert succeeded(receiver.end())


@gains("has the receiver killed for its memory")
def attack_with_a_pack_of_4_gib(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key announces a pack of 2^32-1 bytes."""
    header = struct.pack(">4sBBHIIQQ", b"FLPK", 1, 0, 1, 0xFFFFFFFF, 0, 0, 0)
    _pack_is_refused(movers, judge, header + bytes(1 << 20))


@gains("writes beyond the listed files")
def attack_with_a_block_of_no_listed_file(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key sends a block of the file number 4,000,000,000, and one far beyond a file's end."""
    digest = messages.root_digest(())
    strange = b"".join(
        struct.pack(">4sBBHIIQQ", b"FLPK", 1, 0, 1, 4, 0, number, 0) + struct.pack(">IIII", file, block, 4, 0) + digest + b"evil"
        for number, (file, block) in enumerate(((4_000_000_000, 0), (0, 4_000_000_000)))
    )
    _pack_is_refused(movers, judge, strange)


@gains("has a tree taken for whole that is not")
def attack_by_half_close_after_the_last_byte(movers: Movers, judge: Judge) -> None:
    """A sender closes its half of every connection after the last block, without saying that this is all."""
    receiver = movers.receiver("--stall-timeout", "5")
    sender = forged_sender(movers, receiver.port)
    sender.greet()
    sender.list(FILE)
    stream = sender.send(FILE)
    for each in (stream, sender.control):
        with suppress(OSError):
            each.unwrap()
    end = receiver.end()
    judge(end.code != 0 and not movers.destination.joinpath("file").exists(), str(end))
    receiver = movers.receiver()
    forged_sender(movers, receiver.port).transfer(FILE)
    assert succeeded(receiver.end())


@gains("has a tree taken for whole that is not")
def attack_by_claiming_completion_with_a_block_missing(movers: Movers, judge: Judge) -> None:
    """A sender leaves the last block out and says with the right digest that all was sent."""
    receiver = movers.receiver()
    sender = forged_sender(movers, receiver.port)
    sender.greet()
    sender.list(FILE)
    try:
        with sender.send(FILE, pieces=1):
            sender.complete(FILE)
        refused = "it was published"
    except RefusedError as error:
        refused = str(error)
    end = receiver.end()
    judge(end.code != 0 and not movers.destination.joinpath("file").exists(), f"{refused}; {end}")
    receiver = movers.receiver()
    forged_sender(movers, receiver.port).transfer(FILE)
    assert succeeded(receiver.end())


@gains("has the receiver killed for its memory, or the disk filled")
def attack_with_petabytes_of_holes(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key lists a file of almost 4 PiB that is one hole."""
    size = ((1 << 32) - 2) * messages.BLOCK_BYTES
    receiver = movers.receiver("--stall-timeout", "5")
    sender = forged_sender(movers, receiver.port)
    sender.greet()
    try:
        sender.list([Entry(b"hole", size=size, hole_bytes=size)])
        heard = "the listing was taken"
    except RefusedError as error:
        heard = str(error)
    peak = receiver.process.look()
    sender.close()
    end = receiver.end()
    judge(end.code != 0 and peak < MOST_RSS_BYTES, f"{heard}; {end}; memory {peak >> 20} MiB")
    with movers.write("sparse", b"x").open("r+b") as sparse:
        sparse.truncate(64 << 20)
    assert succeeded(*movers.transfer())
