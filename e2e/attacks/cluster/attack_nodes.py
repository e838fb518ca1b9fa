"""Pods of a tenant on real nodes that imitate, enter or replace movers, or take what is the node's."""

from __future__ import annotations

import json

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.tenant import IMAGE, Tenant, answer, as_mover_of, pod, wait_output
from e2e.lib import history
from e2e.lib.job import Job, port_of
from e2e.lib.lab import Lab
from e2e.lib.waiting import WaitedTooLongError
from fairlead_dev.clients.kubectl import Object
from fairlead_dev.clients.volumes import MOVER_ID

LONG_ENOUGH_S = 60.0
"""A job of this size that nobody disturbs has succeeded much sooner."""
SLOW = {"limit": "8M"}
IDLE = "import time; print('runs', flush=True); time.sleep(3600)"
_LISTEN = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("listens", flush=True)
while True:
    peer = server.accept()[0]
    print("was reached by", peer.getpeername(), flush=True)
"""


def _succeeds(job: Job) -> bool:
    try:
        job.wait_for(lambda seen: history.is_true(seen, "Succeeded"), "success", LONG_ENOUGH_S)
    except WaitedTooLongError:
        return False
    return True


def _slow_job(lab: Lab) -> Job:
    """A job in mid-transfer."""
    lab.write(lab.source, "plain", bytes_total=40_000_000)
    job = lab.submit(bandwidth=SLOW)
    job.wait_phase("Transferring")
    return job


def _name_of(mover: Object | None) -> str:
    assert mover is not None
    return str(mover["metadata"]["name"])


def _finishes(lab: Lab, job: Job) -> None:
    job.patch(bandwidth=None)
    job.wait_succeeded()
    lab.assert_equal()


@gains("is believed as the receiver of the job's next attempt, and keeps it from starting")
def attack_with_a_receiver_in_the_place_of_a_deleted_one(lab: Lab, judge: Judge) -> None:
    """A receiver is deleted in mid-transfer, and a stranger's pod waits on its port under the name of the next attempt's receiver."""
    job = _slow_job(lab)
    receiver = job.pod("receiver")
    port = port_of(receiver, "data")
    tenant = Tenant(lab)
    stranger = pod("stranger", lab.destination.node, "", hostNetwork=True)
    stranger["spec"]["containers"][0]["command"] = ["python3", "-c", _LISTEN, str(port)]
    forged = as_mover_of(job.object, "receiver", 2, stranger)
    made = tenant.creates(forged)
    if not made.accepted:
        assert made.refused_by_policy, made.text
        lab.kubectl.run("create", "-f", "-", namespace=lab.namespace, stdin=json.dumps(forged))
    deleted = tenant.does("delete", "pod", _name_of(receiver), "--force", "--grace-period=0")
    assert deleted.accepted, deleted.text
    job.wait_for(lambda seen: seen.get("status", {}).get("attempts", 0) >= 2, "a second attempt")
    job.patch(bandwidth=None)
    succeeded = _succeeds(job)
    judge(succeeded, f"the job: {' '.join(job.phases)}; the tenant's pod: {made.text}")
    if succeeded:
        lab.assert_equal()


@gains("the node's network and its files")
def attack_with_a_pod_on_the_nodes_network(lab: Lab, judge: Judge) -> None:
    """A tenant of a namespace whose movers may use the nodes' network runs a pod of its own there, with a folder of the node."""
    read = "import os; print('interfaces', sorted(os.listdir('/sys/class/net')), 'shadow' in os.listdir('/node/etc'), flush=True)"
    tenant = Tenant(lab)
    taken = pod("taken", lab.source.node, read, hostNetwork=True, volumes=[{"name": "node", "hostPath": {"path": "/"}}])
    taken["spec"]["containers"][0]["volumeMounts"] = [{"name": "node", "mountPath": "/node", "readOnly": True}]
    made = tenant.creates(taken)
    judge(made.refused_by_policy, wait_output(lab, "taken", "interfaces") if made.accepted else made.text)
    ordinary = tenant.creates(pod("ordinary", lab.source.node, IDLE))
    assert ordinary.accepted, ordinary.text
    wait_output(lab, "ordinary", "runs")


@gains("runs any Python on the nodes' network as the advisor")
def attack_exec_into_a_running_advisor(lab: Lab, judge: Judge) -> None:
    """A tenant with every right in the namespace runs Python in the advisor of a transfer that is under way."""
    job = _slow_job(lab)
    enter = ("exec", _name_of(job.pod("sender")), "-c", "advisor", "--", "python3", "-c", "print('i am in')")
    entered = Tenant(lab).does(*enter)
    judge(entered.refused_by_policy or "nobody may" in entered.text, entered.text)
    own = answer(lab, *enter)
    assert own.accepted, f"the administrator gets in: {own.text}"
    _finishes(lab, job)


@gains("the private key of a running sender")
def attack_with_an_ephemeral_container_in_a_mover(lab: Lab, judge: Judge) -> None:
    """A tenant adds a container to a running sender, which looks for the credentials in the mover's root."""
    job = _slow_job(lab)
    sender = _name_of(job.pod("sender"))
    look = "import os; print('found', os.listdir('/proc/1/root/run/fairlead/tls'), flush=True)"
    context = {"runAsUser": MOVER_ID, "runAsGroup": MOVER_ID, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    added = {"name": "debug", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["python3", "-c", look]}
    patch = {"spec": {"ephemeralContainers": [{**added, "securityContext": context, "targetContainerName": "mover"}]}}
    tenant = Tenant(lab)
    add = ("patch", "pod", sender, "--subresource=ephemeralcontainers", "--type=strategic", "-p", json.dumps(patch))
    made = tenant.does(*add)
    judge(made.refused_by_policy, wait_output(lab, sender, "found", "debug") if made.accepted else made.text)
    own = tenant.creates(pod("ordinary", lab.source.node, IDLE))
    assert own.accepted, own.text
    wait_output(lab, "ordinary", "runs")
    allowed = tenant.does("patch", "pod", "ordinary", *add[3:-1], json.dumps(patch).replace('"mover"', '"main"'))
    assert allowed.accepted, allowed.text
    _finishes(lab, job)
