"""The chart's admission policies on a real API server: who may make, change and enter pods where movers run."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubelet import FakeNodes
from lab import NARROW, NOT_ALLOWED, Kubectl, Lab, transfer_job

from fairlead.api import names
from fairlead.kube.client import KubeObject

OPERATOR = "system:serviceaccount:fairlead-system:fairlead"
TENANT = "mallory"
CONTROLLERS = "system:serviceaccounts:kube-system"
UID = "0a1b2c3d-0000-4000-8000-000000000042"
MOVER = names.child_name("run42", UID, "sender", 1)

Change = Callable[[KubeObject], None]


@pytest.fixture(scope="module", autouse=True)
def everything_is_allowed_by_rights(cluster: None, kubectl: Kubectl) -> Iterator[None]:
    """The rights of an administrator for the tenant and the controllers: what is refused is then refused by a policy."""
    kubectl("create", "clusterrolebinding", "everything", "--clusterrole=cluster-admin", f"--user={TENANT}", f"--group={CONTROLLERS}")
    yield
    kubectl("delete", "clusterrolebinding", "everything")


def _owner(uid: str = UID) -> KubeObject:
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "run42", "uid": uid, "controller": True}


def _plain_pod() -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain"},
        "spec": {"containers": [{"name": "main", "image": "anything"}]},
    }


def _mover() -> KubeObject:
    """A pod of the shape that the operator makes."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "raw", "readOnly": True}},
        {"name": "tls", "secret": {"secretName": names.credentials_name("run42", UID, 1)}},
    ]
    port = {"name": "http", "containerPort": 24005, "hostPort": 24005}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": MOVER,
            "labels": {
                names.LABEL_COMPONENT: names.COMPONENT_MOVER,
                names.LABEL_MANAGED_BY: names.MANAGER,
                names.LABEL_JOB_UID: UID,
                names.LABEL_ROLE: "sender",
            },
            "ownerReferences": [_owner()],
        },
        "spec": {
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{"name": "mover", "image": "fairlead-mover:test", "securityContext": context, "ports": [port]}],
            "volumes": volumes,
        },
    }


def _secret() -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names.credentials_name("run42", UID, 1), "ownerReferences": [_owner()]},
        "type": "Opaque",
        "immutable": True,
    }


def _as(lab: Lab, user: str, *arguments: str, stdin: KubeObject | None = None, namespace: str = "") -> subprocess.CompletedProcess[str]:
    text = None if stdin is None else json.dumps(stdin)
    groups = [
        "--as-group=system:authenticated",
        *([f"--as-group={CONTROLLERS}"] if user.startswith("system:serviceaccount:kube-system:") else []),
    ]
    return lab.kubectl("-n", namespace or lab.namespace, f"--as={user}", *groups, *arguments, stdin=text, check=False)


def _create(lab: Lab, user: str, manifest: KubeObject, namespace: str = "") -> subprocess.CompletedProcess[str]:
    # With its own validation kubectl fetches the schemas first, which takes longer than the answer.
    return _as(lab, user, "create", "--dry-run=server", "--validate=false", "-f", "-", stdin=manifest, namespace=namespace)


def _refused(answer: subprocess.CompletedProcess[str], words: str) -> None:
    assert answer.returncode != 0, f"the API server took it: {answer.stdout}"
    assert "ValidatingAdmissionPolicy" in answer.stderr, f"refused, and not by a policy: {answer.stderr}"
    assert words in answer.stderr


def _accepted(answer: subprocess.CompletedProcess[str]) -> None:
    assert answer.returncode == 0, answer.stderr


def _set(path: str, value: object) -> Change:
    """Sets the field at a dotted path, where a number is an index into a list and `~` is a dot within a name."""

    def change(manifest: KubeObject) -> None:
        target: Any = manifest
        *parents, last = (part.replace("~", ".") for part in path.split("."))
        for part in parents:
            target = target[int(part)] if part.isdigit() else target.setdefault(part, {})
        target[last] = value

    return change


def _changed(manifest: KubeObject, change: Change) -> KubeObject:
    changed = copy.deepcopy(manifest)
    change(changed)
    return changed


