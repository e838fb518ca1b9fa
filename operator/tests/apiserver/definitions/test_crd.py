"""What the API server makes of TransferJobs by the CustomResourceDefinition alone: rules, defaults, columns, status."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT
from lab import NOT_ALLOWED, Lab

from fairlead.kube.client import JOBS
from fairlead.kube.errors import ForbiddenError, InvalidError


def _side(node: str = "dtn-a", claim: str = "raw", **more: Any) -> dict[str, Any]:
    return {"node": node, "volume": {"persistentVolumeClaim": {"claimName": claim}}, **more}


IMMUTABLE = "cannot change once the job exists: create a new TransferJob instead"

ATTACHED: dict[str, Any] = {
    "network": "Attachment",
    "source": _side(attachment="lab-a"),
    "destination": _side("dtn-b", "scratch", attachment="lab-b"),
}
ATTACHMENT_MISSING = (
    "network Attachment needs source.attachment and destination.attachment:"
    " name a NetworkAttachmentDefinition of the job's namespace in both, or use network Host or Pod"
)
ATTACHMENT_UNUSED = "attachment counts with network Attachment alone: set network to Attachment, or leave attachment out"
OWN_INTERFACE = (
    "interface names a node's interface, and with network Pod or Attachment a job has its pods' own:"
    " leave interface out, or use network Host"
)

ONE_PLACE = "node, nodeSelector and site each say where this end runs: give one of them"
ONE_CHOICE = "interface, interfaces and interfaceNetwork each say what carries the data: give one of them"
INTERFACES_UNUSED = (
    "interfaces and interfaceNetwork are about a node's interfaces, and with network Pod or Attachment a job has its pods' own:"
    " leave them out, or use network Host"
)
RESOURCES_OF_PLUGINS = (
    "resources takes what device plugins offer, such as example.com/sriov:"
    " leave others out, the processors and memory of movers are set by the chart"
)
FIXED_RATE = {"protocol": "UDT", "congestionControl": "fixed"}
UNLIMITED = (
    "transport.congestionControl fixed and blast of UDT send at bandwidth.limit whatever others have:"
    " set bandwidth.limit, or transport.congestionControl to udt"
)
TWO = ["data0", "data1"]


def _placed(**more: Any) -> dict[str, Any]:
    """An end that names no node."""
    return {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, **more}


def _both(**more: Any) -> dict[str, Any]:
    return {"source": _side(**more), "destination": _side("dtn-b", "scratch", **more)}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a node and a site": ({"source": _side(site="north")}, ONE_PLACE),
    "a site and a selector": ({"source": _placed(site="north", nodeSelector={"disk": "nvme"})}, ONE_PLACE),
    "a node and a selector": ({"destination": _side("dtn-b", "scratch", nodeSelector={"disk": "nvme"})}, ONE_PLACE),
    "one interface and several": (_both(interface="data0", interfaces=TWO), ONE_CHOICE),
    "an interface and a network": ({"source": _side(interface="data0", interfaceNetwork="wan")}, ONE_CHOICE),
    "an interface twice": (_both(interfaces=["data0", "data0"]), "interfaces must name each interface once: remove the repeated one"),
    "auto among several": (_both(interfaces=["data0", "auto"]), "interfaces are names, and auto is none: use interface for auto"),
    "several interfaces at one end": (
        {"source": _side(interfaces=TWO)},
        "source.interfaces and destination.interfaces are used in pairs: name as many in both, or leave both out",
    ),
    "several interfaces on the pod network": ({"network": "Pod", **_both(interfaces=TWO)}, INTERFACES_UNUSED),
    "a network's interface on the pod network": ({"network": "Pod", "source": _side(interfaceNetwork="wan")}, INTERFACES_UNUSED),
    "one attachment and several": (
        {"network": "Attachment", **_both(attachment="lab", attachments=["lab-a", "lab-b"])},
        "attachment and attachments each name what Multus attaches: give one of them",
    ),
    "several attachments at one end": (
        {**ATTACHED, "source": _side(attachments=["lab-a", "lab-b"])},
        "source.attachments and destination.attachments are used in pairs: name as many in both, or leave both out",
    ),
    "an address for one of two attachments": (
        {"network": "Attachment", **_both(attachments=["lab-a", "lab-b"], attachmentAddresses=["198.19.1.7/24"])},
        "attachmentAddresses are asked for in the order of the attachments: give one for each, or leave them out",
    ),
    "an address without an attachment": (
        {**ATTACHED, "source": _side(attachmentAddresses=["198.19.1.7/24"])},
        "attachmentAddresses are asked for in the order of the attachments: give one for each, or leave them out",
    ),
    "several attachments on the nodes' network": (
        _both(attachments=["lab-a", "lab-b"]),
        "attachments count with network Attachment alone: set network to Attachment, or leave attachments out",
    ),
    "processors as a device": ({"source": _side(resources={"cpu": 2})}, RESOURCES_OF_PLUGINS),
    "a device of Kubernetes itself": ({"source": _side(resources={"nodes.kubernetes.io/cpu": 2})}, RESOURCES_OF_PLUGINS),
    "a limit below the least": (
        {"bandwidth": {"limit": "10k"}},
        "bandwidth.limit must lie between 64k and 10T: it is in decimal bits per second",
    ),
    "a limit above the most": (
        {"bandwidth": {"limit": "11T"}},
        "bandwidth.limit must lie between 64k and 10T: it is in decimal bits per second",
    ),
    "a guarantee below the least": (
        {"bandwidth": {"guarantee": "10k"}},
        "bandwidth.guarantee must lie between 64k and 10T: it is in decimal bits per second",
    ),
    "a guarantee above the limit": (
        {"bandwidth": {"guarantee": "2G", "limit": "1500M"}},
        "bandwidth.guarantee must not exceed bandwidth.limit: lower guarantee or raise limit",
    ),
    "an absolute source path": ({"source": _side(path="/etc")}, "path is relative to the volume's root: remove the leading '/'"),
    "a source path that climbs": (
        {"source": _side(path="a/../b")},
        "path must not have the component '..' or '.': name the directory itself",
    ),
    "a source path that begins by climbing": (
        {"source": _side(path="../b")},
        "path must not have the component '..' or '.': name the directory itself",
    ),
    "an empty component": ({"source": _side(path="a//b")}, "path must not have an empty component: write one '/' between names"),
    "a newline in a path": ({"source": _side(path="a\nb")}, "path must not hold control characters: rename the directory"),
    "a destination path that climbs": (
        {"destination": _side("dtn-b", "scratch", path="a/..")},
        "path must not have the component '..' or '.': name the directory itself",
    ),
    "an attached job without attachments": ({"network": "Attachment"}, ATTACHMENT_MISSING),
    "an attached job with one attachment": ({"network": "Attachment", "source": _side(attachment="lab")}, ATTACHMENT_MISSING),
    "an attachment on the nodes' network": ({"source": _side(attachment="lab")}, ATTACHMENT_UNUSED),
    "an attachment on the pod network": (
        {"network": "Pod", "destination": _side("dtn-b", "scratch", attachment="lab")},
        ATTACHMENT_UNUSED,
    ),
    "a node's interface on the pod network": (
        {"network": "Pod", "source": _side(interface="data0")},
        OWN_INTERFACE,
    ),
    "a node's interface beside an attachment": (
        {**ATTACHED, "destination": _side("dtn-b", "scratch", attachment="lab-b", interface="data0")},
        OWN_INTERFACE,
    ),
    "movers as root": ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser must be at least 1: movers never run as root"),
    "more streams at least than at most": (
        {"transport": {"streams": {"min": 8, "max": 4}}},
        "transport.streams.min must not exceed transport.streams.max: lower min or raise max",
    ),
    "QUIC in the clear": (
        {"transport": {"protocol": "QUIC", "encryption": "None"}},
        "transport.protocol QUIC encrypts in any case: set transport.encryption to Required, or transport.protocol to TCP",
    ),
    "a kernel's congestion control over QUIC": (
        {"transport": {"protocol": "QUIC", "congestionControl": "bbr"}},
        "transport.protocol QUIC has the congestion controls cubic and reno:"
        " set transport.congestionControl to one of them or Auto, or transport.protocol to TCP for those of the kernel",
    ),
    "somebody's own ascp": (
        {"transport": {"protocol": "Ascp"}},
        "transport.protocol Ascp is refused, as movers run no other program:"
        " run your own ascp first, then a job with transport.protocol Auto and data.overwrite IfDifferent,"
        " which checks what ascp brought and sends the rest",
    ),
    "UDT in the clear": (
        {"transport": {"protocol": "UDT", "encryption": "None"}},
        "transport.protocol UDT encrypts in any case: set transport.encryption to Required, or transport.protocol to TCP",
    ),
    "a kernel's congestion control over UDT": (
        {"transport": {"protocol": "UDT", "congestionControl": "cubic"}},
        "transport.protocol UDT has the congestion controls udt, fixed, reported and blast:"
        " set transport.congestionControl to one of them or Auto, or transport.protocol to TCP for those of the kernel",
    ),
    "a scavenger over UDT": (
        {"transport": {"protocol": "UDT", "trafficClass": "Scavenger"}},
        "transport.protocol UDT gives way to nobody: set transport.trafficClass to Normal, or transport.protocol to QUIC or Auto",
    ),
    "a scavenger in the clear": (
        {"transport": {"trafficClass": "Scavenger", "encryption": "None"}},
        "transport.trafficClass Scavenger goes over QUIC, which encrypts in any case: set transport.encryption to Required,"
        " or transport.protocol to TCP for the kernel's lp",
    ),
    "a scavenger that does not give way": (
        {"transport": {"trafficClass": "Scavenger", "congestionControl": "cubic"}},
        "transport.trafficClass Scavenger has the congestion control ledbat++, with transport.protocol TCP lp:"
        " set transport.congestionControl to Auto, or transport.trafficClass to Normal",
    ),
    "a scavenger over TCP with QUIC's control": (
        {"transport": {"trafficClass": "Scavenger", "protocol": "TCP", "congestionControl": "ledbat++"}},
        "transport.trafficClass Scavenger has the congestion control ledbat++, with transport.protocol TCP lp:"
        " set transport.congestionControl to Auto, or transport.trafficClass to Normal",
    ),
    "a scavenger's control without its class": (
        {"transport": {"congestionControl": "ledbat++"}},
        "transport.congestionControl ledbat++ is that of scavengers: set transport.trafficClass to Scavenger",
    ),
    "a scavenger with several streams": (
        {"transport": {"trafficClass": "Scavenger", "streams": {"min": 2, "max": 4}}},
        "transport.trafficClass Scavenger has one stream on each path: set transport.streams.min to 1",
    ),
    "a scavenger with a guarantee": (
        {"transport": {"trafficClass": "Scavenger"}, "bandwidth": {"guarantee": "1G"}},
        "transport.trafficClass Scavenger takes what others leave: remove bandwidth.guarantee, or set trafficClass to Normal",
    ),
    "a set rate over UDT without a limit": ({"transport": FIXED_RATE}, UNLIMITED),
    "blasts over UDT without a limit": (
        {"transport": {"protocol": "UDT", "congestionControl": "blast"}, "bandwidth": {"guarantee": "1G", "weight": 7}},
        UNLIMITED,
    ),
    "the same directory at both ends": (
        {"source": _side(path="x"), "destination": _side("dtn-a", "raw", path="x/")},
        "source and destination are the same directory, or one lies in the other: change path or claimName of one of them",
    ),
    "a destination inside the source": (
        {"source": _side(path=""), "destination": _side("dtn-a", "raw", path="x")},
        "source and destination are the same directory, or one lies in the other: change path or claimName of one of them",
    ),
    "a source inside the destination": (
        {"source": _side(path="x/y"), "destination": _side("dtn-a", "raw", path="x")},
        "source and destination are the same directory, or one lies in the other: change path or claimName of one of them",
    ),
}

REFUSED_BY_SCHEMA: dict[str, tuple[dict[str, Any], str]] = {
    "an encryption of another name": ({"transport": {"encryption": "Some"}}, "spec.transport.encryption"),
    "a protocol of another name": ({"transport": {"protocol": "SCTP"}}, "spec.transport.protocol"),
    "an unknown overwrite policy": ({"data": {"overwrite": "Sometimes"}}, "spec.data.overwrite"),
    "a rate that is none": ({"bandwidth": {"limit": "fast"}}, "spec.bandwidth.limit"),
    "a congestion control with a space": ({"transport": {"congestionControl": "cu bic"}}, "spec.transport.congestionControl"),
    "a weight of zero": ({"bandwidth": {"weight": 0}}, "spec.bandwidth.weight"),
    "a priority above the highest": ({"priority": 101}, "spec.priority"),
    "a negative backoff limit": ({"backoffLimit": -1}, "spec.backoffLimit"),
    "an attachment of another namespace": ({**ATTACHED, "source": _side(attachment="other/lab")}, "spec.source.attachment"),
    "an address of an attachment without prefix": (
        {**ATTACHED, "source": _side(attachment="lab-a", attachmentAddresses=["198.19.1.7"])},
        "spec.source.attachmentAddresses",
    ),
    "an empty attachment": ({**ATTACHED, "source": _side(attachment="")}, "spec.source.attachment"),
    "an attachment longer than a label": ({**ATTACHED, "source": _side(attachment="a" * 64)}, "spec.source.attachment"),
    "one interface as several": (_both(interfaces=["data0"]), "spec.source.interfaces"),
    "more interfaces than there may be": (_both(interfaces=[f"data{i}" for i in range(9)]), "spec.source.interfaces"),
    "an empty selector": ({"source": _placed(nodeSelector={})}, "spec.source.nodeSelector"),
    "a site with a space": ({"source": _placed(site="north pole")}, "spec.source.site"),
    "no device": ({"source": _side(resources={"example.com/sriov": 0})}, "spec.source.resources"),
    "an interface with a slash": ({"source": _side(interface="eth0/1")}, "spec.source.interface"),
    "a source without volume": ({"source": {"node": "dtn-a"}}, "spec.source.volume"),
    "no node name": ({"source": _side(node="Not_A_Node")}, "spec.source.node"),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "the least there is": {},
    "a limit at the lower bound": {"bandwidth": {"limit": "64k"}},
    "a limit at the upper bound": {"bandwidth": {"limit": "10T"}},
    "a guarantee as high as the limit": {"bandwidth": {"guarantee": "1G", "limit": "1000M", "weight": 7}, "priority": 100},
    "whole volumes": {"source": _side(path=""), "destination": _side("dtn-b", "scratch", path="")},
    "dots within names": {"source": _side(path="..a/b../c.d/...")},
    "one directory beside another of the same claim": {"source": _side(path="x"), "destination": _side("dtn-a", "raw", path="xy")},
    "as many streams at least as at most": {"transport": {"streams": {"min": 8, "max": 8}}},
    "data in the clear": {"transport": {"encryption": "None"}},
    "QUIC": {"transport": {"protocol": "QUIC"}},
    "QUIC with a congestion control of its own": {"transport": {"protocol": "QUIC", "congestionControl": "reno", "encryption": "Required"}},
    "UDT": {"transport": {"protocol": "UDT"}},
    "UDT with a rate policy": {"transport": {"protocol": "UDT", "congestionControl": "reported", "encryption": "Required"}},
    "UDT at a set rate, with a limit": {"transport": FIXED_RATE, "bandwidth": {"limit": "2G"}},
    "UDT in blasts, with a limit": {"transport": {"protocol": "UDT", "congestionControl": "blast"}, "bandwidth": {"limit": "2G"}},
    "a kernel's congestion control over TCP, in the clear": {
        "transport": {"protocol": "TCP", "congestionControl": "bbr", "encryption": "None"}
    },
    "a scavenger": {"transport": {"trafficClass": "Scavenger"}, "bandwidth": {"limit": "1G"}},
    "a scavenger that names what it has": {
        "transport": {"trafficClass": "Scavenger", "protocol": "QUIC", "congestionControl": "ledbat++", "streams": {"min": 1, "max": 1}}
    },
    "a scavenger over TCP, in the clear": {
        "transport": {"trafficClass": "Scavenger", "protocol": "TCP", "congestionControl": "lp", "encryption": "None"}
    },
    "no nodes": {
        "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}},
        "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
    },
    "ends by site and by labels": {
        "source": _placed(site="north"),
        "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "nodeSelector": {"disk": "nvme", "rack": ""}},
    },
    "several interfaces": _both(interfaces=TWO),
    "other interfaces at the other end": {
        "source": _side(interfaces=TWO),
        "destination": _side("dtn-b", "scratch", interfaces=["enp1s0", "enp2s0"]),
    },
    "interfaces of a network": _both(interfaceNetwork="wan"),
    "an address for an attachment": {**ATTACHED, "source": _side(attachment="lab-a", attachmentAddresses=["198.19.1.7/24"])},
    "addresses for several attachments": {
        "network": "Attachment",
        **_both(attachments=["lab-a", "lab-b"], attachmentAddresses=["198.19.1.7/24", "2001:db8::7/64"]),
    },
    "several attachments": {"network": "Attachment", **_both(attachments=["lab-a", "lab-b"])},
    "one attachment for two interfaces": {"network": "Attachment", **_both(attachments=["lab", "lab"])},
    "a device": {"source": _side(resources={"example.com/sriov_net-A": 1})},
    "an unprivileged user": {"securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "supplementalGroups": [2000]}},
    "the pod network": {"network": "Pod"},
    "attachments": ATTACHED,
    "one attachment for both ends": {**ATTACHED, "destination": _side("dtn-b", "scratch", attachment="lab-a", interface="auto")},
    "a check alone": {"preflightOnly": True},
    "a named congestion control": {"transport": {"congestionControl": "bbr"}},
}

FIXED: dict[str, dict[str, Any]] = {
    "source": {"source": {"path": "other"}},
    "destination": {"destination": {"node": "dtn-a"}},
    "network": {"network": "Pod"},
    "transport": {"transport": {"congestionControl": "bbr"}},
    "data": {"data": {"overwrite": "Always"}},
    "preflightOnly": {"preflightOnly": True},
    "managedBy": {"managedBy": "kueue.x-k8s.io/multikueue"},
    "securityContext": {"securityContext": {"runAsUser": 7}},
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refuses_what_cannot_work_and_says_why(lab: Lab, case: str) -> None:
    spec, message = REFUSED[case]
    with pytest.raises(InvalidError) as refusal:
        await lab.create_job(**spec)
    assert message in str(refusal.value)


@pytest.mark.parametrize("case", REFUSED_BY_SCHEMA)
async def test_refuses_malformed_fields_by_name(lab: Lab, case: str) -> None:
    spec, field = REFUSED_BY_SCHEMA[case]
    with pytest.raises(InvalidError) as refusal:
        await lab.create_job(**spec)
    assert field in str(refusal.value)


@pytest.mark.parametrize("case", ACCEPTED)
async def test_accepts(lab: Lab, case: str) -> None:
    await lab.create_job(**ACCEPTED[case])


@pytest.mark.parametrize("field", FIXED)
async def test_refuses_a_change_of(lab: Lab, field: str) -> None:
    await lab.create_job()
    with pytest.raises(InvalidError) as refusal:
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": FIXED[field]})
    assert f"{field} {IMMUTABLE}" in str(refusal.value)


async def test_refuses_a_change_of_an_attachment(lab: Lab) -> None:
    await lab.create_job(**ATTACHED)
    with pytest.raises(InvalidError) as refusal:
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"source": {"attachment": "other"}}})
    assert f"source {IMMUTABLE}" in str(refusal.value)


@pytest.mark.parametrize(
    "change", [{"suspend": True}, {"bandwidth": {"limit": "1G"}}, {"priority": 5}, {"backoffLimit": 2}, {"ttlSecondsAfterFinished": 5}]
)
async def test_accepts_a_change_of_what_may_change(lab: Lab, change: dict[str, Any]) -> None:
    await lab.create_job()
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": change})


@pytest.mark.parametrize("change", [{"bandwidth": None}, {"bandwidth": {"limit": None}}])
async def test_a_set_rate_keeps_its_limit(lab: Lab, change: dict[str, Any]) -> None:
    await lab.create_job(transport=FIXED_RATE, bandwidth={"limit": "2G"})
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"bandwidth": {"limit": "1G"}}})
    with pytest.raises(InvalidError) as refusal:
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": change})
    assert UNLIMITED in str(refusal.value)


def test_every_rule_of_the_definition_has_a_refused_case() -> None:
    definition = yaml.safe_load((CHECKOUT / "crds" / "fairlead.io_transferjobs.yaml").read_text())
    rules = {rule["message"] for rule in _rules(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])}
    tried = {message for _, message in REFUSED.values()} | {f"{field} {IMMUTABLE}" for field in FIXED}
    assert rules == tried


def _rules(schema: Any) -> list[dict[str, str]]:
    if isinstance(schema, dict):
        own = schema.get("x-kubernetes-validations", [])
        return [*own, *(rule for key, part in schema.items() if key != "x-kubernetes-validations" for rule in _rules(part))]
    return [rule for part in schema for rule in _rules(part)] if isinstance(schema, list) else []


async def test_fills_in_defaults(lab: Lab) -> None:
    spec = (await lab.create_job())["spec"]
    assert spec["network"] == "Host"
    assert spec["suspend"] is False
    assert spec["backoffLimit"] == 6
    assert spec["source"]["interface"] == "auto"
    assert spec["managedBy"] == "fairlead.io/transferjob-controller"
    assert spec["transport"] == {
        "protocol": "Auto",
        "trafficClass": "Normal",
        "congestionControl": "Auto",
        "streams": {"min": 1, "max": 32},
        "encryption": "Required",
    }
    assert spec["data"]["overwrite"] == "IfDifferent"
    assert spec["securityContext"]["runAsUser"] == 65532


def test_server_side_apply_is_idempotent_and_keeps_what_others_own(lab: Lab) -> None:
    manifest = lab.manifest()
    lab.kubectl.apply(manifest, server_side=True)
    lab.kubectl("-n", lab.namespace, "patch", "transferjob", "job", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    before = _read(lab)
    lab.kubectl.apply(manifest, server_side=True)
    after = _read(lab)
    assert after["spec"]["suspend"] is True
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_status_is_a_subresource(lab: Lab) -> None:
    created = await lab.create_job()
    written = await lab.client.merge_patch(JOBS, lab.namespace, "job", {"status": {"phase": "Pending"}})
    assert "status" not in written
    written = await lab.client.merge_patch(JOBS, lab.namespace, "job", {"status": {"phase": "Pending"}}, subresource="status")
    assert written["status"]["phase"] == "Pending"
    assert written["metadata"]["generation"] == created["metadata"]["generation"]


DECISION = {"protocol": "TCP", "congestionControl": "cubic", "streams": 4, "abstained": True, "reason": "NoModel"}


@pytest.mark.parametrize(
    ("phase", "stalled", "progress", "columns"),
    [
        ("Transferring", ("False", "DataFlow"), {"percent": 42, "rate": "187M", "eta": "42s"}, ["DataFlow", "42", "187M", "42s"]),
        # Rate and ETA went with the movers: their columns are empty.
        ("Failed", ("True", "BackoffLimitExceeded"), {"percent": 37}, ["BackoffLimitExceeded", "37"]),
    ],
    ids=["under way", "failed"],
)
async def test_prints_the_columns_people_look_for(
    lab: Lab, phase: str, stalled: tuple[str, str], progress: dict[str, Any], columns: list[str]
) -> None:
    await lab.create_job()
    status, reason = stalled
    why = {"type": "Stalled", "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    written = {"phase": phase, "conditions": [why], "progress": progress, "decision": DECISION}
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"status": written}, subresource="status")
    header, row = lab.kubectl("-n", lab.namespace, "get", "tj").stdout.splitlines()
    assert header.split() == ["NAME", "PHASE", "REASON", "PROGRESS%", "RATE", "ETA", "CC", "STREAMS", "AGE"]
    assert row.split()[:-1] == ["job", phase, *columns, "cubic", "4"]


async def test_the_policy_refuses_namespaces_without_permission(lab: Lab) -> None:
    manifest = lab.manifest() | {"metadata": {"name": "job", "namespace": NOT_ALLOWED}}
    with pytest.raises(ForbiddenError) as refusal:
        await lab.client.create(JOBS, NOT_ALLOWED, manifest)
    assert f"namespace {NOT_ALLOWED} may not use the nodes' network" in str(refusal.value)
    assert "hostNetwork.namespaces" in str(refusal.value)


@pytest.mark.parametrize("spec", [{"network": "Pod"}, ATTACHED], ids=["Pod", "Attachment"])
async def test_the_policy_lets_every_namespace_use_the_pods_own_networks(lab: Lab, spec: dict[str, Any]) -> None:
    manifest = lab.manifest(**spec) | {"metadata": {"name": "job", "namespace": NOT_ALLOWED}}
    created = await lab.client.create(JOBS, NOT_ALLOWED, manifest)
    await lab.client.delete(JOBS, NOT_ALLOWED, "job", uid=created["metadata"]["uid"])


def _read(lab: Lab) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(lab.kubectl("-n", lab.namespace, "get", "transferjob", "job", "-o", "json").stdout)
    return answer
