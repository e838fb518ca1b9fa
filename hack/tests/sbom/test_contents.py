"""What an image's files say is in it."""

from __future__ import annotations

import pytest

from fairlead_dev.sbom.contents import is_evidence, packages_of

from .archives import DPKG, MOVER, OS_RELEASE, SITE, metadata


def urls(files: dict[str, bytes]) -> list[str]:
    return [package.url.to_string() for package in packages_of(files)]


def test_installed_packages_of_debian_with_their_release() -> None:
    assert urls({"var/lib/dpkg/status": DPKG, "usr/lib/os-release": OS_RELEASE}) == [
        "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12",
        "pkg:deb/debian/nftables@1.0.6-2%2Bdeb12u2?arch=amd64&distro=debian-12",
    ]


def test_python_packages_by_the_header_of_their_metadata_and_their_pypi_names() -> None:
    files = {f"{SITE}/PyYAML-6.0.dist-info/METADATA": metadata("Py_YAML.x", "6.0", "License-Expression: MIT")}
    (package,) = packages_of(files)
    assert (package.url.to_string(), package.licence) == ("pkg:pypi/py-yaml-x@6.0", "MIT")


@pytest.mark.parametrize("field", ["License: UNKNOWN", "License: " + "x" * 101, "Summary: none"])
def test_a_licence_that_is_no_name_is_left_out(field: str) -> None:
    (package,) = packages_of({f"{SITE}/a-1.dist-info/METADATA": metadata("a", "1", field)})
    assert package.licence == ""


def test_the_interpreter_of_the_environment_and_rusts_library_in_the_mover() -> None:
    files = {"opt/fairlead/pyvenv.cfg": b"home = /usr/bin\nversion = 3.11.2\n", "usr/local/bin/fairlead-mover": MOVER}
    assert urls(files) == ["pkg:generic/cpython@3.11.2", "pkg:generic/rust-std@1.95.0"]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (f"{SITE}/a-1.dist-info/METADATA", True),
        (f"{SITE}/a-1.dist-info/RECORD", False),
        ("var/lib/dpkg/status", True),
        ("var/lib/dpkg/status-old", False),
        ("usr/local/bin/fairlead-mover", True),
        ("etc/shadow", False),
    ],
)
def test_which_files_are_evidence(path: str, wanted: bool) -> None:
    assert is_evidence(path) is wanted
