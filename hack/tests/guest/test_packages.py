"""Which packages the guest is made of, and what it takes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_dev.errors import NotAvailableError
from fairlead_dev.guest import packages


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["linux-image-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64", "linux-image-6.1.0-13-amd64"], "linux-image-6.1.0-56-amd64"),
        (["linux-image-6.1.0-9-amd64", "linux-image-6.1.1-2-amd64"], "linux-image-6.1.1-2-amd64"),
        (
            [
                "linux-image-6.1.0-56-cloud-amd64",
                "linux-image-6.1.0-56-rt-amd64",
                "linux-image-6.1.0-56-amd64-dbg",
                "linux-image-6.12.1-1-amd64",
            ],
            None,
        ),
        ([], None),
    ],
)
def test_the_kernel_is_the_newest_that_has_all_modules(names: list[str], newest: str | None) -> None:
    assert packages.newest_kernel(names) == newest


@pytest.mark.parametrize(
    ("content", "needed"),
    [
        (b"\x7fELF\0license=GPL\0depends=\0retpoline=Y\0", ()),
        (b"\x7fELF\0license=GPL\0depends=tcp_vegas\0name=tcp_yeah\0", ("tcp_vegas",)),
        (b"\0depends=a,b\0", ("a", "b")),
        (b"", ()),
    ],
)
def test_a_module_says_what_it_needs(content: bytes, needed: tuple[str, ...]) -> None:
    assert packages.depends(content) == needed


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("bin/busybox", True),
        ("lib64/ld-linux-x86-64.so.2", True),
        ("lib/x86_64-linux-gnu/libc.so.6", True),
        ("usr/bin/python3.11", True),
        ("usr/bin/setpriv", True),
        ("usr/lib/python3.11/json/__init__.py", True),
        ("lib/modules/6.1.0-56-amd64/kernel/net/ipv4/tcp_htcp.ko", True),
        ("lib/modules/6.1.0-56-amd64/kernel/net/ipv4/ip_gre.ko", False),
        ("lib/modules/6.1.0-56-amd64/kernel/drivers/net/tcp_htcp.ko", False),
        ("usr/bin/lsblk", False),
        ("usr/share/doc/libc6/copyright", False),
        ("boot/vmlinuz-6.1.0-56-amd64", False),
    ],
)
def test_the_guest_takes_libraries_python_and_the_modules_for_tcp(path: str, kept: bool) -> None:
    assert bool(packages.KEPT.match(path)) == kept


def test_what_the_cache_holds_needs_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(NotAvailableError, match="run this on Debian 12"):
        packages.ensure(tmp_path)
    place = packages.place_of(tmp_path)
    place.mkdir(parents=True)
    (place / "modules.json").write_text(json.dumps({"tcp_yeah": ["tcp_vegas"]}))
    assert packages.ensure(tmp_path).modules == {"tcp_yeah": ("tcp_vegas",)}
    with pytest.raises(NotAvailableError):
        packages.ensure(tmp_path, renew=True)
