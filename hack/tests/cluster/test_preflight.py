from __future__ import annotations

import pytest

from fairlead_dev.cluster.machine.preflight import Lack, go_version, packages_of, report


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go1.27", (1, 27, 0)),
        ("go1.27rc1", (1, 27, 0)),
        ("devel", None),
    ],
)
def test_the_version_of_go_is_read_from_its_answer(text: str, version: tuple[int, ...] | None) -> None:
    assert go_version(text) == version


def test_a_report_names_everything_at_once_and_one_command_for_all_packages() -> None:
    lacks = [
        Lack("the program nft", ("nftables",)),
        Lack("the program gcc", ("gcc", "libc6-dev")),
        Lack("overlayfs", remedy="modprobe overlay"),
    ]
    text = report(lacks)
    assert "  - the program nft: Debian package nftables" in text
    assert "  - overlayfs: modprobe overlay" in text
    assert "apt-get install --no-install-recommends gcc libc6-dev nftables" in text


def test_a_report_without_packages_offers_no_installation() -> None:
    assert "apt-get" not in report([Lack("the program go", remedy="Go from https://go.dev/dl")])


def test_packages_are_listed_once() -> None:
    assert packages_of([Lack("unshare", ("util-linux",)), Lack("nsenter", ("util-linux",))]) == ["util-linux"]
