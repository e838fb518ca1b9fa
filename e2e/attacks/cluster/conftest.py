"""The local cluster of the attacked checkout, with the fixtures of the end-to-end tests."""

from __future__ import annotations

import pytest

from e2e.attacks.lib.target import Target
from e2e.conftest import cleaning, installed, kubectl, lab, neighbour, pytest_collection_modifyitems
from fairlead_dev.clients.nodes import LocalCluster

__all__ = ["cleaning", "installed", "kubectl", "lab", "neighbour", "pytest_collection_modifyitems"]


@pytest.fixture(scope="session")
def cluster(target: Target) -> LocalCluster:
    """The attacked checkout's cluster, which must be up."""
    return LocalCluster(target.root)