@pytest.mark.parametrize("user", [TENANT, "system:serviceaccount:kube-system:replicaset-controller"])
@pytest.mark.parametrize(
    "forged",
    [
        _set("metadata.labels", {names.LABEL_MANAGED_BY: names.MANAGER}),
        _set("metadata.labels", {names.LABEL_JOB_UID: UID}),
        _set("metadata.ownerReferences", [_owner()]),
        _set("metadata.name", MOVER),
    ],
    ids=["manager's label", "job's label", "owner", "name"],
)
async def test_nobody_but_the_operator_makes_a_pod_that_looks_like_a_mover(lab: Lab, user: str, forged: Change) -> None:
    _refused(_create(lab, user, _changed(_plain_pod(), forged)), "by the Fairlead operator alone")
    _refused(_create(lab, user, _changed(_plain_pod(), forged), namespace=NOT_ALLOWED), "by the Fairlead operator alone")


async def test_a_tenant_may_delete_a_mover_and_not_change_it(lab: Lab) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        name = receiver["metadata"]["name"]
        for patch in (
            {"metadata": {"annotations": {names.ANNOTATION_INGRESS_BANDWIDTH: "10T"}}},
            {"metadata": {"labels": {names.LABEL_MANAGED_BY: None, names.LABEL_JOB_UID: None}}},
            {"metadata": {"ownerReferences": None}},
            {"metadata": {"finalizers": ["example.org/hold"]}},
        ):
            _refused(_as(lab, TENANT, "patch", "pod", name, "-p", json.dumps(patch)), "by the Fairlead operator alone")
        address = json.dumps({"status": {"podIP": "169.254.169.254", "podIPs": [{"ip": "169.254.169.254"}]}})
        _refused(
            _as(lab, TENANT, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", address), "by the Fairlead operator alone"
        )
        # It is refused twice, and which of the two policies answers is the API server's affair.
        _refused(_as(lab, TENANT, "debug", name, "--image=anything", "--target=mover"), "Fairlead")
        _accepted(_as(lab, TENANT, "delete", "pod", name, "--dry-run=server"))


async def test_the_clusters_own_parts_keep_movers(lab: Lab) -> None:
    async with lab.operator():
        await lab.create_job()
        name = (await lab.appears("receiver"))["metadata"]["name"]
    seen = json.dumps({"metadata": {"annotations": {"seen": "yes"}}})
    _accepted(_as(lab, "system:serviceaccount:kube-system:generic-garbage-collector", "patch", "pod", name, "-p", seen))
    started = json.dumps({"status": {"phase": "Running", "podIP": "127.0.0.9", "podIPs": [{"ip": "127.0.0.9"}]}})
    scheduled = json.dumps({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
    for user, group, status in (("system:node:dtn-b", "system:nodes", started), ("system:kube-scheduler", "anybody", scheduled)):
        _accepted(
            _as(lab, user, f"--as-group={group}", f"--as-group={CONTROLLERS}", "patch", "pod", name, "--subresource=status", "-p", status)
        )
    # A network plugin outside kube-system notes what it did in an annotation of its own, and can change nothing that matters.
    note = json.dumps({"metadata": {"annotations": {"cni.example.org/podIP": "10.0.0.1"}}})
    _accepted(_as(lab, TENANT, "patch", "pod", name, "--subresource=status", "-p", note))
    for annotation in (names.ANNOTATION_EGRESS_BANDWIDTH, names.ANNOTATION_PACING, names.ANNOTATION_NETWORKS):
        patch = json.dumps({"metadata": {"annotations": {annotation: "10T"}}})
        _refused(_as(lab, TENANT, "patch", "pod", name, "--subresource=status", "-p", patch), "by the Fairlead operator alone")


async def test_nobody_holds_a_mover_by_a_finalizer_through_its_status(lab: Lab) -> None:
    async with lab.operator():
        await lab.create_job()
        name = (await lab.appears("receiver"))["metadata"]["name"]
    held, free = (json.dumps({"metadata": {"finalizers": each}}) for each in (["example.org/hold"], None))
    _refused(_as(lab, TENANT, "patch", "pod", name, "--subresource=status", "-p", held), "by the Fairlead operator alone")
    # The garbage collector has one of its own, and a kubelet goes on beside it.
    collector = "system:serviceaccount:kube-system:generic-garbage-collector"
    _accepted(_as(lab, collector, "patch", "pod", name, "--type=merge", "-p", held))
    started = json.dumps({"status": {"phase": "Running"}})
    kubelet = ("system:node:dtn-b", "--as-group=system:nodes", f"--as-group={CONTROLLERS}")
    _accepted(_as(lab, *kubelet, "patch", "pod", name, "--subresource=status", "-p", started))
    _refused(_as(lab, TENANT, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", free), "by the Fairlead operator alone")
    _accepted(_as(lab, collector, "patch", "pod", name, "--type=merge", "-p", free))


async def test_nobody_but_the_scheduler_places_a_mover(lab: Lab) -> None:
    async with lab.operator():
        await lab.create_job()
        name = (await lab.appears("receiver"))["metadata"]["name"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: "10T"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "dtn-b"},
    }
    for path in (f"/api/v1/namespaces/{lab.namespace}/pods/{name}/binding", f"/api/v1/namespaces/{lab.namespace}/bindings"):
        _refused(_as(lab, TENANT, "create", "--raw", path, "-f", "-", stdin=binding), "by the cluster's scheduler alone")


async def test_nobody_takes_the_name_of_a_movers_credentials(lab: Lab) -> None:
    _refused(_create(lab, TENANT, _secret()), "by the Fairlead operator alone")


@pytest.mark.parametrize("arguments", [("exec", "--", "sh"), ("attach",), ("port-forward", "24005")], ids=lambda arguments: arguments[0])
async def test_a_tenant_does_not_get_into_a_mover(lab: Lab, arguments: tuple[str, ...]) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job()
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        verb, *rest = arguments
        _refused(_as(lab, TENANT, verb, receiver["metadata"]["name"], *rest), "nobody may")


async def test_a_tenant_does_not_reach_a_movers_ports_through_the_api_server(lab: Lab) -> None:
    for target in (MOVER, f"{MOVER}:24005", f"http:{MOVER}:24005"):
        path = f"/api/v1/namespaces/{lab.namespace}/pods/{target}/proxy/v1/progress"
        answer = _as(lab, TENANT, "get", "--raw", path)
        assert "nobody may proxy into one" in answer.stderr, answer.stderr


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (_set("spec.hostNetwork", True), "hostNetwork, hostPID and hostIPC"),
        (_set("spec.hostPID", True), "hostNetwork, hostPID and hostIPC"),
        (_set("spec.hostIPC", True), "hostNetwork, hostPID and hostIPC"),
        (_set("spec.volumes", [{"name": "root", "hostPath": {"path": "/"}}]), "hostPath"),
        (_set("spec.containers.0.ports", [{"containerPort": 80, "hostPort": 80}]), "host ports"),
        (_set("spec.containers.0.securityContext", {"privileged": True}), "privilege"),
        (_set("spec.containers.0.securityContext", {"capabilities": {"add": ["SYS_ADMIN"]}}), "capabilities"),
        (_set("spec.containers.0.securityContext", {"capabilities": {"add": ["NET_RAW"]}}), "capabilities"),
        (_set("spec.containers.0.securityContext", {"seccompProfile": {"type": "Unconfined"}}), "Unconfined"),
        (_set("spec.initContainers", [{"name": "i", "image": "i", "securityContext": {"privileged": True}}]), "spec.initContainers"),
        (_set("spec.securityContext", {"seccompProfile": {"type": "Unconfined"}}), "Unconfined"),
        (_set("spec.securityContext", {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]}), "sysctls"),
        (_set("spec.securityContext", {"seLinuxOptions": {"type": "spc_t"}}), "SELinux"),
        (_set("spec.containers.0.securityContext", {"seLinuxOptions": {"type": "spc_t"}}), "SELinux"),
        (_set("spec.containers.0.livenessProbe", {"httpGet": {"host": "127.0.0.1", "port": 10250}}), "probes of other hosts"),
    ],
)
async def test_a_tenants_pod_gets_no_access_to_the_node_where_movers_may(lab: Lab, access: Change, words: str) -> None:
    _refused(_create(lab, TENANT, _changed(_plain_pod(), access)), words)
    # The policy is about the namespaces that an administrator listed, and leaves the others to their Pod Security level.
    _accepted(_create(lab, TENANT, _changed(_plain_pod(), access), namespace=NOT_ALLOWED))


async def test_plain_pods_run_where_movers_may(lab: Lab) -> None:
    _accepted(_create(lab, TENANT, _plain_pod()))
    for harmless in (
        _set("spec.containers.0.securityContext", {"capabilities": {"add": ["NET_BIND_SERVICE"]}}),
        _set("spec.containers.0.livenessProbe", {"httpGet": {"port": 8080}}),
        _set("spec.securityContext", {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]}),
    ):
        _accepted(_create(lab, TENANT, _changed(_plain_pod(), harmless)))


