"""Golden files hold what is rendered; FAIRLEAD_UPDATE_GOLDEN=1 writes them anew. The API server tests check them against its schemas."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_objects import TEMPLATE, UID, attached_job, job, job_body

from fairlead.api import names
from fairlead.api.transferjob import TransferJob
from fairlead.core.identities import Identities
from fairlead.core.observed import Role
from fairlead.core.paths.model import KnownBackground, KnownPath
from fairlead.core.plan import CreatePod
from fairlead.core.reports import EndpointPlace, MoverEndpoint
from fairlead.kube.objects.build import BuildError, build_pod, build_secret
from fairlead.kube.objects.credentials import Credentials
from fairlead.kube.objects.template import Image, MoverTemplate, WholeCpus
from fairlead.kube.observe.pods import read_owned_pod

GOLDEN = Path(__file__).parent / "golden"
RECEIVER = MoverEndpoint("data0", "198.19.0.2", 24000)
RECEIVE = CreatePod(Role.RECEIVER, 1, "dtn-b", 24000)
SEND = CreatePod(Role.SENDER, 1, "dtn-a", 24004, RECEIVER)
CLEAN = CreatePod(Role.CLEANER, 3, "dtn-b", 0)

PARTICULAR = MoverTemplate(
    mover=Image("registry/fairlead-mover:1", "Never"),
    advisor=Image("registry/fairlead-advisor:1", "Never"),
    mover_resources={"requests": {"cpu": "2"}},
    advisor_resources={},
    tolerations=({"key": "dtn", "operator": "Exists"},),
    image_pull_secrets=("pull",),
    priority_class="bulk",
    probe_seconds=4,
)
ALIGNED = replace(TEMPLATE, whole_cpus=WholeCpus(4))


def _with_device() -> TransferJob:
    return job(source={**job_body()["spec"]["source"], "resources": {"example.com/sriov": 1}})


def _choosy() -> dict[str, Any]:
    return build_pod(
        job(
            transport={"congestionControl": "bbr", "streams": {"min": 8, "max": 16}},
            data={"include": ["*.h5", "$(HOME)"], "exclude": ["--tmp"], "overwrite": "Never", "preserve": ["Mode"]},
            securityContext={"runAsUser": 1000, "runAsGroup": 100, "fsGroup": 100, "supplementalGroups": [5, 6]},
        ),
        replace(SEND, cap_bps=2 * 10**9),
        PARTICULAR,
    )


KNOWN_PATH = KnownPath(
    rtt_minimum_seconds=0.06,
    capacity_bps=187_000_000.4,
    stream_coefficient=1.2e-6,
    background=KnownBackground(
        class_name="B1-C0",
        probability=0.9,
        probabilities={"B0-C0": 0.1, "B1-C0": 0.9},
        any_bbr=0.94,
        confidence=0.94,
        abstained=False,
        model="background-1.0.0 (sha256:0123456789ab)",
        measured_at=datetime(2026, 1, 1, tzinfo=UTC),
    ),
)


def _scavenger() -> TransferJob:
    return job(transport={"trafficClass": "Scavenger"})


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "receiver": lambda: build_pod(job(), RECEIVE, TEMPLATE),
    "receiver-anywhere": lambda: build_pod(job(), CreatePod(Role.RECEIVER, 2, None, 24008), TEMPLATE),
    "sender": lambda: build_pod(job(), SEND, TEMPLATE),
    "sender-with-wishes": _choosy,
    "receiver-on-pod-network": lambda: build_pod(job(network="Pod"), replace(RECEIVE, cap_bps=10**9), TEMPLATE),
    "sender-on-pod-network": lambda: build_pod(job(network="Pod"), replace(SEND, cap_bps=10**9), TEMPLATE),
    "receiver-on-an-attachment": lambda: build_pod(attached_job(), replace(RECEIVE, cap_bps=10**9), TEMPLATE),
    "sender-on-an-attachment": lambda: build_pod(attached_job(), replace(SEND, cap_bps=10**9), TEMPLATE),
    "sender-on-a-known-path": lambda: build_pod(job(), replace(SEND, path=KNOWN_PATH, probe=False), TEMPLATE),
    "receiver-with-whole-cpus": lambda: build_pod(job(), RECEIVE, ALIGNED),
    "sender-with-whole-cpus": lambda: build_pod(job(), SEND, ALIGNED),
    "sender-with-a-device": lambda: build_pod(_with_device(), SEND, ALIGNED),
    "receiver-that-checks": lambda: build_pod(job(preflightOnly=True), RECEIVE, TEMPLATE),
    "sender-that-checks": lambda: build_pod(job(preflightOnly=True), SEND, TEMPLATE),
    "receiver-over-quic": lambda: build_pod(job(), replace(RECEIVE, protocol="QUIC"), TEMPLATE),
    "sender-over-quic": lambda: build_pod(job(), replace(SEND, protocol="QUIC"), TEMPLATE),
    "receiver-over-udt": lambda: build_pod(job(), replace(RECEIVE, protocol="UDT"), TEMPLATE),
    "sender-over-udt": lambda: build_pod(job(), replace(SEND, protocol="UDT"), TEMPLATE),
    "receiver-of-a-scavenger": lambda: build_pod(_scavenger(), replace(RECEIVE, protocol="QUIC"), TEMPLATE),
    "sender-of-a-scavenger": lambda: build_pod(_scavenger(), replace(SEND, protocol="QUIC"), TEMPLATE),
    "sender-of-a-scavenger-over-tcp": lambda: build_pod(
        job(transport={"trafficClass": "Scavenger", "protocol": "TCP", "encryption": "None"}), SEND, TEMPLATE
    ),
    "cleaner": lambda: build_pod(job(), CLEAN, TEMPLATE),
    "credentials": lambda: build_secret(job(), 1, Credentials({"ca.crt": b"ca", "sender.crt": b"crt", "sender.key": b"key"})),
}


@pytest.mark.parametrize("name", CASES)
def test_renders_as_the_golden_file_has_it(name: str) -> None:
    path = GOLDEN / f"{name}.yaml"
    rendered = yaml.safe_dump(CASES[name](), sort_keys=False, width=140)
    if os.environ.get("FAIRLEAD_UPDATE_GOLDEN"):
        path.write_text(rendered)
    assert rendered == path.read_text()


def test_there_is_no_golden_file_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(CASES)


def test_nothing_in_the_senders_pod_can_write_to_the_source() -> None:
    for case in ("sender", "sender-with-wishes", "sender-on-pod-network", "sender-on-an-attachment"):
        (claim,) = (volume["persistentVolumeClaim"] for volume in CASES[case]()["spec"]["volumes"] if "persistentVolumeClaim" in volume)
        assert claim["readOnly"] is True
    (claim,) = (volume["persistentVolumeClaim"] for volume in CASES["receiver"]()["spec"]["volumes"] if "persistentVolumeClaim" in volume)
    assert "readOnly" not in claim


def test_the_group_of_a_volume_is_changed_at_the_destination_alone() -> None:
    wishes = job(securityContext={"fsGroup": 100, "supplementalGroups": [5]})
    sender, receiver = (build_pod(wishes, action, TEMPLATE)["spec"]["securityContext"] for action in (SEND, RECEIVE))
    assert "fsGroup" not in sender
    assert sender["supplementalGroups"] == [5, 100]
    assert (receiver["fsGroup"], receiver["supplementalGroups"]) == (100, [5])


def test_the_namespaces_default_user_runs_movers_whose_job_names_none() -> None:
    rules = Identities.from_object({"namespaces": {"physics": {"defaultUser": 10000, "defaultGroup": 10001}}})
    template = replace(TEMPLATE, identities=rules)
    for action in (RECEIVE, SEND, CLEAN):
        context = build_pod(job(), action, template)["spec"]["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (10000, 10001)
    named = build_pod(job(securityContext={"runAsUser": 7}), RECEIVE, template)["spec"]["securityContext"]
    assert (named["runAsUser"], named["runAsGroup"]) == (7, 10001)


def test_movers_use_the_interfaces_that_were_chosen_and_else_choose_themselves() -> None:
    def interface(action: CreatePod) -> list[str]:
        return [each for each in build_pod(job(), action, TEMPLATE)["spec"]["containers"][0]["args"] if each.startswith("--interface")]

    assert interface(RECEIVE) == ["--interface=auto"]
    assert interface(replace(SEND, interfaces=("data1",))) == ["--interface=data1"]
    assert interface(replace(SEND, interfaces=("data0", "data1"))) == ["--interface=data0,data1"]


def test_where_the_scheduler_chooses_the_node_it_must_have_the_labels_that_are_asked_for() -> None:
    pod = build_pod(job(), replace(RECEIVE, node=None, node_labels=(("fairlead.io/site", "north"), ("disk", "nvme"))), TEMPLATE)
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "fairlead.io/site", "operator": "In", "values": ["north"]},
                {"key": "disk", "operator": "In", "values": ["nvme"]},
            ]
        }
    ]


def test_reading_back_from_the_disk_is_passed_on() -> None:
    pod = build_pod(job(data={"verify": "ReadBack"}), RECEIVE, TEMPLATE)
    assert "--verify=ReadBack" in pod["spec"]["containers"][0]["args"]


def _advisor_options(path: KnownPath, *, probe: bool) -> set[str]:
    pod = build_pod(job(), replace(SEND, path=path, probe=probe), TEMPLATE)
    about_the_path = ("path", "coefficient", "shares")
    return {argument for argument in pod["spec"]["initContainers"][0]["args"] if any(word in argument for word in about_the_path)}


def test_what_is_known_of_a_path_is_told_to_an_advisor_that_probes_as_well() -> None:
    assert _advisor_options(KNOWN_PATH, probe=True) == {"--path-capacity=187M", "--stream-coefficient=1.2e-06"}


def test_an_advisor_that_shall_not_probe_is_told_so_even_if_nothing_is_known() -> None:
    assert _advisor_options(KnownPath(), probe=False) == {'--known-path={"version":1,"rtt_minimum_seconds":null,"background":null}'}


def test_an_advisor_is_told_of_others_of_ours_on_its_path() -> None:
    known = '{"version":1,"rtt_minimum_seconds":0.06,"background":null,"beside_own":true}'
    path = KnownPath(rtt_minimum_seconds=0.06, beside_own=True)
    assert _advisor_options(path, probe=False) == {f"--known-path={known}"}


def test_an_advisor_is_told_where_others_need_not_be_spared() -> None:
    pod = build_pod(job(), replace(SEND, path=KnownPath(competes=True), probe=True), TEMPLATE)
    assert "--others-weight=0" in pod["spec"]["initContainers"][0]["args"]
    spares = build_pod(job(), replace(SEND, path=KnownPath(), probe=True), TEMPLATE)
    assert not any("others" in argument for argument in spares["spec"]["initContainers"][0]["args"])


def test_an_advisor_is_told_how_many_shares_a_job_may_have() -> None:
    assert _advisor_options(KnownPath(shares=4), probe=True) == {"--shares=4"}
    assert _advisor_options(KnownPath(), probe=True) == set()


def test_an_advisor_is_told_that_the_cap_is_a_share_by_a_policy() -> None:
    allocated, own = (build_pod(job(), replace(SEND, cap_bps=10**8, allocated=each), TEMPLATE) for each in (True, False))
    assert "--allocated" in allocated["spec"]["initContainers"][0]["args"]
    assert "--allocated" not in own["spec"]["initContainers"][0]["args"]


def test_the_kubelet_finds_nothing_to_expand_in_a_models_name() -> None:
    assert KNOWN_PATH.background is not None
    named = replace(KNOWN_PATH, background=replace(KNOWN_PATH.background, model="$(HOME)"))
    (known,) = (option for option in _advisor_options(named, probe=False) if option.startswith("--known-path"))
    assert '"model":"$$(HOME)"' in known


def test_a_sender_that_does_not_probe_says_so_where_a_restarted_operator_reads_it() -> None:
    silent, probing = (build_pod(job(), replace(SEND, probe=probe), TEMPLATE) for probe in (False, True))
    assert silent["metadata"]["annotations"][names.ANNOTATION_PATH] == names.PATH_KNOWN
    assert names.ANNOTATION_PATH not in probing["metadata"]["annotations"]


def test_both_ends_are_told_to_leave_data_in_the_clear() -> None:
    for action in (RECEIVE, SEND):
        pod = build_pod(job(transport={"encryption": "None"}), action, TEMPLATE)
        assert "--encryption=None" in pod["spec"]["containers"][0]["args"]


def test_preserving_nothing_is_said_as_a_word() -> None:
    pod = build_pod(job(data={"preserve": []}), RECEIVE, TEMPLATE)
    assert "--preserve=None" in pod["spec"]["containers"][0]["args"]


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]


@pytest.mark.parametrize("action", [RECEIVE, SEND, CLEAN], ids=lambda action: action.role.value)
class TestEveryPod:
    def test_has_no_rights(self, action: CreatePod) -> None:
        pod = build_pod(job(), action, TEMPLATE)
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in _containers(pod):
            context = container["securityContext"]
            assert context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}

    def test_belongs_to_its_job(self, action: CreatePod) -> None:
        (owner,) = build_pod(job(), action, TEMPLATE)["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (UID, True, False)

    def test_declares_every_port_as_host_port_within_its_block(self, action: CreatePod) -> None:
        for container in _containers(build_pod(job(), action, TEMPLATE)):
            for port in container.get("ports", []):
                assert port["containerPort"] == port["hostPort"]
                assert action.port_base <= port["hostPort"] < action.port_base + 4

    @pytest.mark.parametrize("made", [job(network="Pod"), attached_job()], ids=["Pod", "Attachment"])
    def test_takes_nothing_of_the_node_off_its_network(self, action: CreatePod, made: TransferJob) -> None:
        pod = build_pod(made, action, TEMPLATE)
        assert pod["spec"]["hostNetwork"] is False
        for container in _containers(pod):
            assert all("hostPort" not in port for port in container.get("ports", []))
            assert container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"

    def test_its_name_is_short_enough_for_a_job_with_the_longest_name(self, action: CreatePod) -> None:
        pod = build_pod(job("a" * 253), action, TEMPLATE)
        assert len(pod["metadata"]["name"]) <= 63
        assert pod["metadata"]["annotations"][names.ANNOTATION_JOB] == "a" * 253


def test_the_sender_cannot_write_to_the_source() -> None:
    (mover,) = build_pod(job(), SEND, TEMPLATE)["spec"]["containers"]
    assert next(mount for mount in mover["volumeMounts"] if mount["name"] == "data")["readOnly"] is True


def test_a_pod_mounts_its_own_pair_only() -> None:
    for action in (RECEIVE, SEND):
        volumes = build_pod(job(), action, TEMPLATE)["spec"]["volumes"]
        items = next(volume for volume in volumes if volume["name"] == "tls")["secret"]["items"]
        assert [item["key"] for item in items] == ["ca.crt", f"{action.role}.crt", f"{action.role}.key"]


def test_text_of_users_is_never_expanded_as_a_variable() -> None:
    sneaky = job(source={"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "$(FAIRLEAD_NODE_ADDRESS)/x"})
    assert "--source=/data/$$(FAIRLEAD_NODE_ADDRESS)/x" in build_pod(sneaky, SEND, TEMPLATE)["spec"]["containers"][0]["args"]


def test_a_path_that_leaves_its_volume_is_never_built() -> None:
    for path in ("../x", "a/../../x", "/etc"):
        climbing = job(destination={"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": path})
        with pytest.raises(BuildError, match="leaves its volume"):
            build_pod(climbing, RECEIVE, TEMPLATE)


def test_a_sender_needs_a_receiver_to_connect_to() -> None:
    with pytest.raises(BuildError, match="no receiver endpoint"):
        build_pod(job(), CreatePod(Role.SENDER, 1, "dtn-a", 24004), TEMPLATE)


def _paths_of(interfaces: tuple[str, ...], *peers: str) -> dict[str, str]:
    places = tuple(EndpointPlace(f"data{number}", address, 24000) for number, address in enumerate(peers))
    endpoint = MoverEndpoint("data0", peers[0], 24000, several=places if len(places) > 1 else ())
    action = CreatePod(Role.SENDER, 1, "dtn-a", 24000, receiver=endpoint, interfaces=interfaces)
    (container,) = build_pod(job(), action, TEMPLATE)["spec"]["containers"]
    wanted = ("--connect", "--interface", "--streams-max", "--streams-min")
    return {name: value for name, _, value in (word.partition("=") for word in container["args"]) if name in wanted}


def test_each_interface_of_a_sender_connects_to_one_of_the_receivers_and_streams_are_bounded_over_all_paths() -> None:
    one, other = "198.19.0.2", "198.19.1.2"
    both = f"{one}:24000,{other}:24000"
    assert _paths_of(("data0", "data1"), one, other) == {
        "--connect": both,
        "--interface": "data0,data1",
        "--streams-min": "1",
        "--streams-max": "32",
    }
    assert _paths_of(("data0",), one, other)["--interface"] == "data0,data0"
    assert _paths_of(("data0", "data1"), one)["--connect"] == f"{one}:24000,{one}:24000"
    assert _paths_of((), one, other)["--connect"] == f"{one}:24000", "the interface that the kernel routes by is one"
    many = _paths_of(tuple(f"data{number}" for number in range(8)), *(f"198.19.{number}.2" for number in range(8)))
    assert many["--streams-max"] == "8"


def test_a_sender_with_several_paths_watches_the_cap_of_each() -> None:
    places = (EndpointPlace("data0", "198.19.0.2", 24000), EndpointPlace("data1", "198.19.1.2", 24000))
    endpoint = MoverEndpoint("data0", "198.19.0.2", 24000, several=places)
    action = CreatePod(
        Role.SENDER,
        1,
        "dtn-a",
        24004,
        receiver=endpoint,
        interfaces=("data0", "data1"),
        cap_bps=3 * 10**9,
        path_caps_bps=(10**9, 2 * 10**9),
    )
    pod = build_pod(job(), action, TEMPLATE)
    assert pod["metadata"]["annotations"][names.ANNOTATION_PATH_BANDWIDTH] == "1G,2G"
    assert "--path-bandwidth-file=/run/fairlead/live/path-bandwidth" in pod["spec"]["containers"][0]["args"]
    (live,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "live")
    assert [item["path"] for item in live["downwardAPI"]["items"]] == ["egress-bandwidth", "path-bandwidth"]
    shown = {**pod, "metadata": {**pod["metadata"], "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    seen = read_owned_pod(shown)
    assert seen is not None
    assert (seen.pod.watches_paths, seen.pod.path_caps) == (True, "1G,2G")
    uncapped = build_pod(job(), replace(action, path_caps_bps=(None, None)), TEMPLATE)
    assert names.ANNOTATION_PATH_BANDWIDTH not in uncapped["metadata"]["annotations"]
    half = build_pod(job(), replace(action, path_caps_bps=(None, 10**9)), TEMPLATE)
    assert half["metadata"]["annotations"][names.ANNOTATION_PATH_BANDWIDTH] == ",1G"
    with pytest.raises(BuildError, match="3 caps for 2 paths"):
        build_pod(job(), replace(action, path_caps_bps=(1, 2, 3)), TEMPLATE)


def test_connects_to_an_ipv6_address_in_brackets() -> None:
    action = CreatePod(Role.SENDER, 1, "dtn-a", 24004, MoverEndpoint("data0", "2001:db8::2", 24000))
    assert "--connect=[2001:db8::2]:24000" in build_pod(job(), action, TEMPLATE)["spec"]["containers"][0]["args"]


def _networks(action: CreatePod) -> list[dict[str, Any]]:
    attached: list[dict[str, Any]] = json.loads(
        build_pod(attached_job(), action, TEMPLATE)["metadata"]["annotations"][names.ANNOTATION_NETWORKS]
    )
    return attached


def test_each_end_is_attached_by_its_own_definition_of_the_jobs_namespace_and_uses_that_interface() -> None:
    for action, definition in ((SEND, "lab-a"), (RECEIVE, "lab-b")):
        assert _networks(action) == [{"name": definition, "namespace": "physics", "interface": "data0"}]
        assert "--interface=data0" in build_pod(attached_job(), action, TEMPLATE)["spec"]["containers"][0]["args"]


def test_only_movers_of_an_attached_job_are_attached() -> None:
    for pod in (
        build_pod(attached_job(), CLEAN, TEMPLATE),
        build_pod(job(network="Pod"), SEND, TEMPLATE),
        build_pod(job(), SEND, TEMPLATE),
    ):
        assert names.ANNOTATION_NETWORKS not in pod["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("cap_bps", "rate_bps", "burst_bits"),
    [
        (64_000, 67_200, 2_097_152),
        (10**8, 105_000_000, 10_500_000),
        (10**10, 10_500_000_000, 1_050_000_000),
        (10**12, 1_050_000_000_000, 4_294_967_296),
    ],
    ids=["the lowest cap: some packets", "a tenth of a second", "a tenth of a second, fast", "the fastest: the largest burst"],
)
def test_an_attachment_asks_for_a_bucket_a_twentieth_above_the_cap(cap_bps: int, rate_bps: int, burst_bits: int) -> None:
    (sending,) = _networks(replace(SEND, cap_bps=cap_bps))
    (receiving,) = _networks(replace(RECEIVE, cap_bps=cap_bps))
    assert sending["bandwidth"] == {"egressRate": rate_bps, "egressBurst": burst_bits}
    assert receiving["bandwidth"] == {"ingressRate": rate_bps, "ingressBurst": burst_bits}


@pytest.mark.parametrize("cap_bps", [64_000, 10**9, 343 * 10**9, 10**12])
def test_the_bandwidth_plugin_can_hold_the_bucket(cap_bps: int) -> None:
    asked = _networks(replace(SEND, cap_bps=cap_bps))[0]["bandwidth"]
    queue_bytes = asked["egressRate"] / 8 * 0.025 + asked["egressBurst"] / 8
    assert asked["egressBurst"] / 8 < 2**32 - 1
    assert queue_bytes < 2**32


def test_a_cap_that_no_bucket_can_count_is_left_to_the_mover() -> None:
    assert "bandwidth" not in _networks(replace(SEND, cap_bps=10**13))[0]


def test_an_attached_job_without_attachment_is_never_built() -> None:
    with pytest.raises(BuildError, match="no attachment is named"):
        build_pod(job(network="Attachment"), RECEIVE, TEMPLATE)


def test_a_cap_is_an_annotation_of_the_way_that_the_pod_uses() -> None:
    ways = {Role.SENDER: names.ANNOTATION_EGRESS_BANDWIDTH, Role.RECEIVER: names.ANNOTATION_INGRESS_BANDWIDTH}
    for action in (RECEIVE, SEND):
        capped = build_pod(job(), replace(action, cap_bps=1_500_000_000), TEMPLATE)["metadata"]["annotations"]
        assert {name: cap for name, cap in capped.items() if name in ways.values()} == {ways[action.role]: "1500M"}
        assert not set(ways.values()) & set(build_pod(job(), action, TEMPLATE)["metadata"]["annotations"])


def test_only_what_is_made_with_the_pod_has_the_buckets_rate() -> None:
    action = replace(SEND, cap_bps=10**6, bucket_bps=10**9)
    on_pods = build_pod(job(network="Pod"), action, TEMPLATE)
    assert on_pods["metadata"]["annotations"][names.ANNOTATION_EGRESS_BANDWIDTH] == "1G"
    assert on_pods["metadata"]["annotations"][names.ANNOTATION_PACING] == "1M"
    (live,) = (volume for volume in on_pods["spec"]["volumes"] if volume["name"] == "live")
    assert live["downwardAPI"]["items"][0]["fieldRef"] == {"fieldPath": f"metadata.annotations['{names.ANNOTATION_PACING}']"}
    receiving = build_pod(job(network="Pod"), replace(RECEIVE, cap_bps=10**6, bucket_bps=10**9), TEMPLATE)
    assert receiving["metadata"]["annotations"][names.ANNOTATION_INGRESS_BANDWIDTH] == "1G"
    assert _networks(action)[0]["bandwidth"]["egressRate"] == 1_050_000_000


@pytest.mark.parametrize("action", [SEND, RECEIVE], ids=["sender", "receiver"])
def test_with_an_attachment_no_bucket_is_asked_for_the_pods_own_interface(action: CreatePod) -> None:
    pod = build_pod(attached_job(), replace(action, cap_bps=10**6, bucket_bps=10**9), TEMPLATE)
    annotations = pod["metadata"]["annotations"]
    assert not {names.ANNOTATION_EGRESS_BANDWIDTH, names.ANNOTATION_INGRESS_BANDWIDTH} & set(annotations)
    assert annotations.get(names.ANNOTATION_PACING) == ("1M" if action is SEND else None)
    for live in (volume for volume in pod["spec"]["volumes"] if volume["name"] == "live"):
        assert live["downwardAPI"]["items"][0]["fieldRef"] == {"fieldPath": f"metadata.annotations['{names.ANNOTATION_PACING}']"}


def test_several_attachments_become_an_interface_each_with_the_addresses_asked_for() -> None:
    several = {"attachments": ["lab-a", "lab-b"], "attachmentAddresses": ["198.19.1.70/24", "198.19.17.70/24"]}
    attached = attached_job()
    sides = {end: {**getattr(attached.spec, end).to_object(), **several} for end in ("source", "destination")}
    for side in sides.values():
        side.pop("attachment")
    pod = build_pod(job(network="Attachment", **sides), replace(SEND, cap_bps=None), TEMPLATE)
    assert json.loads(pod["metadata"]["annotations"][names.ANNOTATION_NETWORKS]) == [
        {"name": "lab-a", "namespace": attached.metadata.namespace, "interface": "data0", "ips": ["198.19.1.70/24"]},
        {"name": "lab-b", "namespace": attached.metadata.namespace, "interface": "data1", "ips": ["198.19.17.70/24"]},
    ]
    assert "--interface=data0,data1" in pod["spec"]["containers"][0]["args"]


@pytest.mark.parametrize(
    ("streams", "expected"), [({"min": 1, "max": 32}, 4), ({"min": 1, "max": 2}, 2), ({"min": 8, "max": 16}, 8), ({"min": 3, "max": 3}, 3)]
)
def test_starts_with_four_streams_within_the_users_bounds(streams: dict[str, int], expected: int) -> None:
    pod = build_pod(job(transport={"streams": streams}), SEND, TEMPLATE)
    assert f"--streams={expected}" in pod["spec"]["containers"][0]["args"]


def test_the_secret_is_immutable_and_goes_with_the_job() -> None:
    secret = build_secret(job(), 2, Credentials({"ca.crt": b"x"}))
    assert secret["immutable"] is True
    assert secret["metadata"]["name"].endswith("-credentials-2")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == UID


@pytest.mark.parametrize(("role", "cpus"), [("receiver", {"mover": "4"}), ("sender", {"mover": "4", "advisor": "1"})])
def test_a_pod_with_whole_cpus_is_guaranteed_in_every_container(role: str, cpus: dict[str, str]) -> None:
    spec = CASES[f"{role}-with-whole-cpus"]()["spec"]
    containers = {each["name"]: each["resources"] for each in spec["containers"] + spec.get("initContainers", [])}
    assert {name: resources["limits"]["cpu"] for name, resources in containers.items()} == cpus
    for resources in containers.values():
        assert resources["requests"] == resources["limits"]
        assert resources["limits"].keys() >= {"cpu", "memory"}


def test_a_cleaner_takes_no_whole_cpus() -> None:
    assert build_pod(job(), CLEAN, ALIGNED) == CASES["cleaner"]()


def test_devices_of_an_end_are_asked_for_by_its_mover_alone() -> None:
    def asking(pod: dict[str, Any]) -> list[str]:
        containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        return [each["name"] for each in containers if "example.com/sriov" in each["resources"]["limits"]]

    assert asking(CASES["sender-with-a-device"]()) == ["mover"]
    (mover,) = CASES["sender-with-a-device"]()["spec"]["containers"]
    assert mover["resources"]["requests"] == mover["resources"]["limits"]
    assert asking(build_pod(_with_device(), RECEIVE, ALIGNED)) == []
    assert asking(build_pod(_with_device(), CLEAN, ALIGNED)) == []
