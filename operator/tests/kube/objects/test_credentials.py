from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store
from kube_objects import UID

from fairlead.kube.objects.credentials import Credentials, issue

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return issue(UID, 2, NOW)


def _certificate(credentials: Credentials, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(credentials.files[name])


def test_has_the_ca_and_a_pair_for_each_end_and_nothing_else(credentials: Credentials) -> None:
    assert set(credentials.files) == {"ca.crt", "sender.crt", "sender.key", "receiver.crt", "receiver.key"}


@pytest.mark.parametrize("role", ["sender", "receiver"])
class TestAPair:
    def test_key_and_certificate_belong_together_on_p256(self, credentials: Credentials, role: str) -> None:
        key = load_pem_private_key(credentials.files[f"{role}.key"], None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.curve.name == "secp256r1"
        assert _certificate(credentials, f"{role}.crt").public_key() == key.public_key()

    def test_names_job_attempt_and_role(self, credentials: Credentials, role: str) -> None:
        names = _certificate(credentials, f"{role}.crt").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"fairlead://job/{UID}/2/{role}"]
        assert names.get_values_for_type(x509.DNSName) == [f"{role}.{UID}.fairlead.internal"]

    def test_a_tls_library_accepts_it_under_its_dns_name_and_no_other(self, credentials: Credentials, role: str) -> None:
        store = Store([_certificate(credentials, "ca.crt")])
        leaf = _certificate(credentials, f"{role}.crt")
        builder = PolicyBuilder().store(store).time(NOW)
        builder.build_server_verifier(x509.DNSName(f"{role}.{UID}.fairlead.internal")).verify(leaf, [])
        with pytest.raises(x509.verification.VerificationError):
            builder.build_server_verifier(x509.DNSName(f"{role}.other.fairlead.internal")).verify(leaf, [])
        builder.build_client_verifier().verify(leaf, [])

    def test_another_attempts_ca_does_not_vouch_for_it(self, credentials: Credentials, role: str) -> None:
        other = Store([_certificate(issue(UID, 2, NOW), "ca.crt")])
        verifier = PolicyBuilder().store(other).time(NOW).build_client_verifier()
        with pytest.raises(x509.verification.VerificationError):
            verifier.verify(_certificate(credentials, f"{role}.crt"), [])

    def test_is_valid_from_an_hour_ago_for_thirty_days(self, credentials: Credentials, role: str) -> None:
        certificate = _certificate(credentials, f"{role}.crt")
        assert certificate.not_valid_before_utc == NOW - timedelta(hours=1)
        assert certificate.not_valid_after_utc == NOW + timedelta(days=30)


def test_lives_as_long_as_the_jobs_deadline() -> None:
    short = issue(UID, 1, NOW, timedelta(hours=2))
    assert _certificate(short, "sender.crt").not_valid_after_utc == NOW + timedelta(hours=2)


def test_the_cas_key_is_kept_nowhere(credentials: Credentials) -> None:
    ca_key = _certificate(credentials, "ca.crt").public_key()
    for name, content in credentials.files.items():
        if name.endswith(".key"):
            assert load_pem_private_key(content, None).public_key() != ca_key