async def test_a_debug_container_gets_no_privilege_where_movers_may_run(lab: Lab) -> None:
    _accepted(_as(lab, TENANT, "create", "-f", "-", stdin=_plain_pod()))
    answer = _as(lab, TENANT, "debug", "plain", "--image=anything", "--profile=sysadmin", "--target=main")
    _refused(answer, "spec.ephemeralContainers")


async def test_the_operators_account_may_make_a_mover(lab: Lab) -> None:
    _accepted(_create(lab, OPERATOR, _mover()))
    _accepted(_create(lab, OPERATOR, _secret()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("metadata.labels", {}), "that a TransferJob owns"),
        (_set("metadata.ownerReferences", []), "that a TransferJob owns"),
        (_set("metadata.ownerReferences", [_owner("another-uid")]), "that a TransferJob owns"),
        (_set("spec.containers.0.image", "attacker/image"), "images of the chart"),
        (_set("spec.containers.0.command", ["sh"]), "own entry points"),
        (_set("spec.initContainers", [{"name": "i", "image": "attacker/image"}]), "images of the chart"),
        (_set("spec.automountServiceAccountToken", True), "service account's token"),
        (_set("spec.volumes", [{"name": "root", "hostPath": {"path": "/"}}]), "no volumes but"),
        (_set("spec.volumes", [{"name": "s", "secret": {"secretName": "admin-token"}}]), "no volumes but"),
        (
            _set("spec.volumes", [{"name": "t", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}]),
            "no volumes but",
        ),
        (_set("spec.hostPID", True), "no other processes of the node"),
        (_set("spec.nodeName", "mgmt"), "service account's token"),
        (_set("spec.containers.0.securityContext", {"privileged": True}), "without root, privilege"),
        (_set("spec.containers.0.securityContext.capabilities", {"drop": ["ALL"], "add": ["NET_ADMIN"]}), "without root, privilege"),
        (_set("spec.containers.0.securityContext.runAsUser", 0), "without root, privilege"),
        (_set("spec.securityContext", {}), "without root, privilege"),
        (_set("spec.containers.0.ports", [{"containerPort": 6443, "hostPort": 6443}]), "24000-25999"),
        (
            _set("spec.containers.0.env", [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "admin", "key": "token"}}}]),
            "in their environment",
        ),
        (_set("spec.containers.0.env", [{"name": "LD_PRELOAD", "value": "/data/x.so"}]), "in their environment"),
        (_set("spec.containers.0.envFrom", [{"secretRef": {"name": "admin"}}]), "in their environment"),
        (_set("spec.containers.0.lifecycle", {"postStart": {"exec": {"command": ["sh"]}}}), "own entry points"),
        (_set("spec.containers.0.livenessProbe", {"exec": {"command": ["sh"]}}), "own entry points"),
        (_set("spec.securityContext.seccompProfile", {"type": "Unconfined"}), "without root, privilege"),
        (_set("spec.securityContext.seLinuxOptions", {"type": "spc_t"}), "without root, privilege"),
        (_set(f"metadata.labels.{names.LABEL_ROLE.replace('.', '~')}", "receiver"), "by their label and by their name"),
        (_set("spec.volumes.0.persistentVolumeClaim.readOnly", False), "mount their claim read-only"),
        (_set("spec.securityContext.fsGroup", 100), "change no group of its files"),
    ],
)
async def test_the_operators_account_makes_nothing_but_movers(lab: Lab, change: Change, words: str) -> None:
    _refused(_create(lab, OPERATOR, _changed(_mover(), change)), words)


