"""Which pods are held."""

from __future__ import annotations

from typing import Any

import pytest
from guard_pods import make_pod

from fairlead.api import names
from fairlead.core.observed import Role
from fairlead.guard.ruleset import HeldSender
from fairlead.guard.senders import held_sender

CAP = 200_000_000


@pytest.mark.parametrize("address", ["198.19.0.2", "2001:db8::2"])
def test_a_sender_on_the_nodes_network_is_held_to_its_annotation(address: str) -> None:
    assert held_sender(make_pod(address=address)) == HeldSender(address, 24000, CAP)


def test_a_sender_that_starts_is_held_already() -> None:
    assert held_sender(make_pod(phase="Pending")) is not None


@pytest.mark.parametrize(
    "other",
    [make_pod(role=Role.RECEIVER), make_pod(network="Pod"), make_pod(phase="Succeeded"), make_pod(phase="Failed")],
    ids=["a receiver", "on the pod network", "has succeeded", "has failed"],
)
def test_nobody_else_is(other: dict[str, Any]) -> None:
    assert held_sender(other) is None


@pytest.mark.parametrize("cap", [None, "fast", ""])
def test_without_a_cap_that_is_a_rate_nobody_is(cap: str | None) -> None:
    body = make_pod()
    body["metadata"]["annotations"].pop(names.ANNOTATION_EGRESS_BANDWIDTH)
    if cap is not None:
        body["metadata"]["annotations"][names.ANNOTATION_EGRESS_BANDWIDTH] = cap
    assert held_sender(body) is None


def test_a_pod_that_only_looks_like_ours_is_left_alone() -> None:
    body = make_pod()
    body["metadata"]["ownerReferences"] = []
    assert held_sender(body) is None
