"""What keeps Multus from attaching a pod, before there is one and after, and what mends it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from fairlead.api.reasons import MoverReason
from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.spec import Side
from fairlead.core.network import traits_of
from fairlead.core.observed import MoverPod, Observed, Role
from fairlead.core.reports import Verdict

_LACKS_INTERFACE = frozenset({MoverReason.INTERFACE_NOT_FOUND, MoverReason.ADDRESS_IN_USE})
"""Nobody else has ports in the pod: an address that cannot be bound is a link-local one, all that an attachment without IPAM has."""

FASTEST_BUCKET_BPS: Final = 10**12
"""The CNI bandwidth plugin counts its queue, burst and 25 ms at the rate, in bytes of 32 bits: a faster bucket would wrap around."""

_BANDWIDTH = "bandwidth"
"""Type of the plugin that makes token buckets, and the capability by which it is given a pod's rate."""
_WITHOUT_VETH = frozenset({"macvlan", "ipvlan", "vlan", "sriov", "host-device"})
"""Plugins whose interface is no end of a veth pair: the bandwidth plugin refuses to attach a pod that asks for a rate behind them."""

_MOST_WORDS = 240
"""Characters of what Multus says that a message keeps: its last words name the cause."""

_WRAPPING = re.compile(r"^.*failed \(add\): (?:Multus: )?\[[^\]]*\]: (?:.*?failed getting the delegate: (?:\w+: )?)?")
_ADDED_TO = re.compile(r'^error adding container to network "[^"]*": ')
_DEFINITION = re.compile(r"failed \(add\): \[[^\]:]*:(?P<in_config>[^\]]*)\]|network-attachment-definition \((?P<missing>[^)]*)\)")
"""Where Multus names what it was attaching."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """Words by which a failure is recognized, and what mends it. `{name}`, `{namespace}` and `{node}` are filled in."""

    words: re.Pattern[str]
    remedy: str


_CAUSES = (
    _Cause(
        re.compile(r"cannot find a network-attachment-definition|network-attachment-definitions[^ ]* \"[^\"]*\" not found"),
        "create NetworkAttachmentDefinition {name} in namespace {namespace}, or name another one in a new job",
    ),
    _Cause(
        re.compile(r"no IP addresses available|no free addresses|requested IP address .* is not available|is already allocated"),
        "wait until other pods have given their addresses back, ask for another one, or let an administrator widen"
        " the range in the ipam of {name}",
    ),
    _Cause(
        re.compile(r"missing IP config"),
        "the plugin was given no address: the job names attachmentAddresses, for which the config of {name} needs the capability ips, or an"
        " administrator writes addresses into its ipam",
    ),
    _Cause(
        re.compile(r"failed to find plugin|executable file not found"),
        "an administrator installs that CNI plugin on node {node}, or corrects the type in the config of {name}",
    ),
    _Cause(
        re.compile(r"[Ll]ink not found|no such device|failed to lookup"),
        "the interface does not exist on node {node}: an administrator corrects the master in the config of {name}",
    ),
    _Cause(re.compile(r"network is down"), "the interface on node {node} is down: an administrator sets it up"),
    _Cause(
        re.compile(r"veth|bandwidth"),
        "the definition's bandwidth plugin cannot hold a rate behind its first plugin, as behind macvlan: an administrator removes it from"
        " the config of {name}, or the job names a definition of a bridge",
    ),
    _Cause(
        re.compile(r"unmarshal|invalid character|unexpected end of JSON|unexpected EOF|error parsing|missing .type|no plugins"),
        "the config of NetworkAttachmentDefinition {name} cannot be used: an administrator corrects it",
    ),
)
_OTHERWISE = "check the config of NetworkAttachmentDefinition {name} in namespace {namespace}, and that its plugins work on node {node}"


def refuses_rate(config: str) -> str | None:
    """Type of the plugin behind which the config of a NetworkAttachmentDefinition refuses pods that ask for a rate; None where it takes
    a rate or ignores it, and where the config cannot be read.
    """
    try:
        chain = json.loads(config)
    except (ValueError, RecursionError):
        return None
    plugins = chain.get("plugins") if isinstance(chain, dict) else None
    without_veth: str | None = None
    for plugin in plugins if isinstance(plugins, list) else ():
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if kind == _BANDWIDTH:
            capabilities = plugin.get("capabilities")
            if without_veth is not None and isinstance(capabilities, dict) and capabilities.get(_BANDWIDTH) is True:
                return without_veth
        elif isinstance(kind, str) and kind in _WITHOUT_VETH:
            without_veth = kind
    return None


def rate_refusal(end: str, side: Side, name: str, plugin: str, *, has_limit: bool) -> str:
    """What to tell of an end whose pod would ask for a rate that its attachment `name` refuses for `plugin`."""
    field = "attachment" if side.attachments is None else "attachments"
    unlimited = ", or without bandwidth.limit" if has_limit else ""
    return (
        f"{end}.{field} {name}: its config has the plugin bandwidth behind {plugin}, and refuses a pod that asks for a rate, as this job's"
        f" would: an administrator removes that plugin from NetworkAttachmentDefinition {name}, or create the job with a definition of a"
        f" bridge{unlimited}"
    )


def attachment_failure(observed: Observed, pod: MoverPod) -> str | None:
    """What keeps Multus from attaching the pod, in its own words, and the remedy; None where nothing is known to."""
    job, told = observed.job, observed.network_failures.get(pod.uid)
    definitions = _definitions(job, pod)
    if definitions is None or not told:
        return None
    field, names = definitions
    words = _shortened(_ADDED_TO.sub("", _WRAPPING.sub("", told)))
    found = _DEFINITION.search(told)
    # A config may call its network otherwise than the definition is called.
    failed = "" if found is None else found["in_config"] or found["missing"]
    named = failed if failed in names else names[0] if len(names) == 1 else ", ".join(names)
    remedy = next((cause.remedy for cause in _CAUSES if cause.words.search(told)), _OTHERWISE)
    return f"Multus cannot attach {field} {named}: {words}; {remedy.format(name=named, namespace=job.metadata.namespace, node=pod.node)}"


def _shortened(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= _MOST_WORDS else f"… {words[-_MOST_WORDS:]}"


def attachment_remedy(job: TransferJob, pod: MoverPod, verdict: Verdict) -> str:
    """What to add to the message of a mover whose attachment is not there or is down; empty for other failures and on other networks."""
    definitions = _definitions(job, pod)
    if definitions is None:
        return ""
    field, names = definitions
    listed = ", ".join(names)
    if verdict.reason == MoverReason.INTERFACE_DOWN:
        return (
            f"; {field} {listed}: an administrator sets up the interface of node {pod.node} on which the config of"
            f" NetworkAttachmentDefinition {listed} puts it"
        )
    if verdict.reason not in _LACKS_INTERFACE:
        return ""
    again = "" if verdict.retry else ", then create the job again"
    return (
        f"; {field} {listed} has not become an interface with an address in the pod: check that NetworkAttachmentDefinition {listed} is in"
        f" namespace {job.metadata.namespace} and has an ipam, and that Multus runs on node {pod.node}{again}"
    )


def attachment_suspicion(job: TransferJob, pod: MoverPod) -> str:
    """What may keep a placed pod from starting where nothing else explains it; empty on other networks."""
    definitions = _definitions(job, pod)
    if definitions is None or pod.node is None:
        return ""
    field, names = definitions
    listed = ", ".join(names)
    return (
        f"; if Multus cannot attach {field} {listed}, `kubectl describe pod {pod.name}` says why: check that NetworkAttachmentDefinition"
        f" {listed} is in namespace {job.metadata.namespace} and that its plugins work on node {pod.node}"
    )


def _definitions(job: TransferJob, pod: MoverPod) -> tuple[str, tuple[str, ...]] | None:
    """The field that names the attachments of the pod's end, and their names."""
    ends: dict[Role, tuple[str, Side]] = {Role.SENDER: ("source", job.spec.source), Role.RECEIVER: ("destination", job.spec.destination)}
    if not traits_of(job).needs_attachment or pod.role not in ends:
        return None
    end, side = ends[pod.role]
    if not side.named_attachments:
        return None
    return f"{end}.{'attachment' if side.attachments is None else 'attachments'}", side.named_attachments
