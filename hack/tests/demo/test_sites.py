"""On a cluster of others the demo deletes and upgrades only what it made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.demo.outcome import DemoError
from fairlead_dev.demo.sites.base import MARK, make_namespace, marked, remove_namespace
from fairlead_dev.demo.sites.pods import CurrentSite, PodSiteOptions

OPTIONS = PodSiteOptions("one", "two", "registry.example/", "v1")


class Programs:
    """kubectl and helm in a checkout, which answer as prepared and keep their command lines and input."""

    def __init__(self, checkout: Path, *, labels: dict[str, str] | None = None, release: str = "") -> None:
        """`labels`: of the namespace `demo`, None where it does not exist; `release`: what `helm list` prints."""
        self.checkout = checkout
        self._calls = checkout / "calls"
        self._calls.touch()
        namespace = "" if labels is None else json.dumps({"metadata": {"name": "demo", "labels": labels}})
        (checkout / "namespace").write_text(namespace)
        self._program(
            "kubectl",
            f"""case "$*" in
"get namespace "*) cat {checkout}/namespace;;
"get node "*) echo '{{}}';;
*"get transferjobs "*) echo '{{"items": []}}';;
*" -f -"*) cat >{checkout}/input;;
esac
""",
        )
        self._program("helm", f'case "$1" in list) echo "{release}";; esac\n')

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl((str(self.checkout / "build" / "bin" / "kubectl"),))

    def calls(self, word: str) -> list[str]:
        """The command lines so far that have this word."""
        return [line for line in self._calls.read_text().splitlines() if word in line.split()]

    def made(self) -> Object:
        """What kubectl was given last."""
        found: Object = json.loads((self.checkout / "input").read_text())
        return found

    def _program(self, name: str, script: str) -> None:
        program = self.checkout / "build" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{self._calls}\n{script}')
        program.chmod(0o755)


def test_a_namespace_of_somebody_else_is_refused_and_not_deleted(tmp_path: Path) -> None:
    programs = Programs(tmp_path, labels={"team": "physics"})
    with pytest.raises(DemoError, match=rf"namespace demo that the demo did not make.*{MARK}.*kubectl delete namespace demo"):
        remove_namespace(programs.kubectl)
    assert programs.calls("delete") == []


def test_a_namespace_of_somebody_else_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    programs = Programs(tmp_path, labels={})
    with pytest.raises(DemoError, match="namespace demo"):
        CurrentSite(tmp_path, OPTIONS).start()
    assert programs.calls("helm") == []


def test_the_demos_own_namespace_is_deleted(tmp_path: Path) -> None:
    programs = Programs(tmp_path, labels={MARK: "true"})
    remove_namespace(programs.kubectl)
    (deletion,) = programs.calls("delete")
    assert "delete namespace demo" in deletion


def test_where_there_is_no_namespace_nothing_is_deleted(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    remove_namespace(programs.kubectl)
    assert programs.calls("delete") == []


def test_the_namespace_is_created_with_the_label_and_never_applied_over_another(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    make_namespace(programs.kubectl)
    assert programs.made()["metadata"] == {"name": "demo", "labels": {MARK: "true"}}
    assert programs.calls("create") and not programs.calls("apply")


def test_the_label_is_added_to_those_an_object_has() -> None:
    assert marked({"kind": "Pod", "metadata": {"name": "a", "labels": {"b": "c"}}}) == {
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"b": "c", MARK: "true"}},
    }


def test_a_release_that_is_there_is_not_upgraded_unasked(tmp_path: Path) -> None:
    programs = Programs(tmp_path, release="fairlead")
    with pytest.raises(DemoError, match=r"release fairlead in fairlead-system.*--reuse-release"):
        CurrentSite(tmp_path, OPTIONS).install()
    assert programs.calls("upgrade") == []


def test_a_release_that_is_reused_keeps_its_values(tmp_path: Path) -> None:
    programs = Programs(tmp_path, release="fairlead")
    CurrentSite(tmp_path, PodSiteOptions("one", "two", "registry.example/", "v1", reuse_release=True)).install()
    (upgrade,) = programs.calls("upgrade")
    assert "--reset-then-reuse-values" in upgrade and "images.mover.tag=v1" in upgrade
    assert "hostNetwork" not in upgrade


def test_where_there_is_no_release_one_is_installed(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    CurrentSite(tmp_path, OPTIONS).install()
    (upgrade,) = programs.calls("upgrade")
    assert "--install" in upgrade and "hostNetwork.namespaces={demo}" in upgrade
