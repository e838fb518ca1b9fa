"""Peers that speak the movers' protocol and do not keep to it, and a stranger in the middle."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.attacks.lib import messages
from e2e.attacks.lib.messages import Entry, encode, frame
from e2e.attacks.lib.movers import ADDRESS, Movers

PATIENCE_S = 30.0
_CONTROL, _DATA = 1, 2
_ENCRYPTION_REQUIRED = 1


class RefusedError(Exception):
    """The receiver turned the connection or the transfer away; the message is what it said."""


def connect(port: int, source: str = ADDRESS) -> socket.socket:
    """A TCP connection to a receiver."""
    return socket.create_connection((ADDRESS, port), timeout=PATIENCE_S, source_address=(source, 0))


def answer_to(port: int, said: bytes) -> bytes:
    """All that a receiver says to these bytes until it closes the connection."""
    with connect(port) as stream:
        heard = b""
        with contextlib.suppress(ConnectionError):
            stream.sendall(said)
            while piece := stream.recv(4096):
                heard += piece
        return heard


def _exactly(stream: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = stream.recv(count - len(found))
        if not piece:
            raise RefusedError("it closed the connection")
        found += piece
    return found


def read_frame(stream: socket.socket) -> bytes:
    """The next frame's body."""
    (length,) = struct.unpack(">I", _exactly(stream, 4))
    return _exactly(stream, length)


@dataclass
class ForgedSender:
    """A sender with a job's real credentials."""

    movers: Movers
    port: int
    context: ssl.SSLContext
    job: str = "local"
    attempt: int = 1
    control: ssl.SSLSocket = field(init=False)
    token: bytes = b""
    echo_key: bytes = b""
    echo_port: int = 0

    def greet(self) -> None:
        """Makes the control connection. Raises RefusedError."""
        try:
            self.control, welcome = self._greeted(messages.OPENING_CONTROL, (3, _CONTROL), (6, _ENCRYPTION_REQUIRED))
        except (ssl.SSLError, ConnectionError) as error:
            raise RefusedError(str(error)) from error
        self.token, self.echo_key = messages.raw(welcome[2]), messages.raw(welcome[3])
        self.echo_port = int(welcome[4])

    def data(self, stream: int = 0) -> ssl.SSLSocket:
        """Makes a data connection."""
        return self._greeted(messages.OPENING_DATA, (3, _DATA), (4, self.token), *([(5, stream)] if stream else []))[0]

    def say(self, kind: int, body: bytes) -> None:
        """Sends a control message."""
        self.control.sendall(frame(encode((kind, body))))

    def await_message(self, kind: int) -> bytes:
        """The next message of a kind. Raises RefusedError for the receiver's failure."""
        while True:
            try:
                found = messages.decode(read_frame(self.control))
            except (ssl.SSLError, ConnectionError) as error:
                raise RefusedError(str(error)) from error
            if messages.FAILURE in found:
                failure = messages.decode(messages.raw(found[messages.FAILURE]))
                raise RefusedError(" ".join(messages.raw(failure[number]).decode() for number in (1, 2) if number in failure))
            if kind in found:
                return messages.raw(found[kind])

    def list(self, entries: Sequence[Entry]) -> None:
        """Claims to have these entries, and waits for the plan. Raises RefusedError."""
        with contextlib.suppress(ConnectionError):
            self.say(messages.LISTING, b"".join(encode((1, entry.encoded())) for entry in entries))
            self.say(messages.LISTING_END, messages.listing_end(entries))
        while True:
            if messages.decode(self.await_message(messages.PLAN)).get(2):
                return

    def send(self, entries: Sequence[Entry], pieces: int | None = None) -> ssl.SSLSocket:
        """Sends the blocks (or the first few) over one data connection, which is returned, and waits until they are stored."""
        stream = self.data()
        sent = list(messages.packs(entries))[:pieces]
        for pack in sent:
            stream.sendall(pack)
        stored = 0
        while stored < len(sent):
            stored += len(messages.numbers(messages.decode(self.await_message(messages.STORED))[1]))
        return stream

    def complete(self, entries: Sequence[Entry]) -> None:
        """Says that all was sent, and waits until it is published."""
        self.say(messages.COMPLETE, encode((1, messages.root_digest(entries))))
        self.await_message(messages.PUBLISHED)

    def transfer(self, entries: Sequence[Entry]) -> None:
        """The whole transfer. Raises RefusedError."""
        self.greet()
        self.list(entries)
        with self.send(entries):
            self.complete(entries)
        self.close()

    def close(self) -> None:
        """Ends the control connection without a word."""
        self.control.close()

    def _greeted(self, opening: bytes, *fields: tuple[int, messages.Value]) -> tuple[ssl.SSLSocket, dict[int, messages.Value]]:
        plain = connect(self.port)
        plain.sendall(self.movers.opening(opening))
        stream = self.context.wrap_socket(plain, server_hostname=f"receiver.{self.job}.fairlead.internal")
        hello = encode((1, self.job.encode()), (2, self.attempt), *fields)
        stream.sendall(self.movers.dialect.preamble + frame(hello))
        _exactly(stream, len(self.movers.dialect.preamble))
        welcome = messages.decode(read_frame(stream))
        if welcome.get(1):
            raise RefusedError(messages.raw(welcome[1]).decode())
        return stream, welcome


def forged_sender(movers: Movers, port: int, credentials: str = "tls", role: str = "sender") -> ForgedSender:
    """One with credentials of the movers' folder."""
    return ForgedSender(movers, port, movers.tls("sender", credentials, certificate=role))


@dataclass
class Tap:
    """A stranger between sender and receiver, who keeps what the sender says first on each connection."""

    port: int
    recorded: list[bytes] = field(default_factory=list)

    def data_connections(self) -> list[bytes]:
        """What was said at the start of each data connection, its opening included."""
        return [said for said in self.recorded if said and not said.startswith(messages.OPENING_CONTROL)]


@contextmanager
def tapped(receiver_port: int, keep_bytes: int = 1 << 14) -> Iterator[Tap]:
    """Stands before a receiver while the block runs."""
    listener = socket.create_server((ADDRESS, 0))
    tap = Tap(listener.getsockname()[1])

    def copy(source: socket.socket, target: socket.socket, number: int | None) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if number is not None and len(tap.recorded[number]) < keep_bytes:
                    tap.recorded[number] += piece
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                inward = listener.accept()[0]
                outward = socket.create_connection((ADDRESS, receiver_port))
                tap.recorded.append(b"")
                for arguments in ((inward, outward, len(tap.recorded) - 1), (outward, inward, None)):
                    threading.Thread(target=copy, args=arguments, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield tap
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
