"""What somebody can do who has stolen the token of the operator's account."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from typing import Any

from control_plane import find_programs
from lab import eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Answer, Site, plain_pod

ACCOUNT = "fairlead-system:fairlead"
OPERATOR = f"system:serviceaccount:{ACCOUNT}"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:fairlead-system")


def _as_operator(site: Site, *arguments: str, stdin: dict[str, Any] | None = None, namespace: str = "") -> Answer:
    return site.as_user(OPERATOR, *arguments, stdin=stdin, namespace=namespace, groups=GROUPS)


async def _mover(site: Site) -> dict[str, Any]:
    """A receiver as the operator made it: what the account is there for works."""
    async with site.operator():
        await site.create_job()
        pod = await site.appears("receiver")
    return dict(pod)


async def _is_refused_beside_the_real_one(site: Site, judge: Judge, change: Callable[[dict[str, Any]], None]) -> None:
    """Concludes from a pod like the operator's own with one change."""
    made = await _mover(site)
    metadata = made["metadata"]
    kept = {key: metadata[key] for key in ("name", "labels", "annotations", "ownerReferences") if key in metadata}
    spec = {key: value for key, value in made["spec"].items() if key not in ("nodeName", "tolerations", "serviceAccountName")}
    again = {"name": kept["name"].removesuffix("-1") + "-2", "labels": {**kept["labels"], "fairlead.io/attempt": "2"}}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **again}, "spec": copy.deepcopy(spec)}
    unchanged = _as_operator(site, "create", "--dry-run=server", "-f", "-", stdin=pod)
    assert unchanged.accepted, unchanged
    change(pod)
    answer = _as_operator(site, "create", "--dry-run=server", "-f", "-", stdin=pod)
    judge(answer.refused_by_policy, str(answer))


@gains("runs any program with any mount on a node of the control plane")
async def attack_with_a_pod_in_kube_system(site: Site, judge: Judge) -> None:
    """The thief makes a plain pod in kube-system."""
    await _mover(site)
    answer = _as_operator(site, "create", "--dry-run=server", "-f", "-", stdin=plain_pod("thief"), namespace="kube-system")
    judge(answer.refused_by_policy or answer.forbidden, str(answer))


@gains("is root on any node")
async def attack_with_a_privileged_mover(site: Site, judge: Judge) -> None:
    """The thief makes a mover that is privileged."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("runs any program on the nodes' network")
async def attack_with_a_mover_of_another_image(site: Site, judge: Judge) -> None:
    """The thief makes a mover that runs another image."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["image"] = "registry.example/thief"

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("runs any program that the mover's image has")
async def attack_with_a_mover_of_another_command(site: Site, judge: Judge) -> None:
    """The thief makes a mover with a command of their own."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["command"] = ["sh", "-c", "anything"]

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("reads a Secret that the account may not read")
async def attack_with_a_mover_that_mounts_a_secret(site: Site, judge: Judge) -> None:
    """The thief makes a mover that mounts another Secret of the namespace."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["volumes"].append({"name": "stolen", "secret": {"secretName": "admin-token"}})

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("acts as another account of the namespace")
async def attack_with_a_mover_that_has_an_accounts_token(site: Site, judge: Judge) -> None:
    """The thief makes a mover with a service account and its token."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"] |= {"serviceAccountName": "builder", "automountServiceAccountToken": True}

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("reads and writes the disk of any node")
async def attack_with_a_mover_that_mounts_the_node(site: Site, judge: Judge) -> None:
    """The thief makes a mover that mounts the node's root."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["volumes"].append({"name": "root", "hostPath": {"path": "/"}})

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("has the token of any account written out")
async def attack_with_a_secret_for_another_accounts_token(site: Site, judge: Judge) -> None:
    """The thief makes a Secret of the kind into which the cluster writes an account's token."""
    pod = await _mover(site)
    name = pod["metadata"]["name"].replace("-receiver-1", "-credentials-7")
    metadata = {"name": name, "ownerReferences": pod["metadata"]["ownerReferences"]}
    metadata["annotations"] = {"kubernetes.io/service-account.name": "default"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/service-account-token"}
    answer = _as_operator(site, "create", "--dry-run=server", "-f", "-", stdin=secret)
    judge(answer.refused_by_policy or answer.forbidden, str(answer))


@gains("runs any program in a mover that runs already")
async def attack_by_another_image_in_a_running_mover(site: Site, judge: Judge) -> None:
    """The thief patches the image of a mover."""
    name = (await _mover(site))["metadata"]["name"]

    def patch(change: dict[str, Any]) -> Answer:
        return _as_operator(site, "patch", "pod", name, "--type=strategic", "-p", json.dumps(change), "--dry-run=server")

    answer = patch({"spec": {"containers": [{"name": "mover", "image": "registry.example/thief"}]}})
    judge(answer.refused_by_policy or answer.forbidden, str(answer))
    capped = patch({"metadata": {"annotations": {"kubernetes.io/egress-bandwidth": "1G"}}})
    assert capped.accepted, capped


@gains("stops any program of the cluster")
async def attack_by_deleting_pods_of_others(site: Site, judge: Judge) -> None:
    """The thief deletes and patches a tenant's own pod, which is no mover."""
    await _mover(site)
    assert site.as_tenant("create", "-f", "-", stdin=plain_pod()).accepted
    for arguments in (("delete", "pod", "plain"), ("annotate", "pod", "plain", "a=b")):
        answer = _as_operator(site, *arguments, "--dry-run=server")
        judge(answer.refused_by_policy or answer.forbidden, str(answer))


@gains("reads every password and key of the cluster")
async def attack_by_reading_secrets(site: Site, judge: Judge) -> None:
    """The thief lists, gets and watches Secrets, in the job's namespace, kube-system and everywhere."""
    await _mover(site)
    for namespace in (site.namespace, "kube-system"):
        for arguments in (("get", "secrets"), ("get", "secret", "any"), ("get", "secrets", "--watch-only", "--request-timeout=60s")):
            answer = _as_operator(site, *arguments, namespace=namespace)
            judge(answer.forbidden, str(answer))
    answer = _as_operator(site, "get", "secrets", "--all-namespaces")
    judge(answer.forbidden, str(answer))


@gains("becomes an administrator")
async def attack_by_granting_oneself_rights(site: Site, judge: Judge) -> None:
    """The thief binds the account to cluster-admin, widens its own role, and asks for another account's token."""
    await _mover(site)
    role = json.dumps([{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}}])
    for arguments in (
        ("create", "clusterrolebinding", "thief", "--clusterrole=cluster-admin", f"--user={OPERATOR}", "--dry-run=server"),
        ("create", "rolebinding", "thief", "--clusterrole=cluster-admin", f"--user={OPERATOR}", "--dry-run=server"),
        ("patch", "clusterrole", "fairlead", "--type=json", "-p", role, "--dry-run=server"),
        ("create", "token", "default"),
        ("delete", "validatingadmissionpolicy", "--all", "--dry-run=server"),
    ):
        answer = _as_operator(site, *arguments)
        judge(answer.forbidden, str(answer))