async def test_the_operators_account_uses_the_host_network_only_where_it_is_allowed(lab: Lab) -> None:
    _refused(_create(lab, OPERATOR, _mover(), namespace="kube-system"), "hostNetwork.namespaces")
    _refused(_create(lab, OPERATOR, _mover(), namespace=NOT_ALLOWED), "hostNetwork.namespaces")


async def test_the_operators_account_changes_annotations_of_movers_alone(lab: Lab) -> None:
    async with lab.operator():
        await lab.create_job()
        name = (await lab.appears("receiver"))["metadata"]["name"]
    _accepted(_as(lab, OPERATOR, "annotate", "pod", name, "kubernetes.io/ingress-bandwidth=1M", "--overwrite", "--dry-run=server"))
    for patch in (
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.org/hold"]}},
        {"spec": {"containers": [{"name": "mover", "image": "attacker/image"}]}},
    ):
        _refused(_as(lab, OPERATOR, "patch", "pod", name, "-p", json.dumps(patch)), "change annotations of its pods")
    _accepted(_as(lab, TENANT, "create", "-f", "-", stdin=_plain_pod()))
    _refused(_as(lab, OPERATOR, "annotate", "pod", "plain", "a=b"), "that a TransferJob owns")
    _refused(_as(lab, OPERATOR, "delete", "pod", "plain"), "that a TransferJob owns")


