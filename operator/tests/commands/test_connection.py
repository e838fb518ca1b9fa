"""Which kubeconfig is read, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["UPPER", "../secrets/x", "a/b", "-x-", "x" * 254, "a\nb"])
def test_a_name_that_no_object_has_is_refused_before_anything_is_asked(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--kubeconfig", "/nowhere", "--", name]) == EXIT_USAGE
    assert "is no name of a Kubernetes object" in capsys.readouterr().err


def test_without_any_kubeconfig_the_exit_code_and_the_sentence_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "job", "--kubeconfig", "/nowhere"]) == EXIT_USAGE
    assert capsys.readouterr().err == "fairlead explain: there is no kubeconfig at /nowhere: give --kubeconfig FILE or set KUBECONFIG\n"
