"""What the guard is told on its command line."""

from __future__ import annotations

import pytest

from fairlead.guard.main import main
from fairlead.pages import read_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":9810", ("", 9810)),
        ("0.0.0.0:9810", ("0.0.0.0", 9810)),
        ("127.0.0.1:9810", ("127.0.0.1", 9810)),
        ("[2001:db8::1]:9810", ("2001:db8::1", 9810)),
    ],
    ids=["both families", "every address of IPv4", "the loopback", "IPv6"],
)
def test_an_address_without_a_host_is_every_address_of_both_families(text: str, expected: tuple[str, int]) -> None:
    assert read_address(text) == expected


@pytest.mark.parametrize("text", ["9810", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", ""])
def test_an_address_that_is_none_is_refused_by_name(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--node=dtn-a", f"--address={text}"])
    assert "--address (FAIRLEAD_GUARD_ADDRESS)" in capsys.readouterr().err
