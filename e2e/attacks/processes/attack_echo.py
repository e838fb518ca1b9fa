"""The receiver's echo service, used against others or to learn something."""

from __future__ import annotations

import socket
import struct
import time

from blake3 import blake3

from e2e.attacks.lib.forged import ForgedSender, forged_sender
from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.movers import ADDRESS, PATIENCE_S, Movers

ELSEWHERE = "127.0.0.2"
SILENCE_S = 1.0
"""Longer than the receiver looks at its socket."""
REPLIES_A_SECOND = 200


def request(key: bytes, number: int = 0) -> bytes:
    """A request of the echo service under a job's echo key."""
    head = struct.pack(">4sBBHQQ", b"FLE1", 1, 1, 0, number, 0)
    return head + blake3(head, key=blake3(key, derive_key_context="fairlead echo v1").digest()).digest()[:24]


def _replies(port: int, said: list[bytes], source: str = ADDRESS) -> list[bytes]:
    """What comes back until the receiver is silent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((source, 0))
        probe.settimeout(SILENCE_S)
        for datagram in said:
            probe.sendto(datagram, (ADDRESS, port))
        heard = []
        try:
            while True:
                heard.append(probe.recv(4096))
        except TimeoutError:
            return heard


def _connected(movers: Movers) -> ForgedSender:
    """The job's sender, whose own probes are answered: the positive control."""
    sender = forged_sender(movers, movers.receiver().port)
    sender.greet()
    # It answers from a moment after the greeting on.
    deadline_s = time.monotonic() + PATIENCE_S
    while not (replies := _replies(sender.echo_port, [request(sender.echo_key)])):
        assert time.monotonic() < deadline_s, "the sender's own request is not answered"
    assert [len(reply) for reply in replies] == [48]
    return sender


@gains("has two receivers answer each other for ever")
def attack_by_a_request_in_anothers_name(movers: Movers, judge: Judge) -> None:
    """Somebody with the echo key sends a request whose source is another host."""
    sender = _connected(movers)
    heard = _replies(sender.echo_port, [request(sender.echo_key)], source=ELSEWHERE)
    judge(not heard, f"{len(heard)} replies")


@gains("has two receivers answer each other for ever")
def attack_by_a_reply_in_place_of_a_request(movers: Movers, judge: Judge) -> None:
    """The receiver's own reply, and one of another job's receiver, are sent to it as if they were requests."""
    sender = _connected(movers)
    (own,) = _replies(sender.echo_port, [request(sender.echo_key)])
    other = Movers(movers.binary, movers.folder / "other")
    try:
        neighbour = _connected(other)
        (theirs,) = _replies(neighbour.echo_port, [request(neighbour.echo_key)])
    finally:
        other.close()
    heard = _replies(sender.echo_port, [own, theirs])
    judge(not heard, f"{len(heard)} replies")


@gains("learns that a receiver is there, and has it send to others")
def attack_by_a_request_without_the_key(movers: Movers, judge: Judge) -> None:
    """A stranger at the sender's address sends requests under a wrong key, without a tag, and too long."""
    sender = _connected(movers)
    right = request(sender.echo_key)
    heard = _replies(sender.echo_port, [request(bytes(16)), right[:24], right + b"\0", right[:-1] + bytes([right[-1] ^ 1]), b""])
    judge(not heard, f"{len(heard)} replies")


@gains("floods the sender's host in the receiver's name")
def attack_by_a_flood_of_requests(movers: Movers, judge: Judge) -> None:
    """Somebody with the echo key sends 5,000 requests at once."""
    sender = _connected(movers)
    heard = _replies(sender.echo_port, [request(sender.echo_key, number) for number in range(5000)])
    # The bucket of one second, and what flows into it while the machine is busy.
    judge(len(heard) <= 3 * REPLIES_A_SECOND and all(len(one) == 48 for one in heard), f"{len(heard)} replies")


@gains("learns that a receiver is there, and has it send to others")
def attack_before_the_sender_is_connected(movers: Movers, judge: Judge) -> None:
    """A stranger probes a receiver that still waits for its sender."""
    receiver = movers.receiver()
    heard = _replies(receiver.port, [request(bytes(16))])
    judge(not heard, f"{len(heard)} replies")
    receiver.stop()
    _connected(movers)
