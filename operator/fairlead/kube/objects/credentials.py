"""The mutually authenticated pairs of one attempt: a CA made for it alone, whose key is forgotten, and one certificate for each end."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.core.observed import Role

CLOCK_SKEW = timedelta(hours=1)
"""How far a mover's clock may be from the operator's, either way."""

DEFAULT_LIFETIME = timedelta(days=30)
"""Of an attempt without a deadline. One that lasts longer opens no more streams; the next attempt has new pairs and goes on."""

ENDS = (Role.SENDER, Role.RECEIVER)

KeyMaker = Callable[[], ec.EllipticCurvePrivateKey]


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM files by the names that the Secret gives them."""

    files: dict[str, bytes]

    def as_secret_data(self) -> dict[str, str]:
        """The Secret's `data`: base64 by key."""
        return {name: base64.b64encode(content).decode() for name, content in self.files.items()}


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def uri_of(job_uid: str, attempt: int, role: Role) -> str:
    """The name by which an end proves job, attempt and role."""
    return f"fairlead://job/{job_uid}/{attempt}/{role.value}"


def dns_of(job_uid: str, role: Role) -> str:
    """The name that the TLS library of the other end verifies."""
    return f"{role.value}.{job_uid}.fairlead.internal"


def issue(job_uid: str, attempt: int, now: datetime, lifetime: timedelta | None = None, make_key: KeyMaker = new_key) -> Credentials:
    """Both ends' pairs, valid from an hour before `now` for `lifetime` (30 days without one)."""
    not_before = now - CLOCK_SKEW
    not_after = now + (lifetime if lifetime is not None else DEFAULT_LIFETIME)
    ca_key = make_key()
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fairlead attempt {attempt}")])
    ca = (
        x509.CertificateBuilder()
        .subject_name(ca_name)
        .issuer_name(ca_name)
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    files = {"ca.crt": ca.public_bytes(Encoding.PEM)}
    for role in ENDS:
        key = make_key()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fairlead {role.value}")]))
            .issuer_name(ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before)
            .not_valid_after(not_after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.UniformResourceIdentifier(uri_of(job_uid, attempt, role)), x509.DNSName(dns_of(job_uid, role))]
                ),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        files[f"{role.value}.crt"] = certificate.public_bytes(Encoding.PEM)
        files[f"{role.value}.key"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Credentials(files)


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
