"""etcd and kube-apiserver as child processes, with keys of their own, and nothing else of a cluster."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ADDRESS = "127.0.0.1"
PORT = 6443
ETCD = "http://127.0.0.1:2379"
ETCD_PEER = "http://127.0.0.1:2380"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "helm")
START_SECONDS = 180.0
STARTS = 3

LARGEST_DATABASE_BYTES = 6 * 1024**3
"""Every version of ten thousand jobs and their pods is kept for some minutes."""
LARGEST_AUDIT_LOG_MIB = 4096
"""It would begin anew, and lose what was asked for, where it grows beyond."""

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, users: ["system:serviceaccount:fairlead-system:fairlead"]}
  - {level: Metadata, users: ["system:serviceaccount:fairlead-system-guard:fairlead-node-agent"]}
  - {level: Metadata, userGroups: ["audited"]}
  - {level: None}
"""

CHECKOUT = Path(__file__).resolve().parents[3]


class ControlPlaneError(RuntimeError):
    """The API server cannot be started; the message says what is missing."""


def find_programs() -> dict[str, Path]:
    """The programs by name, from `$FAIRLEAD_BIN` or `build/bin`."""
    folder = Path(os.environ.get("FAIRLEAD_BIN") or CHECKOUT / "build" / "bin")
    found: dict[str, Path] = {}
    for name in PROGRAMS:
        path = folder / name
        if path.is_dir():
            path = path / name
        if not os.access(path, os.X_OK):
            raise ControlPlaneError(f"{folder / name} is missing: `make programs` builds it, or set FAIRLEAD_BIN to a folder that has it")
        found[name] = path
    return found


