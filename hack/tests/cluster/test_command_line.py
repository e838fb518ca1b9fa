"""What the command line of the local cluster asks of the links."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from fairlead_dev.cluster.__main__ import changed_settings, link_settings, parser
from fairlead_dev.cluster.layout import DATA_LINKS, WanSettings

FIRST, SECOND = DATA_LINKS


def settings_of(*options: str) -> dict[str, WanSettings]:
    return {link.interface: settings for link, settings in link_settings(vars(parser().parse_args(["up", *options]))).items()}


def test_without_options_every_link_has_its_defaults() -> None:
    assert settings_of() == {"data0": FIRST.defaults, "data1": SECOND.defaults}


def test_each_link_has_options_of_its_own() -> None:
    settings = settings_of("--rate", "60M", "--corrupt", "0.001", "--data1-rate", "20M", "--data1-delay", "30ms")
    assert (settings["data0"].corrupt, settings["data1"].corrupt) == ("0.001", "0")
    assert (settings["data0"].rate, settings["data0"].delay) == ("60M", "30ms")
    assert (settings["data1"].rate, settings["data1"].delay) == ("20M", "30ms")


@pytest.mark.parametrize(
    ("words", "link"), [([], "data0"), (["--link", "data1"], "data1"), (["--link=1"], "1")], ids=["none", "by name", "by number"]
)
@pytest.mark.parametrize("command", ["stats", "set", "restart", "cut", "restore"])
def test_every_command_of_a_path_takes_a_link(command: str, words: list[str], link: str) -> None:
    options, rest = parser().parse_known_args(["wan", command, *words])
    assert (options.link, rest) == (link, [])


def test_options_of_the_emulator_are_passed_on() -> None:
    options, rest = parser().parse_known_args(["wan", "set", "--link", "data1", "--rate", "50M", "--loss", "0.1"])
    assert (options.link, rest) == ("data1", ["--rate", "50M", "--loss", "0.1"])


def test_a_restart_changes_every_setting_that_is_given_and_no_other() -> None:
    words = ["--reorder", "0.01,5ms", "--corrupt", "0.001", "--loss", "0"]
    assert changed_settings(vars(parser().parse_args(["wan", "restart", *words]))) == {
        "reorder": "0.01,5ms",
        "corrupt": "0.001",
        "loss": "0",
    }
    assert changed_settings(vars(parser().parse_args(["wan", "restart", *FIRST.defaults.arguments()]))) == asdict(FIRST.defaults)


def test_a_carrier_is_lost_on_named_nodes_only() -> None:
    assert parser().parse_args(["wan", "cut", "--carrier", "dtn-a"]).carrier == ["dtn-a"]
    assert parser().parse_args(["wan", "cut"]).carrier == []
