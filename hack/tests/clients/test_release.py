from __future__ import annotations

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


@pytest.mark.parametrize("monitored", [True, False])
def test_helm_switches_monitors_rules_and_boards_by_values_that_the_chart_has(monitored: bool) -> None:
    values = yaml.safe_load((CHECKOUT / "charts" / "fairlead" / "values.yaml").read_text())
    fields = dict(word.split("=") for word in monitored_arguments(monitored) if word != "--set")
    assert all(field in values[part] for part, field in (name.split(".") for name in fields))
    switches = {value for name, value in fields.items() if name.endswith(".enabled")}
    assert switches == {str(monitored).lower()}
