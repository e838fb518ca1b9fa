"""What a tenant with every right in a namespace asks of the API server: to imitate, change or enter movers, or to get at the nodes."""

from __future__ import annotations

import json
from typing import Any

from lab import NODES, eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Answer, Site, plain_pod

GROUP = "fairlead.io"
KIND = "TransferJob"
CAP = "kubernetes.io/egress-bandwidth"
ELSEWHERE = "169.254.169.254"
EDITOR = "eve"
OUTSIDE = "outside"
"""A namespace that no administrator has listed."""


def _one_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "anything", **fields}]}


def _create(site: Site, manifest: dict[str, Any]) -> Answer:
    return site.as_tenant("create", "-f", "-", stdin=manifest)


def _is_refused(site: Site, judge: Judge, pod: dict[str, Any]) -> None:
    """Concludes from the making of a pod; one without what was asked for may be made."""
    answer = _create(site, pod)
    judge(answer.refused_by_policy, str(answer))
    made = _create(site, plain_pod("control"))
    assert made.accepted, made


async def _mover(site: Site) -> str:
    """The receiver that the operator makes for a job of the tenant."""
    async with site.operator():
        await site.create_job()
        receiver = await site.appears("receiver")
    return str(receiver["metadata"]["name"])


def _patch(site: Site, pod: str, patch: dict[str, Any], *options: str) -> Answer:
    return site.as_tenant("patch", "pod", pod, "--type=merge", "-p", json.dumps(patch), *options)


def _own_pod_can_be_patched(site: Site, patch: dict[str, Any], *options: str) -> None:
    made = _create(site, plain_pod())
    assert made.accepted, made
    patched = _patch(site, "plain", patch, *options)
    assert patched.accepted, patched


@gains("has the operator take a pod of one's own for a job's sender")
async def attack_by_a_pod_with_a_movers_labels(site: Site, judge: Judge) -> None:
    """A tenant makes a pod with the labels of a job's sender."""
    uid = (await site.create_job())["metadata"]["uid"]
    pod = plain_pod("forged")
    labels = {"name": "fairlead", "component": "mover", "managed-by": "fairlead-operator"}
    pod["metadata"]["labels"] = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
    pod["metadata"]["labels"] |= {f"{GROUP}/transferjob-uid": uid, f"{GROUP}/role": "sender", f"{GROUP}/attempt": "1"}
    _is_refused(site, judge, pod)


