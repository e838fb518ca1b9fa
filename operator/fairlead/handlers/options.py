"""The operator's command line. Every flag has an environment form, `FAIRLEAD_` and its name, which is what the chart sets."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from fairlead.core.identities import Identities
from fairlead.core.ports import BLOCK, PortRange
from fairlead.core.settings import OperatorSettings
from fairlead.handlers.election import LeasePlace
from fairlead.kube.objects.template import Image, MoverTemplate, PullPolicy, WholeCpus
from fairlead.kube.observe.agents import AgentPlace
from fairlead.pages import read_address

ENVIRONMENT_PREFIX = "FAIRLEAD_"

T = TypeVar("T")


class OptionError(ValueError):
    """A flag or environment variable that cannot be used; the message names it and says what it may be."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where an HTTP server of the operator listens; without a host on every address of both families."""

    host: str
    port: int


BandwidthManagerChoice = Literal["auto", "on", "off"]


@dataclass(frozen=True, slots=True)
class CiliumOptions:
    """Whether Cilium's bandwidth manager is on: as an administrator says, or with `auto` as its ConfigMap says."""

    bandwidth_manager: BandwidthManagerChoice = "off"
    namespace: str = "kube-system"
    config_map: str = "cilium-config"


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the process, given at its start."""

    settings: OperatorSettings
    template: MoverTemplate
    kubeconfig: Path | None
    tenant_namespaces: tuple[str, ...]
    """The only namespaces that are served; every one if empty."""
    workers: int
    resync: timedelta
    metrics: ListenAddress
    health: ListenAddress
    log_format: str
    log_level: str
    lease: LeasePlace | None = None
    """What says which operator leads; None where there is only one."""
    agents: AgentPlace | None = None
    """Where node agents run; None where there are none."""
    cilium: CiliumOptions = field(default_factory=CiliumOptions)


def read_options(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """The options from a command line and the environment, in this order of precedence. Raises OptionError."""
    values = vars(_parser(environment).parse_args(arguments))
    first, last = _convert("ports", _port_range, values["ports"])
    identities = _convert("identities", _identities, values["identities"])
    settings = OperatorSettings(
        host_network_namespaces=frozenset(name.strip() for name in values["host_network_namespaces"].split(",") if name.strip()),
        identities=identities,
        ports=PortRange(first, last, _convert("ports_namespace_percent", _percent, values["ports_namespace_percent"])),
        probe_duration=_seconds_of("probe_seconds", values),
        startup_timeout=_seconds_of("startup_timeout_seconds", values),
        cleanup_timeout=_seconds_of("cleanup_timeout_seconds", values),
        poll_interval=_seconds_of("poll_interval_seconds", values),
        status_interval=_seconds_of("status_interval_seconds", values),
        recheck_interval=_seconds_of("recheck_interval_seconds", values),
        backoff_first=_seconds_of("backoff_first_seconds", values),
        backoff_most=_seconds_of("backoff_most_seconds", values),
        node_guard=_convert("node_guard", _one_of("true", "false"), values["node_guard"]) == "true",
        kueue=_convert("kueue", _one_of("true", "false"), values["kueue"]) == "true",
    )
    defaults = MoverTemplate(mover=Image(""), advisor=Image(""))
    template = MoverTemplate(
        mover=Image(
            _required("mover_image", values), _convert("mover_pull_policy", _one_of(*get_args(PullPolicy)), values["mover_pull_policy"])
        ),
        advisor=Image(
            _required("advisor_image", values),
            _convert("advisor_pull_policy", _one_of(*get_args(PullPolicy)), values["advisor_pull_policy"]),
        ),
        mover_resources=_json("mover_resources", values, dict, defaults.mover_resources),
        advisor_resources=_json("advisor_resources", values, dict, defaults.advisor_resources),
        whole_cpus=_convert("mover_whole_cpus", _whole_cpus, values["mover_whole_cpus"]),
        tolerations=tuple(_json("mover_tolerations", values, list, ())),
        image_pull_secrets=tuple(name.strip() for name in values["image_pull_secrets"].split(",") if name.strip()),
        identities=identities,
        priority_class=values["mover_priority_class"] or None,
        probe_seconds=max(1, round(settings.probe_duration.total_seconds())),
        # A receiver that gave up first would fail an attempt whose sender may still come.
        peer_timeout_seconds=math.ceil(settings.sender_wait.total_seconds()),
    )
    _check_resources(template)
    return Options(
        settings=replace(settings, mover_cpus=template.mover_cpus),
        template=template,
        kubeconfig=Path(values["kubeconfig"]) if values["kubeconfig"] else None,
        tenant_namespaces=tuple(sorted({name.strip() for name in values["tenant_namespaces"].split(",") if name.strip()})),
        workers=_convert("workers", _number_from_one, values["workers"]),
        resync=_seconds_of("resync_seconds", values),
        metrics=_convert("metrics_address", _listen_address, values["metrics_address"]),
        health=_convert("health_address", _listen_address, values["health_address"]),
        log_format=_convert("log_format", _one_of("json", "plain"), values["log_format"]),
        log_level=_convert("log_level", _one_of("debug", "info", "warning"), values["log_level"]),
        lease=_lease(values),
        agents=_agents(values),
        cilium=CiliumOptions(
            _convert("cilium_bandwidth_manager", _one_of(*get_args(BandwidthManagerChoice)), values["cilium_bandwidth_manager"]),
            *_convert("cilium_config", _namespaced_name, values["cilium_config"]),
        ),
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairlead",
        description="Operator for TransferJobs: moves directories between nodes of a cluster.",
        epilog="Every flag can be given as an environment variable, e.g. --mover-image as FAIRLEAD_MOVER_IMAGE. "
        "`fairlead allocate FILE` prints fair shares without a cluster.",
    )

    def flag(name: str, default: str, explanation: str) -> None:
        variable = ENVIRONMENT_PREFIX + name.upper().replace("-", "_")
        parser.add_argument(f"--{name}", default=environment.get(variable) or default, help=f"{explanation} [{default or 'none'}]")

    flag("mover-image", "", "image of the mover")
    flag("mover-pull-policy", "IfNotPresent", "Always, IfNotPresent or Never")
    flag("mover-resources", "", "resources of the mover container, as JSON")
    flag("mover-whole-cpus", "0", "CPUs that the mover of a sender or receiver has alone, in a Guaranteed pod; 0 for no such pods")
    flag("mover-tolerations", "", "tolerations of mover pods, as a JSON list")
    flag("mover-priority-class", "", "priority class of mover pods")
    flag("advisor-image", "", "image of the advisor")
    flag("advisor-pull-policy", "IfNotPresent", "Always, IfNotPresent or Never")
    flag("advisor-resources", "", "resources of the advisor container, as JSON")
    flag("image-pull-secrets", "", "names of pull secrets in the jobs' namespaces, separated by commas")
    flag("host-network-namespaces", "", "namespaces whose jobs may use the nodes' network, separated by commas; * for all")
    flag("tenant-namespaces", "", "the only namespaces that are served, separated by commas; every one without it")
    flag("identities", "", "user and group IDs that movers may have, by namespace, as JSON of the chart value identities")
    flag("ports", "24000-25999", "ports of mover pods on their nodes, first-last")
    flag("ports-namespace-percent", "25", "how much of each node's ports the movers of one namespace may hold, in per cent")
    flag("probe-seconds", "10", "how long the path is sampled before the data starts")
    flag("startup-timeout-seconds", "120", "how long a mover pod may take to become ready")
    flag("cleanup-timeout-seconds", "300", "how long deletion waits for an unreachable destination")
    flag("poll-interval-seconds", "3", "how often the movers of a running job are asked; more rarely where there are thousands")
    flag("status-interval-seconds", "10", "least time between two status writes with progress alone")
    flag("recheck-interval-seconds", "10", "how often something outside a job that keeps it waiting is looked at again")
    flag("backoff-first-seconds", "10", "pause after the first failed attempt")
    flag("backoff-most-seconds", "300", "longest pause between attempts")
    flag("node-guard", "false", "true where the chart's node guard holds caps on the nodes")
    flag("node-agent-namespace", "", "namespace of the node agents; without it none is asked for the counters of interfaces")
    flag("node-agent-service-account", "fairlead-node-agent", "service account of the node agents")
    flag("node-agent-port", "9811", "port of the node agents on their nodes")
    flag("cilium-bandwidth-manager", "off", "whether Cilium's bandwidth manager is on; auto reads it from --cilium-config")
    flag("cilium-config", "kube-system/cilium-config", "namespace and name of the ConfigMap with Cilium's settings")
    flag("kueue", "false", "true to have Kueue decide when jobs run that have the label kueue.x-k8s.io/queue-name")
    flag("lease", "", "namespace and name of the Lease that says which of several operators leads; without it this one is the only one")
    flag("identity", "", "name of this operator on the Lease, which no other process may have; the host's with digits without it")
    flag("kubeconfig", "", "kubeconfig file; without it the pod's service account is used")
    flag("workers", "64", "jobs worked on at the same time")
    flag("resync-seconds", "300", "how often all jobs and pods are listed")
    flag("metrics-address", ":9090", "where /metrics is served; without a host on every address, of IPv4 and IPv6")
    flag("health-address", ":8080", "where /healthz is served, likewise")
    flag("log-format", "json", "json or plain")
    flag("log-level", "info", "debug, info or warning")
    return parser


def _name(option: str) -> str:
    return f"--{option.replace('_', '-')} ({ENVIRONMENT_PREFIX}{option.upper()})"


def _convert(option: str, convert: Callable[[str], T], text: str) -> T:
    try:
        return convert(text)
    except ValueError as error:
        raise OptionError(f"{_name(option)}: {text!r}: {error}") from error


def _required(option: str, values: Mapping[str, str]) -> str:
    if not values[option]:
        raise OptionError(f"{_name(option)}: missing: give the image's full reference, e.g. registry/fairlead-mover:tag")
    return values[option]


def _seconds_of(option: str, values: Mapping[str, str]) -> timedelta:
    return _convert(option, _seconds, values[option])


def _seconds(text: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 7 * 86400:
        raise ValueError("must be a number of seconds above 0 and at most 604800")
    return timedelta(seconds=seconds)


def _number_from_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1024:
        raise ValueError("must be a whole number from 1 to 1024")
    return int(text)


def _whole_cpus(text: str) -> WholeCpus | None:
    if not text.isascii() or not text.isdigit() or int(text) > 1024:
        raise ValueError("must be a whole number up to 1024")
    return WholeCpus(int(text)) if int(text) else None


def _check_resources(template: MoverTemplate) -> None:
    option = "mover_resources"
    try:
        _ = template.moving_resources
        option = "advisor_resources"
        _ = template.advising_resources
    except ValueError as error:
        raise OptionError(f"{_name(option)}: {error}") from error


def _agents(values: Mapping[str, str]) -> AgentPlace | None:
    port = _convert("node_agent_port", _port, values["node_agent_port"])
    if not values["node_agent_namespace"]:
        return None
    return AgentPlace(values["node_agent_namespace"], values["node_agent_service_account"], port)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ValueError("must be a port from 1 to 65535")
    return int(text)


def _percent(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 100:
        raise ValueError("must be a whole number from 1 to 100")
    return int(text)


def _port_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.isdigit() and last.isdigit()):
        raise ValueError("must be two ports, first-last, e.g. 24000-25999")
    if not 1024 <= int(first) <= int(last) - (2 * BLOCK - 1) or int(last) > 65535:
        raise ValueError(f"must lie between 1024 and 65535 and hold at least {2 * BLOCK} ports")
    return int(first), int(last)


def _identities(text: str) -> Identities:
    return Identities.from_object(json.loads(text)) if text else Identities()


def _listen_address(text: str) -> ListenAddress:
    return ListenAddress(*read_address(text))


def _lease(values: Mapping[str, str]) -> LeasePlace | None:
    if not values["lease"]:
        return None
    identity = values["identity"] or f"{platform.node()}_{secrets.token_hex(4)}"
    return LeasePlace(*_convert("lease", _namespaced_name, values["lease"]), identity=identity)


def _namespaced_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError("must be a namespace and a name, e.g. kube-system/cilium-config")
    return namespace, name


def _one_of(*choices: T) -> Callable[[str], T]:
    def choose(text: str) -> T:
        for choice in choices:
            if text == choice:
                return choice
        raise ValueError(f"must be one of {', '.join(map(str, choices))}")

    return choose


def _json(option: str, values: Mapping[str, str], kind: type, default: Any) -> Any:
    text = values[option]
    if not text:
        return default
    wanted = "an object" if kind is dict else "a list of objects"

    def parse(text: str) -> Any:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ValueError(f"must be {wanted} in JSON: {error}") from error
        items = value if isinstance(value, list) else [value]
        if not isinstance(value, kind) or not all(isinstance(item, dict) for item in items):
            raise ValueError(f"must be {wanted} in JSON")
        return value

    return _convert(option, parse, text)
