"""What would become of a job, by the same decisions as in the operator."""

from __future__ import annotations

from typing import Any

import pytest
from dtn_builders import DATA0, dtn_body
from job_builders import NOW, make_job, observe

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.networkpath import NetworkPath
from fairlead.core.prediction import ClusterView, Prediction, predict

LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "100M"}
RUNS = {"attempts": 1, "attemptStartTime": "2026-01-02T03:00:00Z", "startTime": "2026-01-02T03:00:00Z"}

ENDED = {
    "conditions": [
        {"type": "Succeeded", "status": "True", "reason": "Verified", "message": "", "lastTransitionTime": "2026-01-02T03:00:00Z"}
    ]
}


def other(status: dict[str, Any] | None = None, path: str = "elsewhere", **spec: Any) -> dict[str, Any]:
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run7"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": path},
    }
    metadata = {"name": "other", "namespace": "science", "uid": "uid-other", "creationTimestamp": "2026-01-02T02:00:00Z", "generation": 1}
    return {"metadata": metadata, "spec": {**ends, **spec}, "status": RUNS if status is None else status}


def policy(*links: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "site", "uid": "uid-site", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    return {"metadata": metadata, "spec": {"links": list(links)}}


def node(name: str, **spec: Any) -> DataTransferNode:
    body = dtn_body(DATA0, spec=spec)
    return DataTransferNode.from_object(body | {"metadata": body["metadata"] | {"name": name, "uid": name}})


def path(**spec: Any) -> NetworkPath:
    ends = {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}}
    metadata = {"name": "a-b", "uid": "uid-path", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return NetworkPath.from_object({"metadata": metadata, "spec": {**ends, **spec}})


def predicted(cluster: ClusterView | None = None, **spec: Any) -> Prediction:
    return predict(observe(make_job(**spec)), cluster or ClusterView(), NOW)


def test_a_job_that_is_alone_starts_and_nothing_bounds_it() -> None:
    found = predicted()
    assert (found.obstacle, found.source_node, found.destination_node) == (None, "dtn-a", "dtn-b")
    assert (found.rate_bps, found.seconds_for(10**9), found.links) == (None, None, ())


@pytest.mark.parametrize(
    ("cluster", "spec", "reason"),
    [
        (ClusterView(jobs=[other(path="run42")]), {}, "DestinationInUse"),
        (ClusterView(jobs=[other(path="run42/part")]), {}, "DestinationInUse"),
        (ClusterView(policies=[policy(LINK)]), {"bandwidth": {"guarantee": "1G"}}, "GuaranteeTooLarge"),
        (
            ClusterView(policies=[policy(LINK)], jobs=[other(bandwidth={"guarantee": "60M"})]),
            {"bandwidth": {"guarantee": "60M"}},
            "WaitingForLink",
        ),
        (ClusterView(nodes=[node("dtn-a", slots=1), node("dtn-b")], jobs=[other()]), {}, "NoSlotFree"),
        (ClusterView(), {"suspend": True}, "Suspended"),
    ],
)
def test_what_would_keep_it_from_starting_is_told(cluster: ClusterView, spec: dict[str, Any], reason: str) -> None:
    obstacle = predicted(cluster, **spec).obstacle
    assert obstacle is not None
    assert obstacle.reason == reason


@pytest.mark.parametrize(
    ("jobs", "spec", "rate_bps"),
    [
        ([], {}, 90e6),
        ([other()], {}, 45e6),
        ([other()], {"bandwidth": {"weight": 300}}, 67.5e6),
        ([other()], {"bandwidth": {"limit": "20M"}}, 20e6),
        ([other(status=ENDED)], {}, 90e6),
    ],
)
def test_its_share_is_what_is_fair_beside_all_that_run(jobs: list[dict[str, Any]], spec: dict[str, Any], rate_bps: float) -> None:
    found = predicted(ClusterView(jobs=jobs, policies=[policy(LINK)]), **spec)
    assert found.links == ("out",)
    assert found.rate_bps == pytest.approx(rate_bps, rel=1e-6)


def test_what_the_path_is_known_to_carry_bounds_it_and_gives_its_duration() -> None:
    found = predicted(ClusterView(paths=[path(capacity="80M")]), bandwidth={"limit": "100M"})
    assert found.path is not None and found.path.metadata.name == "a-b"
    assert (found.rate_bps, found.seconds_for(10**9)) == (80e6, 100.0)


def test_it_is_placed_on_the_nodes_that_are_described() -> None:
    found = predicted(ClusterView(nodes=[node("dtn-a"), node("dtn-b")]))
    assert found.obstacle is None
    assert found.placement is not None
    assert (found.placement.source.interfaces, found.placement.destination.interfaces) == (("data0",), ("data0",))
