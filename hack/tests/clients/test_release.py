from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
import yaml

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.clients.release import PARTS, helm_arguments, monitored_arguments


def test_helm_is_told_every_image() -> None:
    arguments = helm_arguments(Path("/checkout"), "registry.example/", "v1")
    for part in PARTS:
        assert f"images.{part}.repository=registry.example/fairlead-{part}" in arguments
        assert f"images.{part}.tag=v1" in arguments


def test_the_readme_installs_what_the_demo_and_the_tests_install() -> None:
    (line,) = re.findall(r"^helm (install .*)$", (CHECKOUT / "README.md").read_text(), re.MULTILINE)
    assert _installed(shlex.split(line)) == _installed([*helm_arguments(Path(), "registry.example/", "v1")])


def _installed(words: list[str]) -> dict[str, object]:
    """What a command line of helm installs and where; images and waiting, which a checkout adds, are left out."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in ("command", "release", "chart"):
        parser.add_argument(name)
    parser.add_argument("--namespace", "-n")
    parser.add_argument("--create-namespace", action="store_true")
    parser.add_argument("--set", action="append", dest="values")
    for switch in ("--install", "--wait"):
        parser.add_argument(switch, action="store_true")
    for option in ("--set-string", "--timeout"):
        parser.add_argument(option)
    read = vars(parser.parse_args(words))
    return {name: read[name] for name in ("release", "chart", "namespace", "create_namespace", "values")}


@pytest.mark.parametrize("monitored", [True, False])
def test_helm_switches_monitors_rules_and_boards_by_values_that_the_chart_has(monitored: bool) -> None:
    values = yaml.safe_load((CHECKOUT / "charts" / "fairlead" / "values.yaml").read_text())
    fields = dict(word.split("=") for word in monitored_arguments(monitored) if word != "--set")
    assert all(field in values[part] for part, field in (name.split(".") for name in fields))
    switches = {value for name, value in fields.items() if name.endswith(".enabled")}
    assert switches == {str(monitored).lower()}