async def test_the_operators_account_lets_a_mover_be_placed_and_changes_nothing_beside(lab: Lab) -> None:
    mover = _mover()
    mover["spec"]["schedulingGates"] = [{"name": names.GATE_RECORDED}]
    _accepted(_as(lab, OPERATOR, "create", "-f", "-", stdin=mover))
    release = {"schedulingGates": None}
    for beside in (
        {"containers": [{"name": "mover", "image": "attacker/image"}]},
        {"nodeSelector": {"kubernetes.io/hostname": "victim"}},
        {"activeDeadlineSeconds": 1},
    ):
        patch = json.dumps({"spec": {**release, **beside}})
        _refused(_as(lab, OPERATOR, "patch", "pod", MOVER, "--type=strategic", "-p", patch), "let them be placed")
    _refused(_as(lab, TENANT, "patch", "pod", MOVER, "--type=merge", "-p", json.dumps({"spec": release})), "denied request")
    _accepted(_as(lab, OPERATOR, "patch", "pod", MOVER, "--type=merge", "-p", json.dumps({"spec": release})))


@pytest.mark.parametrize(
    "change",
    [
        _set("type", "kubernetes.io/service-account-token"),
        _set("immutable", False),
        _set("metadata.name", "anything"),
        _set("metadata.ownerReferences", []),
    ],
    ids=["type", "mutable", "name", "owner"],
)
async def test_the_operators_account_makes_no_secrets_but_credentials(lab: Lab, change: Change) -> None:
    secret = _changed(_secret(), change)
    if secret["type"] != "Opaque":
        secret["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    _refused(_create(lab, OPERATOR, secret), "credentials of a TransferJob's attempt")


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"runAsUser": 1000, "runAsGroup": 500}, "securityContext.runAsUser is 1000, and allowed is 10000-10999"),
        ({"runAsUser": 11000, "runAsGroup": 500}, "securityContext.runAsUser is 11000"),
        ({"runAsGroup": 0}, "securityContext.runAsGroup is 0, and allowed is 10000-10999, 500 in namespace narrow"),
        ({}, "securityContext.runAsGroup is 65532"),
        ({"runAsGroup": 500, "supplementalGroups": [500, 7]}, "securityContext.supplementalGroups: allowed is 10000-10999, 500"),
        ({"runAsGroup": 500, "fsGroup": 500}, "securityContext.fsGroup is 500, and allowed is 10000 in"),
    ],
)
async def test_a_job_with_an_id_outside_its_namespaces_ranges_is_refused(lab: Lab, context: KubeObject, words: str) -> None:
    job = transfer_job(NARROW, "job", network="Pod", securityContext=context)
    _refused(_create(lab, TENANT, job, namespace=NARROW), words)
    _accepted(_create(lab, TENANT, transfer_job(lab.namespace, "job", network="Pod", securityContext=context)))


