"""What the locks name, and that an image holds that and nothing else."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.sbom.contents import Package
from fairlead_dev.sbom.locks import NotAsLockedError, check_python, crates_of, linked_crates, read_checksums, read_python_lock

LOCKED = {"aiohttp": "3.14.0", "pyyaml": "6.0"}
OWN = {"fairlead": "0.1.0"}
RIGHT = {**LOCKED, **OWN}
ALLOWED_LICENCES = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib"),
    # As older packages write them.
    *("Apache 2", "Apache 2.0", "Apache License 2.0", "Apache Software License", "3-Clause BSD License", "BSD License", "MIT License"),
    "Python Software Foundation License",
}


def packages(versions: dict[str, str]) -> list[Package]:
    return [Package("pypi", name, version) for name, version in versions.items()]


def test_a_lock_is_read_by_canonical_names_without_hashes_and_markers() -> None:
    hashes = "    --hash=sha256:00 \\\n    --hash=sha256:11\n"
    text = f"# comment\nPyYAML==6.0 \\\n{hashes}ruamel.yaml==1.2 ; python_version > '3'\n    # via x==1\n"
    assert read_python_lock(text) == {"pyyaml": "6.0", "ruamel-yaml": "1.2"}


def test_an_image_as_locked_passes_with_the_tools_of_its_base() -> None:
    check_python("image", [*packages({**RIGHT, "pip": "23.0"}), Package("deb", "libc6", "2.36")], LOCKED, OWN)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({**RIGHT, "evil": "1.0"}, "evil 1.0 is not in the lock"),
        ({**RIGHT, "pyyaml": "5.0"}, "pyyaml is 5.0, locked is 6.0"),
        ({"fairlead": "0.1.0", "aiohttp": "3.14.0"}, "pyyaml 6.0 is missing"),
        (LOCKED, "fairlead 0.1.0 is missing"),
    ],
)
def test_an_image_that_is_not_as_locked_is_refused(found: dict[str, str], words: str) -> None:
    with pytest.raises(NotAsLockedError, match=words):
        check_python("image", packages(found), LOCKED, OWN)


def crate(name: str, kind: str = "lib") -> dict[str, Any]:
    return {"id": name, "name": name, "version": "1.0.0", "license": "MIT", "targets": [{"kind": [kind]}]}


def needs(name: str, *dependencies: tuple[str, str | None]) -> dict[str, Any]:
    return {"id": name, "deps": [{"pkg": other, "dep_kinds": [{"kind": kind}]} for other, kind in dependencies]}


def test_linked_is_what_the_program_needs_but_for_builds_tests_and_macros() -> None:
    metadata = {
        "packages": [
            crate("root"),
            crate("lib"),
            crate("deep"),
            crate("derive", "proc-macro"),
            crate("syn"),
            crate("cc"),
            crate("criterion"),
        ],
        "resolve": {
            "nodes": [
                needs("root", ("lib", None), ("derive", None), ("criterion", "dev")),
                needs("lib", ("deep", None), ("cc", "build")),
                needs("deep", ("lib", None)),
                needs("derive", ("syn", None)),
                *(needs(name) for name in ("syn", "cc", "criterion")),
            ]
        },
    }
    found = linked_crates(metadata, "root", {("deep", "1.0.0"): "ab"})
    assert [(package.name, package.sha256) for package in found] == [("deep", "ab"), ("lib", "")]


def test_the_movers_crates_have_checksums_unless_they_are_of_this_repository() -> None:
    found = {package.name: package for package in crates_of(CHECKOUT)}
    assert {"rustls", "aws-lc-sys", "fairlead-protocol"} <= found.keys()
    assert not {"criterion", "serde_derive", "fairlead-wan"} & found.keys()
    assert {name for name, package in found.items() if not package.sha256} == {"fairlead-protocol", "fairlead-sys", "fairlead-udt"}


def test_checksums_of_a_cargo_lock() -> None:
    lock = '[[package]]\nname = "a"\nversion = "1"\nchecksum = "00"\n[[package]]\nname = "own"\nversion = "1"\n'
    assert read_checksums(lock) == {("a", "1"): "00"}


@pytest.mark.parametrize("lock", ["operator/requirements.lock", "images/advisor/requirements.lock"])
def test_every_locked_package_of_an_image_has_a_licence_that_may_be_passed_on(lock: str) -> None:
    names = read_python_lock((CHECKOUT / lock).read_text(encoding="utf-8"))
    assert {name: stated for name in names if not any(map(_may_be_passed_on, stated := _licences(name)))} == {}


def _may_be_passed_on(expression: str) -> bool:
    """Whether one alternative of the expression is made of allowed licences."""
    alternatives = expression.replace("(", "").replace(")", "").split(" OR ")
    return any(all(licence.strip() in ALLOWED_LICENCES for licence in each.split(" AND ")) for each in alternatives)


def _licences(name: str) -> set[str]:
    fields = importlib.metadata.metadata(name)
    classifiers = [each.rpartition(" :: ")[2] for each in fields.get_all("Classifier") or [] if each.startswith("License ::")]
    return {text for text in (fields.get("License-Expression"), fields.get("License"), *classifiers) if text and "\n" not in text}