@gains("has the operator take a pod of one's own for a job's sender")
async def attack_by_a_pod_that_a_job_owns(site: Site, judge: Judge) -> None:
    """A tenant makes a pod that names a TransferJob as its owner."""
    uid = (await site.create_job())["metadata"]["uid"]
    pod = plain_pod("forged")
    owner = {"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "name": "job", "uid": uid, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    _is_refused(site, judge, pod)


@gains("keeps a job's sender from being made")
async def attack_by_a_pod_with_a_movers_name(site: Site, judge: Judge) -> None:
    """A tenant makes a pod with the name that a job's sender will get, which follows from the receiver's."""
    receiver = await _mover(site)
    _is_refused(site, judge, plain_pod(receiver.replace("-receiver-", "-sender-")))


@gains("has the credentials of one's own making used by a job")
async def attack_by_a_secret_with_the_name_of_an_attempts_credentials(site: Site, judge: Judge) -> None:
    """A tenant makes the Secret of a job's next attempt before the operator does."""
    name = (await _mover(site)).replace("-receiver-1", "-credentials-2")

    def secret(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "stringData": {"ca.crt": "forged"}}

    answer = _create(site, secret(name))
    judge(answer.refused_by_policy, str(answer))
    made = _create(site, secret("mine"))
    assert made.accepted, made


@gains("sends without a cap")
async def attack_on_the_cap_of_a_mover(site: Site, judge: Judge) -> None:
    """A tenant patches the annotation with the cap of a mover of their own job."""
    patch = {"metadata": {"annotations": {CAP: "10T"}}}
    answer = _patch(site, await _mover(site), patch)
    judge(answer.refused_by_policy, str(answer))
    _own_pod_can_be_patched(site, patch)


@gains("keeps a mover that the operator has forgotten")
async def attack_on_the_labels_and_the_owner_of_a_mover(site: Site, judge: Judge) -> None:
    """A tenant takes the labels, then the owner away from a mover, and adds a finalizer."""
    mover = await _mover(site)
    for patch in (
        {"metadata": {"labels": {f"{GROUP}/transferjob-uid": None, "app.kubernetes.io/managed-by": None}}},
        {"metadata": {"ownerReferences": None}},
        {"metadata": {"finalizers": ["example.org/hold"]}},
    ):
        answer = _patch(site, mover, patch)
        judge(answer.refused_by_policy, str(answer))
    _own_pod_can_be_patched(site, {"metadata": {"labels": {"a": "b"}}})


@gains("has the operator talk to an address of one's choice")
async def attack_on_the_address_of_a_mover(site: Site, judge: Judge) -> None:
    """A tenant writes the address of the cloud's metadata service into a mover's status."""
    patch = {"status": {"podIP": ELSEWHERE, "podIPs": [{"ip": ELSEWHERE}]}}
    answer = _patch(site, await _mover(site), patch, "--subresource=status")
    judge(answer.refused_by_policy, str(answer))
    _own_pod_can_be_patched(site, patch, "--subresource=status")


@gains("places a mover on a node that its volume is not on, or whose links are not its own")
async def attack_on_the_node_of_a_mover(site: Site, judge: Judge) -> None:
    """A tenant binds a mover to another node than the scheduler would."""
    name = await _mover(site)

    def bind(pod: str) -> Answer:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODES[0]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        return site.as_tenant("create", "--raw", f"/api/v1/namespaces/{site.namespace}/pods/{pod}/binding", "-f", "-", stdin=binding)

    answer = bind(name)
    judge(answer.refused_by_policy, str(answer))
    assert _create(site, plain_pod()).accepted
    bound = bind("plain")
    assert bound.accepted, bound


async def _is_not_entered(site: Site, judge: Judge, verb: str, *arguments: str) -> None:
    answer = site.as_tenant(verb, await _mover(site), *arguments)
    judge(answer.refused_by_policy, str(answer))
    assert _create(site, plain_pod()).accepted
    own = site.as_tenant(verb, "plain", *arguments)
    assert not own.refused_by_policy, f"a pod of one's own may be entered: {own}"


@gains("runs commands on the nodes' network, and speaks for the mover")
async def attack_exec_into_a_mover(site: Site, judge: Judge) -> None:
    """A tenant opens a shell in the receiver of their own job."""
    await _is_not_entered(site, judge, "exec", "--", "sh")


@gains("speaks to the mover's process")
async def attack_attach_to_a_mover(site: Site, judge: Judge) -> None:
    """A tenant attaches to the receiver of their own job."""
    await _is_not_entered(site, judge, "attach")


@gains("reaches what listens on the node's loopback")
async def attack_port_forward_through_a_mover(site: Site, judge: Judge) -> None:
    """A tenant forwards a port through the receiver of their own job, which is on the node's network."""

    def forward(pod: str) -> Answer:
        # kubectl itself asks only for pods that run.
        path = f"/api/v1/namespaces/{site.namespace}/pods/{pod}/portforward"
        return site.as_tenant("create", "--raw", path, "-f", "/dev/null")

    answer = forward(await _mover(site))
    judge("nobody may" in str(answer), str(answer))
    assert _create(site, plain_pod()).accepted
    assert "nobody may" not in str(forward("plain"))


@gains("reaches what listens on the node")
async def attack_proxy_through_a_mover(site: Site, judge: Judge) -> None:
    """A tenant reaches a port of the node through the API server's proxy to a mover."""

    def ask(pod: str) -> Answer:
        return site.as_tenant("get", "--raw", f"/api/v1/namespaces/{site.namespace}/pods/{pod}:10250/proxy/")

    answer = ask(await _mover(site))
    # The proxy's errors do not say that it was a policy.
    judge("nobody may proxy" in str(answer), str(answer))
    assert _create(site, plain_pod()).accepted
    assert "nobody may proxy" not in str(ask("plain"))


@gains("runs a program of one's own inside the mover, on the nodes' network")
async def attack_debug_container_in_a_mover(site: Site, judge: Judge) -> None:
    """A tenant adds an ephemeral container to a mover."""
    answer = site.as_tenant("debug", await _mover(site), "--image=anything", "--target=mover", "--profile=baseline")
    judge(answer.refused_by_policy, str(answer))
    assert _create(site, plain_pod()).accepted
    own = site.as_tenant("debug", "plain", "--image=anything", "--target=main", "--profile=baseline")
    assert own.accepted, own


@gains("is on the nodes' network without being a mover")
async def attack_by_a_pod_on_the_nodes_network(site: Site, judge: Judge) -> None:
    """A tenant whose namespace may use the host network makes a pod of their own there."""
    _is_refused(site, judge, plain_pod(hostNetwork=True))


@gains("reads and writes the node's disk")
async def attack_by_a_pod_with_the_nodes_disk(site: Site, judge: Judge) -> None:
    """A tenant whose namespace may use the host network makes a pod that mounts the node's root."""
    _is_refused(site, judge, plain_pod(volumes=[{"name": "root", "hostPath": {"path": "/"}}]))


@gains("is root on the node")
async def attack_by_a_privileged_pod(site: Site, judge: Judge) -> None:
    """A tenant whose namespace may use the host network makes a privileged pod."""
    _is_refused(site, judge, plain_pod(**_one_container(securityContext={"privileged": True})))


@gains("writes packets of any kind onto the nodes' network")
async def attack_by_a_pod_with_raw_sockets(site: Site, judge: Judge) -> None:
    """A tenant whose namespace may use the host network makes a pod with NET_RAW and NET_ADMIN."""
    _is_refused(site, judge, plain_pod(**_one_container(securityContext={"capabilities": {"add": ["NET_RAW", "NET_ADMIN"]}})))


@gains("takes the ports of the nodes, those of movers among them")
async def attack_by_a_pod_with_a_port_of_the_node(site: Site, judge: Judge) -> None:
    """A tenant whose namespace may use the host network makes a pod with a host port of the movers' range."""
    _is_refused(site, judge, plain_pod(**_one_container(ports=[{"containerPort": 24000, "hostPort": 24000}])))


@gains("has the kubelet ask what only the node can reach")
async def attack_by_a_pod_whose_probe_asks_the_node(site: Site, judge: Judge) -> None:
    """A tenant whose namespace may use the host network makes a pod whose probe asks the node's loopback."""
    probe = {"httpGet": {"host": "127.0.0.1", "port": 10250, "path": "/"}}
    _is_refused(site, judge, plain_pod(**_one_container(livenessProbe=probe)))


@gains("uses the nodes' network without an administrator's leave")
async def attack_by_a_job_on_the_nodes_network_where_it_is_not_allowed(site: Site, judge: Judge) -> None:
    """A tenant of a namespace that is not listed makes a job on the nodes' network."""
    job = site.manifest("outside")
    job["metadata"]["namespace"] = OUTSIDE
    answer = site.as_user("system:admin", "create", "--dry-run=server", "-f", "-", stdin=job, namespace=OUTSIDE, groups=["system:masters"])
    judge(answer.refused_by_policy, str(answer))
    made = _create(site, site.manifest("inside"))
    assert made.accepted, made


@gains("has a job taken for done, or its cap for another")
async def attack_on_the_status_of_ones_own_job(site: Site, judge: Judge) -> None:
    """A tenant with the chart's role for editors writes the status of their own job."""
    site.kubectl("-n", site.namespace, "create", "rolebinding", "editor", "--clusterrole=fairlead-edit", f"--user={EDITOR}")
    await site.create_job()
    status = json.dumps({"status": {"phase": "Succeeded", "bandwidth": {"limitBps": 10**13}}})
    answer = site.as_user(EDITOR, "patch", "transferjob", "job", "--subresource=status", "--type=merge", "-p", status)
    judge(answer.forbidden, str(answer))
    spec = json.dumps({"spec": {"suspend": True}})
    changed = site.as_user(EDITOR, "patch", "transferjob", "job", "--type=merge", "-p", spec)
    assert changed.accepted, changed


@gains("uses the nodes' network where the policies have been taken away")
async def attack_while_the_policies_are_off(site: Site, judge: Judge) -> None:
    """An administrator has removed the admission policy about jobs, and a tenant of a namespace that is not listed makes one."""
    name = "fairlead-host-network"
    binding = json.loads(site.kubectl("get", "validatingadmissionpolicybinding", name, "-o", "json").stdout)
    site.kubectl("delete", "validatingadmissionpolicybinding", name)
    try:
        job = site.manifest("unlisted")
        job["metadata"]["namespace"] = OUTSIDE

        async def made() -> bool:
            return site.kubectl("create", "-f", "-", stdin=json.dumps(job), check=False).returncode == 0

        await eventually(made, "the job to be accepted without the policy")
        async with site.operator():
            await site.create_job()
            await site.appears("receiver")

            async def judged() -> Any:
                found = site.kubectl("-n", OUTSIDE, "get", "transferjob", "unlisted", "-o", "json")
                return json.loads(found.stdout).get("status", {}).get("conditions")

            conditions = await eventually(judged, "the operator to look at the job")
        pods = site.kubectl("-n", OUTSIDE, "get", "pods", "-o", "name").stdout.split()
        reasons = sorted({each["reason"] for each in conditions})
        judge(not pods and "HostNetworkNotAllowed" in reasons, f"pods: {pods or 'none'}; {', '.join(reasons)}")
    finally:
        site.kubectl("-n", OUTSIDE, "delete", "transferjob", "unlisted", "--ignore-not-found")
        await _restore(site, binding, job)


async def _restore(site: Site, binding: dict[str, Any], refused: dict[str, Any]) -> None:
    """Puts a policy's binding back for the attacks that follow, and waits until it refuses a job again."""
    binding["metadata"] = {key: binding["metadata"][key] for key in ("name", "labels")}
    made = site.kubectl("create", "-f", "-", stdin=json.dumps(binding), check=False)
    assert made.returncode == 0, made.stderr

    async def in_force() -> bool:
        return site.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(refused), check=False).returncode != 0

    await eventually(in_force, "the policy to be in force again")