@gains("enters any pod of the cluster")
async def attack_by_entering_pods(site: Site, judge: Judge) -> None:
    """The thief opens a shell in a mover, attaches to it, forwards a port and reads its log."""
    name = (await _mover(site))["metadata"]["name"]
    forward = ("create", "--raw", f"/api/v1/namespaces/{site.namespace}/pods/{name}/portforward", "-f", "/dev/null")
    for arguments in (("exec", name, "--", "sh"), ("attach", name), forward, ("logs", name)):
        answer = _as_operator(site, *arguments)
        judge(answer.refused_by_policy or answer.forbidden, str(answer))


@gains("writes to a volume as whoever owns its files")
async def attack_with_a_mover_as_root(site: Site, judge: Judge) -> None:
    """The thief makes a mover that runs as user 0."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["securityContext"] |= {"runAsUser": 0, "runAsNonRoot": True}

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("has every other pod of a node pushed out")
async def attack_with_a_mover_of_the_highest_priority(site: Site, judge: Judge) -> None:
    """The thief makes a mover with the priority of the cluster's own parts."""

    def change(pod: dict[str, Any]) -> None:
        pod["spec"]["priorityClassName"] = "system-node-critical"
        pod["spec"].pop("priority", None)
        pod["spec"].pop("preemptionPolicy", None)

    await _is_refused_beside_the_real_one(site, judge, change)


@gains("starts movers on any claim of a namespace that the operator does not serve")
async def attack_in_a_namespace_that_is_not_a_tenants(site: Site, judge: Judge) -> None:
    """An administrator has the operator serve one namespace, and the thief makes a mover and a Secret in another."""
    made = await _mover(site)
    await _serves_alone(site)
    try:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": copy.deepcopy(made["metadata"]), "spec": copy.deepcopy(made["spec"])}
        for unwanted in ("namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"):
            pod["metadata"].pop(unwanted, None)
        pod["metadata"]["name"] = pod["metadata"]["name"].removesuffix("-1") + "-2"
        pod["spec"] = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "tolerations", "serviceAccountName")}
        own = _as_operator(site, "create", "--dry-run=server", "-f", "-", stdin=pod)
        assert own.accepted, own
        pod["spec"]["hostNetwork"] = False
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
            container["ports"] = []
        answer = _as_operator(site, "create", "--dry-run=server", "-f", "-", stdin=pod, namespace="default")
        judge(answer.forbidden and not answer.refused_by_policy, str(answer))
        listed = _as_operator(site, "get", "pods", namespace="kube-system")
        judge(listed.forbidden, str(listed))
    finally:
        site.kubectl("delete", "rolebinding", "-n", site.namespace, "fairlead-tenants", "--ignore-not-found")
        everywhere = ("create", "clusterrolebinding", "fairlead-tenants", "--clusterrole=fairlead-tenants", f"--serviceaccount={ACCOUNT}")
        site.kubectl(*everywhere, check=False)


async def _serves_alone(site: Site) -> None:
    """The rights that the chart makes for this namespace alone; without such a value the chart's own stay."""
    rights = _rights_in(site)
    if not rights:
        return
    site.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=rights)
    site.kubectl("delete", "clusterrolebinding", "fairlead-tenants")

    async def in_force() -> bool:
        elsewhere = _as_operator(site, "auth", "can-i", "list", "pods", namespace="kube-system")
        own = _as_operator(site, "auth", "can-i", "list", "pods")
        return own.accepted and not elsewhere.accepted

    await eventually(in_force, "the rights of one namespace")


def _rights_in(site: Site) -> str:
    """What the chart renders with the site's namespace as the only tenant's; empty for a chart without that value."""
    words = ("template", "fairlead", str(site.target.chart), "--namespace", "fairlead-system", "--kube-version", "1.34.0")
    value = ("--set", f"tenantNamespaces={{{site.namespace}}}", "--show-only", "templates/rbac.yaml")
    rendered = subprocess.run([str(find_programs()["helm"]), *words, *value], capture_output=True, text=True, check=False)
    return "" if rendered.returncode else rendered.stdout
