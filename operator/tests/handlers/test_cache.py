from __future__ import annotations

from handler_objects import job_body, pod_body

from fairlead.core.observed import Role
from fairlead.core.plan import CreatePod
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.kube.observe.pods import read_owned_pod

KEY = ObjectKey("lab", "job")


def _version(cache: Cache) -> str | None:
    body = cache.jobs.get(KEY)
    return None if body is None else body["metadata"]["resourceVersion"]


def test_keeps_a_job_without_its_managed_fields() -> None:
    cache = Cache()
    assert cache.put_job(job_body()) == KEY
    body = cache.jobs.get(KEY)
    assert body is not None
    assert "managedFields" not in body["metadata"]
    assert body["status"] == {}


def test_an_event_that_lags_behind_our_own_write_does_not_turn_back_time() -> None:
    cache = Cache()
    cache.put_job(job_body(version="12"))
    cache.put_job(job_body(version="9"))
    assert _version(cache) == "12"
    cache.put_job(job_body(version="100"))
    assert _version(cache) == "100"


def test_a_new_job_of_the_same_name_replaces_the_old_one_whatever_its_version() -> None:
    cache = Cache()
    cache.put_job(job_body(version="12", uid="old"))
    cache.put_job(job_body(version="3", uid="new"))
    assert _version(cache) == "3"


def test_the_deletion_of_an_earlier_incarnation_leaves_the_present_one() -> None:
    cache = Cache()
    cache.put_job(job_body(uid="new"))
    cache.drop_job(KEY, "old")
    assert _version(cache) == "1"
    cache.drop_job(KEY, "new")
    assert _version(cache) is None


def test_pods_are_found_by_the_uid_of_their_job() -> None:
    cache = Cache()
    assert cache.put_pod(pod_body()) == KEY
    cache.put_pod(pod_body(role="sender", uid="other-pod"))
    cache.put_pod(pod_body(job="another", job_uid="another-uid", uid="third"))
    assert {pod.role for pod in cache.pods_of("job-uid")} == {Role.RECEIVER, Role.SENDER}
    assert cache.pods_of("nobody") == []


def test_a_pod_that_is_not_ours_is_not_kept() -> None:
    cache = Cache()
    foreign = pod_body()
    foreign["metadata"]["ownerReferences"] = []
    assert cache.put_pod(foreign) is None
    assert len(cache.pods) == 0


def test_a_deleted_pod_is_forgotten_with_its_port() -> None:
    cache = Cache()
    cache.put_pod(pod_body())
    assert cache.ports_in_use("other")["dtn-b"] == {24000}
    pod_key = cache.pods.keys()[0]
    assert cache.drop_pod(pod_key, "another-uid") is None
    assert cache.drop_pod(pod_key, "pod-uid") == KEY
    assert cache.pods_of("job-uid") == []
    assert cache.ports_in_use("other").get("dtn-b", frozenset()) == frozenset()


def test_a_live_list_corrects_the_pods_of_a_job() -> None:
    cache = Cache()
    cache.put_pod(pod_body(attempt=1, uid="phantom"))
    live = read_owned_pod(pod_body(attempt=2, uid="real"))
    assert live is not None
    cache.replace_pods_of("lab", "job-uid", [live])
    assert [pod.uid for pod in cache.pods_of("job-uid")] == ["real"]


def test_phantoms_are_what_was_known_before_a_list_and_is_not_in_it() -> None:
    cache = Cache()
    for name in ("listed", "gone", "changed", "reborn"):
        cache.put_job(job_body(name, uid=f"{name}-1"))
    before = cache.jobs.snapshot()
    cache.put_job(job_body("changed", uid="changed-1", version="2"))
    cache.put_job(job_body("new", uid="new-1"))
    listed = {ObjectKey("lab", "listed"): "listed-1", ObjectKey("lab", "reborn"): "reborn-2"}
    assert cache.jobs.unlisted(before, listed) == [(ObjectKey("lab", "gone"), "gone-1"), (ObjectKey("lab", "reborn"), "reborn-1")]


class TestPorts:
    def test_a_job_does_not_see_its_own_ports_as_taken(self) -> None:
        cache = Cache()
        cache.put_pod(pod_body())
        assert cache.ports_in_use("job-uid")["dtn-b"] == frozenset()
        assert cache.ports_in_use("other")["dtn-b"] == {24000}

    def test_pods_without_a_node_count_under_the_empty_name(self) -> None:
        cache = Cache()
        cache.put_pod(pod_body(node=None, phase="Pending"))
        assert cache.ports_in_use("other")[""] == {24000}
        cache.put_pod(pod_body(node="dtn-b", version="11"))
        ports = cache.ports_in_use("other")
        assert ports[""] == frozenset()
        assert ports["dtn-b"] == {24000}

    def test_an_ended_pod_holds_no_port(self) -> None:
        cache = Cache()
        cache.put_pod(pod_body())
        cache.put_pod(pod_body(phase="Succeeded", version="11"))
        assert cache.ports_in_use("other")["dtn-b"] == frozenset()

    def test_promised_ports_are_taken_for_others_until_the_promise_ends(self) -> None:
        cache = Cache()
        with cache.reserve("job-uid", [CreatePod(Role.RECEIVER, 1, "dtn-b", 24004)]):
            assert cache.ports_in_use("other")["dtn-b"] == {24004}
            assert cache.ports_in_use("job-uid")["dtn-b"] == frozenset()
            cache.put_pod(pod_body(base=24004))
            assert cache.ports_in_use("job-uid")["dtn-b"] == frozenset()
        assert cache.ports_in_use("other")["dtn-b"] == {24004}

    def test_a_broken_promise_frees_the_port(self) -> None:
        cache = Cache()
        try:
            with cache.reserve("job-uid", [CreatePod(Role.RECEIVER, 1, "dtn-b", 24004)]):
                raise TimeoutError
        except TimeoutError:
            pass
        assert cache.ports_in_use("other")["dtn-b"] == frozenset()

    def test_looking_at_an_unknown_node_leaves_no_trace(self) -> None:
        cache = Cache()
        ports = cache.ports_in_use("other")
        assert ports.get("nowhere", frozenset()) == frozenset()
        assert list(ports) == []