class ControlPlane:
    """One API server with an empty database. `folder` takes keys, data and logs."""

    def __init__(self, folder: Path, programs: dict[str, Path]) -> None:
        self._folder = folder
        self._programs = programs
        self._keys = _Keys(folder)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._audit_log = folder / "audit.log"

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://{ADDRESS}:{PORT}"

    @property
    def ca(self) -> Path:
        """The certificate by which clients know it."""
        return self._keys.ca

    @property
    def server_certificate(self) -> Path:
        """A certificate for servers at the API server's address, which its clients accept."""
        return self._keys.certificate("server")

    @property
    def server_key(self) -> Path:
        """The key of that certificate."""
        return self._keys.key("server")

    def start(self) -> None:
        """Starts both and waits until the API server is ready. Raises ControlPlaneError with the end of its log.

        On a busy machine the API server may end by itself, as its roles are not there in time; then both begin anew.
        """
        for _ in range(STARTS):
            self._launch_both()
            if self._becomes_ready():
                return
            self.stop()
            shutil.rmtree(self._folder / "etcd", ignore_errors=True)
        log = (self._folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
        raise ControlPlaneError(f"the API server did not become ready, {STARTS} times; the end of its log:\n{log}")

    def _launch_both(self) -> None:
        data = self._folder / "etcd"
        self._launch(
            "etcd",
            *("--data-dir", str(data), "--unsafe-no-fsync", "--log-level", "warn", "--quota-backend-bytes", str(LARGEST_DATABASE_BYTES)),
            *("--listen-client-urls", ETCD, "--advertise-client-urls", ETCD),
            *("--listen-peer-urls", ETCD_PEER, "--initial-advertise-peer-urls", ETCD_PEER, "--initial-cluster", f"default={ETCD_PEER}"),
        )
        keys = self._keys
        policy = self._folder / "audit.yaml"
        policy.write_text(AUDIT_POLICY)
        self._launch(
            "kube-apiserver",
            *(f"--etcd-servers={ETCD}", f"--bind-address={ADDRESS}", f"--advertise-address={ADDRESS}", f"--secure-port={PORT}"),
            *(
                f"--client-ca-file={keys.ca}",
                f"--tls-cert-file={keys.certificate('server')}",
                f"--tls-private-key-file={keys.key('server')}",
            ),
            *(f"--service-account-key-file={keys.accounts_public}", f"--service-account-signing-key-file={keys.accounts_private}"),
            *("--service-account-issuer=https://fairlead.test", "--service-cluster-ip-range=198.19.0.0/24"),
            # There is no controller that would make the service accounts which this plug-in demands.
            *(f"--audit-policy-file={policy}", f"--audit-log-path={self._audit_log}", "--audit-log-mode=blocking"),
            f"--audit-log-maxsize={LARGEST_AUDIT_LOG_MIB}",
            *("--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"),
            # As kubeadm sets it: without it the API server itself refuses what the admission policies are there to refuse.
            "--allow-privileged=true",
        )

    def audit(self) -> list[dict[str, Any]]:
        """Every request of the operator, of node agents and of users in the group `audited` that was answered so far."""
        return [entry for entry, _ in self.audit_from(0)]

    def audit_from(self, position: int) -> Iterator[tuple[dict[str, Any], int]]:
        """The same from a position in the log on, each request with the position after it."""
        with self._audit_log.open("rb") as log:
            log.seek(position)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                position += len(line)
                yield json.loads(line), position

    def pids(self) -> dict[str, int]:
        """The process of each program."""
        return {program: process.pid for program, process in self._processes.items()}

    def stop(self) -> None:
        """Ends both processes."""
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubeconfig(self, user: str, groups: Iterable[str] = (), *, stem: str = "") -> Path:
        """A kubeconfig file for a user with a certificate of that name; `stem` is what the file is called if not as the user."""
        stem = stem or user.replace(":", "-")
        self._keys.issue(stem, user, groups)
        path = self._folder / f"{stem}.kubeconfig"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
            f"clusters: [{{name: test, cluster: {{server: '{self.url}', certificate-authority: '{self._keys.ca}'}}}}]\n"
            "users: [{name: test, user: {"
            f"client-certificate: '{self._keys.certificate(stem)}', client-key: '{self._keys.key(stem)}'}}}}]\n"
        )
        return path

    def identity(self, stem: str) -> tuple[Path, Path]:
        """Certificate and key of a kubeconfig that was made under this name."""
        return self._keys.certificate(stem), self._keys.key(stem)

    def _launch(self, program: str, *arguments: str) -> None:
        with (self._folder / f"{program}.log").open("wb") as log:
            # Collecting garbage less often spares a sixth of their processor time, for memory that only a large database comes to need.
            environment = {"GOGC": "400", "GOMEMLIMIT": "9GiB"} | os.environ
            command = [str(self._programs[program]), *arguments]
            self._processes[program] = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def _becomes_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self._keys.ca))
        context.load_cert_chain(self._keys.certificate("server"), self._keys.key("server"))
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self._processes.values()):
                return False
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=10) as response:
                    if response.status == 200:
                        return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        return False


class _Keys:
    """A certificate authority and what it signs, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        self._ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
        ca = self._builder(self._ca_name, self._ca_key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._ca_key.public_key()), critical=False)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        ca = ca.add_extension(usage, critical=True)
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(ca.sign(self._ca_key, hashes.SHA256()).public_bytes(Encoding.PEM))
        accounts = ec.generate_private_key(ec.SECP256R1())
        self.accounts_private, self.accounts_public = folder / "accounts.key", folder / "accounts.pub"
        self.accounts_private.write_bytes(accounts.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self.accounts_public.write_bytes(accounts.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        self.issue("server", "kube-apiserver", ("system:masters",))

    def certificate(self, stem: str) -> Path:
        return self._folder / f"{stem}.crt"

    def key(self, stem: str) -> Path:
        return self._folder / f"{stem}.key"

    def issue(self, stem: str, user: str, groups: Iterable[str]) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS)), x509.DNSName("localhost")])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca_key.public_key())
        builder = self._builder(subject, key).add_extension(usages, critical=False).add_extension(names, critical=False)
        certificate = builder.add_extension(authority, critical=False).sign(self._ca_key, hashes.SHA256())
        self.certificate(stem).write_bytes(certificate.public_bytes(Encoding.PEM))
        self.key(stem).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )
