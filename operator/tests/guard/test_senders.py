"""Which pods are held, and what is known of them."""

from __future__ import annotations

from typing import Any

import pytest
from guard_pods import make_pod

from fairlead.api import names
from fairlead.core.observed import Role
from fairlead.guard.ruleset import Endpoint
from fairlead.guard.senders import JobRef, Sender, read_sender

CAP = 200_000_000


@pytest.mark.parametrize("address", ["198.19.0.2", "2001:db8::2"])
def test_a_sender_on_the_nodes_network_is_held(address: str) -> None:
    sender = read_sender(make_pod(address=address))
    assert sender == Sender(
        uid="one",
        name=make_pod()["metadata"]["name"],
        job=JobRef("physics", "run42", "job-uid"),
        receiver=Endpoint(address, 24000),
        annotated_bps=CAP,
        has_started=True,
    )


def test_a_sender_that_starts_is_held_already() -> None:
    sender = read_sender(make_pod(phase="Pending"))
    assert sender is not None
    assert not sender.has_started


@pytest.mark.parametrize(
    "other",
    [make_pod(role=Role.RECEIVER), make_pod(network="Pod"), make_pod(phase="Succeeded"), make_pod(phase="Failed")],
    ids=["a receiver", "on the pod network", "has succeeded", "has failed"],
)
def test_nobody_else_is(other: dict[str, Any]) -> None:
    assert read_sender(other) is None


@pytest.mark.parametrize("cap", [None, "fast", ""])
def test_an_annotation_that_is_no_rate_is_no_cap(cap: str | None) -> None:
    body = make_pod()
    body["metadata"]["annotations"].pop(names.ANNOTATION_EGRESS_BANDWIDTH)
    if cap is not None:
        body["metadata"]["annotations"][names.ANNOTATION_EGRESS_BANDWIDTH] = cap
    sender = read_sender(body)
    assert sender is not None
    assert sender.annotated_bps is None


@pytest.mark.parametrize("target", ["198.19.0.2", "198.19.0.2:http", "198.19.0.2:²", ":24000", "", "198.19.0.2:24000,198.19.1.2:24000"])
def test_a_sender_without_a_receivers_address_and_port_is_still_one(target: str) -> None:
    body = make_pod()
    for container in body["spec"]["containers"]:
        container["args"] = [f"--connect={target}"]
    sender = read_sender(body)
    assert sender is not None
    assert sender.receiver is None


def test_a_pod_that_only_looks_like_ours_is_left_alone() -> None:
    body = make_pod()
    body["metadata"]["ownerReferences"] = [{"kind": "Job", "apiVersion": "batch/v1", "name": "run42", "uid": "job-uid", "controller": True}]
    assert read_sender(body) is None


def test_a_sender_that_lost_its_owner_is_held_on() -> None:
    body = make_pod()
    body["metadata"]["ownerReferences"] = []
    assert read_sender(body) == read_sender(make_pod())
