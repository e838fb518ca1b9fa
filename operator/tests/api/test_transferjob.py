"""Reading and writing a TransferJob."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.status import FailureStatus, ProgressStatus

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def make_body(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fairlead.io/v1alpha1",
        "kind": "TransferJob",
        "metadata": {"name": "first", "namespace": "science", "uid": "u", "creationTimestamp": "2026-01-02T03:00:00Z", "managedFields": []},
        "spec": {
            "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}},
            "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
            **spec,
        },
    }


def test_defaults_are_those_of_the_schema() -> None:
    spec = TransferJob.from_object(make_body()).spec
    assert spec.network == "Host"
    assert spec.source.interface == "auto"
    assert (spec.transport.streams.min, spec.transport.streams.max, spec.transport.congestion_control) == (1, 32, "Auto")
    assert (spec.data.overwrite, spec.data.preserve) == ("IfDifferent", ("Mode", "ModificationTime"))
    assert spec.security_context.run_as_user == 65532
    assert spec.security_context.fs_group is None
    assert spec.backoff_limit == 6
    assert spec.bandwidth is None
    assert not spec.suspend


@pytest.mark.parametrize(
    ("transport", "expected"),
    [
        ({}, (None, None, (1, 32))),
        ({"protocol": "QUIC", "streams": {"min": 2, "max": 4}}, ("QUIC", None, (2, 4))),
        ({"protocol": "TCP", "congestionControl": "bbr"}, ("TCP", "bbr", (1, 32))),
        ({"protocol": "UDT"}, ("UDT", "udt", (1, 32))),
        ({"protocol": "UDT", "congestionControl": "blast"}, ("UDT", "blast", (1, 32))),
        ({"trafficClass": "Scavenger"}, ("QUIC", "ledbat++", (1, 1))),
        ({"trafficClass": "Scavenger", "protocol": "QUIC", "congestionControl": "ledbat++"}, ("QUIC", "ledbat++", (1, 1))),
        ({"trafficClass": "Scavenger", "protocol": "TCP"}, ("TCP", "lp", (1, 1))),
    ],
)
def test_what_a_job_leaves_open_of_its_transport_follows_from_its_class(transport: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = TransferJob.from_object(make_body(transport=transport)).spec.transport
    bounds = found.stream_bounds
    control = found.congestion_control_over(found.named_protocol or "TCP")
    assert (found.named_protocol, control, (bounds.min, bounds.max)) == expected
    if found.named_protocol is None:
        assert [found.congestion_control_over(chosen) for chosen in ("TCP", "QUIC", "UDT")] == [None, None, "udt"]


def test_a_limit_is_read_in_bits_per_second() -> None:
    bandwidth = TransferJob.from_object(make_body(bandwidth={"limit": "1.5G"})).spec.bandwidth
    assert bandwidth is not None
    assert bandwidth.limit_bps == 1_500_000_000


def test_fields_of_a_later_version_are_ignored() -> None:
    assert TransferJob.from_object(make_body(colour="blue")).spec.backoff_limit == 6


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"source": {}}, "spec.source.volume"),
        ({"backoffLimit": -1}, "spec.backoffLimit"),
        ({"transport": {"streams": {"max": 1000}}}, "spec.transport.streams.max"),
        ({"data": {"overwrite": "Sometimes"}}, "spec.data.overwrite"),
        ({"transport": {"protocol": "Ascp"}}, "spec.transport.protocol"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_fields_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidResourceError, match=field):
        TransferJob.from_object(make_body(**spec))


def test_an_object_without_a_spec_is_refused() -> None:
    with pytest.raises(InvalidResourceError, match="spec"):
        TransferJob.from_object({"metadata": make_body()["metadata"]})


def test_a_status_is_written_without_what_is_unset_and_in_camel_case() -> None:
    status = TransferJobStatus(
        phase="Transferring",
        conditions=(
            Condition(type="Accepted", status="True", reason="Valid", message="", last_transition_time=MOMENT, observed_generation=1),
        ),
        progress=ProgressStatus(bytes_total=0, percent=0),
        last_failure=FailureStatus(attempt=1, reason="PeerLost", message="gone", time=MOMENT),
    )
    assert status.to_object() == {
        "phase": "Transferring",
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Valid",
                "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
                "observedGeneration": 1,
            }
        ],
        "progress": {"bytesTotal": 0, "percent": 0},
        "lastFailure": {"attempt": 1, "reason": "PeerLost", "message": "gone", "time": "2026-01-02T03:04:05Z"},
    }


def test_a_status_survives_the_way_to_the_server_and_back() -> None:
    status = TransferJobStatus(phase="Pending", attempts=2, start_time=MOMENT.replace(microsecond=0))
    body = {**make_body(), "status": status.to_object()}
    assert TransferJob.from_object(body).status == status


def test_a_model_cannot_be_changed_in_place() -> None:
    job = TransferJob.from_object(make_body())
    with pytest.raises(ValidationError):
        job.spec.suspend = True  # type: ignore[misc]