@pytest.mark.parametrize("context", [{"runAsGroup": 500}, {"runAsUser": 10999, "runAsGroup": 10000, "supplementalGroups": [500]}])
async def test_a_job_within_its_namespaces_ranges_is_accepted(lab: Lab, context: KubeObject) -> None:
    job = transfer_job(NARROW, "job", network="Pod", securityContext=context)
    _accepted(_create(lab, TENANT, job, namespace=NARROW))


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"runAsUser": 0}, "runAsUser: allowed is 10000-10999"),
        ({"runAsUser": 65532}, "runAsUser: allowed is 10000-10999"),
        ({"runAsGroup": 0}, "runAsGroup and supplementalGroups: allowed is 10000-10999, 500"),
        ({"supplementalGroups": [0]}, "runAsGroup and supplementalGroups: allowed is 10000-10999, 500"),
        ({"fsGroup": 500}, "fsGroup: allowed is 10000"),
    ],
)
async def test_the_operators_account_makes_no_mover_with_an_id_outside_the_namespaces_ranges(
    lab: Lab, context: KubeObject, words: str
) -> None:
    receiver = _mover()
    receiver["metadata"]["name"] = names.child_name("run42", UID, "receiver", 1)
    receiver["metadata"]["labels"][names.LABEL_ROLE] = "receiver"
    receiver["spec"] |= {"hostNetwork": False, "containers": [receiver["spec"]["containers"][0] | {"ports": []}]}
    receiver["spec"]["securityContext"] |= {"runAsUser": 10000, "runAsGroup": 500}
    _accepted(_create(lab, OPERATOR, receiver, namespace=NARROW))
    receiver["spec"]["securityContext"] |= context
    _refused(_create(lab, OPERATOR, receiver, namespace=NARROW), words)


async def test_a_user_that_an_administrator_does_not_allow_any_more_gets_no_mover(lab: Lab) -> None:
    lab.options["identities"] = json.dumps({"namespaces": {lab.namespace: {"users": ["10000-10999"]}}})
    async with lab.operator():
        await lab.create_job()
        stalled = await lab.condition("Stalled")
        assert stalled["reason"] == "IdentityNotAllowed"
        assert "securityContext.runAsUser is 65532, and allowed is 10000-10999" in stalled["message"]
        assert await lab.pods() == []


async def test_a_job_that_names_no_user_runs_as_its_namespaces_default(lab: Lab) -> None:
    lab.options["identities"] = json.dumps({"namespaces": {lab.namespace: {"users": ["10000-10999"], "defaultUser": 10007}}})
    async with lab.operator():
        await lab.create_job()
        assert (await lab.appears("receiver"))["spec"]["securityContext"]["runAsUser"] == 10007


async def test_the_priority_of_the_charts_own_pods_is_for_nobody_else(lab: Lab) -> None:
    for name in ("fairlead-operator", "fairlead-guard"):
        _refused(_create(lab, TENANT, _changed(_plain_pod(), _set("spec.priorityClassName", name))), "for the pods of Fairlead itself")
        _refused(_create(lab, OPERATOR, _changed(_mover(), _set("spec.priorityClassName", name))), "Fairlead")
    _accepted(_create(lab, TENANT, _changed(_plain_pod(), _set("spec.priorityClassName", "bulk"))))
    urgent = _changed(_mover(), _set("spec.priorityClassName", "system-node-critical"))
    _refused(_create(lab, OPERATOR, urgent), "no priority of the cluster's own parts")
