from __future__ import annotations

from pathlib import Path

from fairlead_dev.clients.release import PARTS, helm_arguments


def test_helm_is_told_every_image() -> None:
    arguments = helm_arguments(Path("/checkout"), "registry.example/", "v1")
    for part in PARTS:
        assert f"images.{part}.repository=registry.example/fairlead-{part}" in arguments
        assert f"images.{part}.tag=v1" in arguments
