"""Which kubeconfig is read, and what is said of one that cannot be."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairlead.__main__ import main
from fairlead.commands.connection import KubeconfigError, read_connection
from fairlead.commands.explain.command import EXIT_USAGE

GOOD = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443/"}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: bio}}, {name: there, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: secret}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    file.write_text(GOOD)
    return file


def test_a_given_file_comes_before_the_variable(kubeconfig: Path) -> None:
    connection = read_connection(str(kubeconfig), None, {"KUBECONFIG": "/nowhere"})
    assert (connection.configuration.host, connection.namespace) == ("https://192.0.2.1:6443", "bio")


def test_the_variable_may_list_several_files(kubeconfig: Path) -> None:
    assert read_connection(None, None, {"KUBECONFIG": f"/nowhere:{kubeconfig}"}).namespace == "bio"


@pytest.mark.parametrize("later", ["elsewhere", ""])
def test_of_several_files_the_first_that_names_a_current_context_says_which_it_is(tmp_path: Path, kubeconfig: Path, later: str) -> None:
    other = tmp_path / "other"
    other.write_text(GOOD.replace("name: here", "name: elsewhere").replace("bio", "math").replace(": here", f': "{later}"'))
    assert read_connection(None, None, {"KUBECONFIG": f"/nowhere:{kubeconfig}:{other}"}).namespace == "bio"
    none_first = tmp_path / "none-first"
    none_first.write_text('{apiVersion: v1, kind: Config, current-context: ""}')
    assert read_connection(None, None, {"KUBECONFIG": f"{none_first}:{kubeconfig}:{other}"}).namespace == "bio"


def test_a_context_without_a_namespace_means_default(kubeconfig: Path) -> None:
    assert read_connection(str(kubeconfig), "there", {}).namespace == "default"


@pytest.mark.parametrize(
    ("content", "context", "words"),
    [
        (None, None, "there is no kubeconfig at"),
        (GOOD, "absent", "kubectl config get-contexts"),
        ("", None, "cannot be read"),
        ("[1, 2", None, "cannot be read"),
        ("just words", None, "cannot be read"),
        ("\x00\x01", None, "cannot be read"),
        (GOOD.replace("192.0.2.1", "[192.0.2.1"), None, "cannot be read"),
        (GOOD.replace("cluster: c,", "cluster: d,"), None, "kubectl config get-contexts"),
    ],
)
def test_an_unusable_kubeconfig_is_named_with_the_remedy(tmp_path: Path, content: str | None, context: str | None, words: str) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(KubeconfigError, match=words) as caught:
        read_connection(str(file), context, {})
    assert str(file) in str(caught.value)


def pem(kind: str, content: str = "") -> str:
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"


def key_pair() -> tuple[str, str]:
    """A self-signed certificate and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "user")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return (
        builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(*form, serialization.NoEncryption()).decode(),
    )


CERTIFICATE, KEY = key_pair()
OTHER_KEY = key_pair()[1]
ENCRYPTED_KEY = (
    serialization.load_pem_private_key(KEY.encode(), None)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret"))
    .decode()
)
PAIR = {"client-certificate": CERTIFICATE, "client-key": KEY}


def with_certificates(folder: Path, files: dict[str, str], *, as_data: bool) -> Path:
    """A kubeconfig whose cluster and user have these, in files of their own or in itself."""
    content = yaml.safe_load(GOOD)
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    for field, text in files.items():
        where = cluster if field == "certificate-authority" else user
        if as_data:
            where[f"{field}-data"] = base64.b64encode(text.encode()).decode()
        else:
            (folder / field).write_text(text)
            where[field] = field
    file = folder / "config"
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.mark.parametrize("as_data", [False, True])
@pytest.mark.parametrize(
    ("files", "field"),
    [
        ({"certificate-authority": "garbage"}, "certificate-authority"),
        ({"certificate-authority": pem("CERTIFICATE", "AAAA")}, "certificate-authority"),
        ({"client-certificate": CERTIFICATE}, "client-certificate"),
        ({**PAIR, "client-certificate": "garbage"}, "client-certificate"),
        ({**PAIR, "client-key": OTHER_KEY}, "client-key"),
        ({**PAIR, "client-key": pem("PRIVATE KEY", "AAAA")}, "client-key"),
        ({**PAIR, "client-key": ENCRYPTED_KEY}, "client-key"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named_before_anything_is_asked(
    files: dict[str, str], field: str, as_data: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = with_certificates(tmp_path, files, as_data=as_data)
    assert main(["explain", "job", "--kubeconfig", str(kubeconfig)]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert (f"{field}-data" if as_data else f"{field} {tmp_path / field}") in error


def test_certificates_that_fit_are_used(tmp_path: Path) -> None:
    kubeconfig = with_certificates(tmp_path, {**PAIR, "certificate-authority": CERTIFICATE}, as_data=True)
    assert read_connection(str(kubeconfig), None, {}).configuration.cert_file


def test_a_certificate_of_a_credential_helper_is_used_like_one_of_the_kubeconfig(tmp_path: Path) -> None:
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "status": {"clientCertificateData": CERTIFICATE, "clientKeyData": KEY}}
    (tmp_path / "answer").write_text(json.dumps(answer))
    content = yaml.safe_load(GOOD)
    content["users"][0]["user"] = {"exec": {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "answer")]}}
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    configuration = read_connection(str(tmp_path / "config"), None, {}).configuration
    assert [Path(file).read_text() for file in (configuration.cert_file, configuration.key_file)] == [CERTIFICATE, KEY]


@pytest.mark.parametrize("name", ["UPPER", "../secrets/x", "a/b", "-x-", "x" * 254, "a\nb"])
def test_a_name_that_no_object_has_is_refused_before_anything_is_asked(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--kubeconfig", "/nowhere", "--", name]) == EXIT_USAGE
    assert "is no name of a Kubernetes object" in capsys.readouterr().err


def test_without_any_kubeconfig_the_exit_code_and_the_sentence_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "job", "--kubeconfig", "/nowhere"]) == EXIT_USAGE
    assert capsys.readouterr().err == "fairlead explain: there is no kubeconfig at /nowhere: give --kubeconfig FILE or set KUBECONFIG\n"
