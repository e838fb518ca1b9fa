"""Certificates that are not the peer's, and connections that are not as they must be."""

from __future__ import annotations

import datetime
import socket
import ssl
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from e2e.attacks.lib import messages
from e2e.attacks.lib.forged import PATIENCE_S, RefusedError, answer_to, connect, forged_sender
from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.messages import Entry, encode, frame
from e2e.attacks.lib.movers import ADDRESS, Mover, Movers, succeeded

SHORT = ("--peer-timeout", "3")
STOLEN = [Entry(b"file", b"stolen")]


def _own_sender_is_let_in(movers: Movers, receiver: Mover) -> None:
    """The positive control: what was tried before does not keep the job's sender out."""
    movers.write("own", b"own")
    sender = movers.sender(receiver.port)
    assert succeeded(sender.end(), receiver.end())
    assert movers.destination.joinpath("own").read_bytes() == b"own"


def _nothing_came(movers: Movers) -> bool:
    return not movers.destination.joinpath("file").exists()


def _forge(movers: Movers, receiver: Mover, judge: Judge, *, credentials: str = "tls", role: str = "sender") -> None:
    """Concludes from a forged sender with the job's words and these credentials."""
    try:
        forged_sender(movers, receiver.port, credentials, role).transfer(STOLEN)
        refused = "the transfer went through"
    except RefusedError as error:
        refused = f"refused: {error}"
    judge(refused.startswith("refused") and _nothing_came(movers), refused)


@gains("writes into another job's destination")
def attack_with_another_jobs_certificate(movers: Movers, judge: Judge) -> None:
    """A sender with the certificate of another job connects to a waiting receiver."""
    movers.write("file", b"stolen")
    movers.credentials("other", job="other")
    receiver = movers.receiver()
    stranger = movers.sender(receiver.port, *SHORT, credentials="other/sender").end()
    judge(stranger.code != 0 and _nothing_came(movers), str(stranger))
    _own_sender_is_let_in(movers, receiver)


@gains("writes into another job's destination")
def attack_with_another_jobs_certificate_and_this_jobs_words(movers: Movers, judge: Judge) -> None:
    """A forged sender greets with this job's name and another job's certificate."""
    movers.credentials("other", job="other")
    receiver = movers.receiver()
    _forge(movers, receiver, judge, credentials="other")
    _own_sender_is_let_in(movers, receiver)


@gains("goes on as an attempt whose key was stolen long ago")
def attack_with_another_attempts_certificate(movers: Movers, judge: Judge) -> None:
    """A forged sender comes to attempt 1 with the certificate of attempt 2 of the same job."""
    movers.credentials("later", attempt=2)
    receiver = movers.receiver()
    _forge(movers, receiver, judge, credentials="later")
    _own_sender_is_let_in(movers, receiver)


@gains("sends with the key of a compromised receiver")
def attack_as_a_sender_with_the_receivers_certificate(movers: Movers, judge: Judge) -> None:
    """Somebody with the receiver's key connects to the receiver in the sender's role."""
    receiver = movers.receiver()
    _forge(movers, receiver, judge, role="receiver")
    _own_sender_is_let_in(movers, receiver)


@gains("reads what a job sends, with the key of a compromised sender")
def attack_as_a_receiver_with_the_senders_certificate(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key waits in the receiver's place."""
    movers.write("own", b"secret")
    context = movers.tls("receiver", certificate="sender")
    heard = b""
    with socket.create_server((ADDRESS, 0)) as impostor:
        impostor.settimeout(PATIENCE_S)
        sender = movers.sender(impostor.getsockname()[1], *SHORT)
        plain = impostor.accept()[0]
        opening = plain.recv(len(movers.opening(messages.OPENING_CONTROL)), socket.MSG_WAITALL)
        assert opening.startswith(messages.OPENING_CONTROL)
        with suppress(OSError), context.wrap_socket(plain, server_side=True) as stream:
            stream.settimeout(PATIENCE_S)
            heard = stream.recv(4096)
    end = sender.end()
    judge(end.code != 0 and not heard, f"{end}; it said {len(heard)} bytes to the impostor")
    _own_sender_is_let_in(movers, movers.receiver())


@gains("sends into any job without a key of it")
def attack_with_a_certificate_of_ones_own(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """A stranger signs a certificate of their own with this job's name in it."""
    _write_forged_certificate(tmp_path / "own" / "sender", "fairlead://job/local/1/sender")
    receiver = movers.receiver()
    _forge(movers, receiver, judge, credentials="own")
    _own_sender_is_let_in(movers, receiver)


@gains("sends into any job without a key of it")
def attack_without_a_certificate(movers: Movers, judge: Judge) -> None:
    """A stranger comes without any certificate."""
    receiver = movers.receiver()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sender = forged_sender(movers, receiver.port)
    sender.context = context
    try:
        sender.transfer(STOLEN)
        refused = ""
    except RefusedError as error:
        refused = f"refused: {error}"
    judge(bool(refused) and _nothing_came(movers), refused or "the transfer went through")
    _own_sender_is_let_in(movers, receiver)


@gains("breaks the weaker protocol's handshake")
def attack_by_downgrade_to_tls_1_2(movers: Movers, judge: Judge) -> None:
    """The job's own sender offers nothing above TLS 1.2."""
    receiver = movers.receiver()
    sender = forged_sender(movers, receiver.port)
    sender.context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        sender.greet()
        refused = ""
    except RefusedError as error:
        refused = f"refused: {error}"
    judge(bool(refused), refused or "the receiver speaks TLS 1.2")
    _own_sender_is_let_in(movers, receiver)


@gains("sends without any key")
def attack_with_a_greeting_in_the_clear(movers: Movers, judge: Judge) -> None:
    """A stranger says the greeting of the control connection without TLS."""
    receiver = movers.receiver()
    hello = encode((1, b"local"), (2, 1), (3, 1), (6, 1))
    answer = answer_to(receiver.port, movers.opening(messages.OPENING_CONTROL) + movers.dialect.preamble + frame(hello))
    judge(movers.dialect.preamble not in answer, f"answered {answer[:40]!r}")
    _own_sender_is_let_in(movers, receiver)


@gains("puts data in the clear into a job that wants them encrypted")
def attack_with_an_unencrypted_stream_where_encryption_is_required(movers: Movers, judge: Judge) -> None:
    """While a transfer with encryption runs, a stranger opens a data stream of the kind without it."""
    movers.write("own", bytes(8 << 20))
    receiver = movers.receiver()
    sender = movers.slow_sender(receiver.port)
    answer = answer_to(receiver.port, movers.opening(messages.OPENING_KEYED) + bytes(72))
    sender.hurry()
    judge(not answer, f"answered {answer[:40]!r}")
    assert succeeded(sender.end(), receiver.end())


@gains("joins a running transfer as a further stream")
def attack_with_a_data_stream_that_belongs_to_no_control_connection(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key opens a data stream beside a running transfer, without its token."""
    movers.write("own", bytes(8 << 20))
    receiver = movers.receiver()
    sender = movers.slow_sender(receiver.port)
    thief = forged_sender(movers, receiver.port)
    thief.token = bytes(16)
    try:
        with thief.data(7) as stream:
            stream.sendall(next(messages.packs(STOLEN)))
        refused = ""
    except (RefusedError, OSError) as error:
        refused = f"refused: {error}"
    sender.hurry()
    ends = sender.end(), receiver.end()
    judge(bool(refused) and succeeded(*ends), refused or "the stream was let in")


@gains("takes a running transfer over")
def attack_with_a_second_control_connection(movers: Movers, judge: Judge) -> None:
    """Somebody with the sender's key greets a receiver whose sender is connected."""
    movers.write("own", bytes(8 << 20))
    receiver = movers.receiver()
    sender = movers.slow_sender(receiver.port)
    try:
        forged_sender(movers, receiver.port).transfer(STOLEN)
        refused = ""
    except RefusedError as error:
        refused = f"refused: {error}"
    sender.hurry()
    ends = sender.end(), receiver.end()
    judge(bool(refused) and succeeded(*ends) and _nothing_came(movers), refused or "the second sender was let in")


@gains("stops a transfer from afar")
def attack_by_strangers_during_a_transfer(movers: Movers, judge: Judge) -> None:
    """Strangers open hundreds of connections while a transfer runs, some silent, some with words of other protocols."""
    movers.write("own", bytes(8 << 20))
    receiver = movers.receiver()
    sender = movers.slow_sender(receiver.port)
    openings = (b"", b"FL", b"FLMC", b"FLMD\x16\x03\x01\x40\x00", b"FLMKFLMV\x00\x02", b"GET / HTTP/1.1\r\n\r\n")
    strangers = []
    for number in range(240):
        stranger = connect(receiver.port)
        strangers.append(stranger)
        with suppress(OSError):
            stranger.sendall(openings[number % len(openings)])
    sender.hurry()
    ends = sender.end(), receiver.end()
    for stranger in strangers:
        stranger.close()
    undisturbed = succeeded(*ends) and ends[0].verdict["bytes_resent"] == 0 and ends[1].verdict["blocks_damaged"] == 0
    judge(undisturbed, "; ".join(map(str, ends)))


def _write_forged_certificate(folder: Path, uri: str) -> None:
    folder.mkdir(parents=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fairlead")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "tls.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
