"""The local cluster of the attacked checkout, with the fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.attacks.lib.target import Target
from e2e.conftest import cleaning, installed, kubectl, lab, labs, namespace_of, neighbour, pytest_collection_modifyitems
from fairlead_dev.clients.volumes import MOVER_ID
from fairlead_dev.cluster.client import LocalCluster

__all__ = ["cleaning", "installed", "kubectl", "lab", "labs", "neighbour", "pytest_collection_modifyitems"]


@pytest.fixture(scope="session")
def cluster(target: Target) -> LocalCluster:
    """The attacked checkout's cluster, which must be up."""
    return LocalCluster(target.root)


@pytest.fixture(scope="session")
def more_values(target: Target, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Users and groups of the namespaces of attacks that are marked `identities`, where the attacked chart knows such values."""
    if "identities:" not in (target.chart / "values.yaml").read_text(encoding="utf-8"):
        return {}
    own = [str(MOVER_ID)]
    marked = [namespace_of(item) for item in request.session.items if item.get_closest_marker("identities") is not None]
    return {"identities": {"namespaces": {namespace: {"users": own, "groups": own, "fsGroups": []} for namespace in marked}}}
