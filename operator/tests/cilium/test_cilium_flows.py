"""Which flows the chart's CiliumNetworkPolicies allow, by the policy engine of Cilium itself: `make test-cilium` builds it.

Endpoints have the labels that Cilium keeps of a pod, and what it takes for an identity is decided by its own filter.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
PROGRAM = CHECKOUT / "build" / "bin" / "cilium-policy"
DATA, HTTP, ADVISOR = 24000, 24001, 24002
MOVER = {"app.kubernetes.io/managed-by": "fairlead-operator", "app.kubernetes.io/component": "mover"}
OPERATOR = {"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/instance": "fairlead", "app.kubernetes.io/component": "operator"}
VALUES = {
    "tenantNamespaces": ["astro", "climate"],
    "cilium": {"networkPolicies": True},
    "networkPolicy": {
        "dataFrom": ["198.18.0.0/15"],
        "metricsFrom": [
            {
                "namespaceSelector": {"matchLabels": {"team": "watch"}},
                "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["prometheus", "agent"]}]},
            },
            {"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.128/25"]}},
            {"podSelector": {"matchLabels": {"scraper": "yes"}}},
        ],
    },
}


def _pod(namespace: str, labels: dict[str, str], team: str = "") -> dict[str, Any]:
    about = {"kubernetes.io/metadata.name": namespace} | ({"team": team} if team else {})
    own = {f"io.cilium.k8s.namespace.labels.{key}": value for key, value in about.items()}
    return {"labels": {"io.kubernetes.pod.namespace": namespace, **own, **labels}}


ENDPOINTS: dict[str, dict[str, Any]] = {
    "sender": _pod("astro", {**MOVER, "fairlead.io/role": "sender"}),
    "receiver": _pod("astro", {**MOVER, "fairlead.io/role": "receiver"}),
    "another tenant's mover": _pod("climate", MOVER),
    "a neighbour": _pod("astro", {"app": "notebook"}),
    "a neighbour that scrapes": _pod("astro", {"scraper": "yes"}),
    "a stranger that scrapes": _pod("climate", {"scraper": "yes"}),
    "a mover's double elsewhere": _pod("evil", MOVER),
    "half a mover": _pod("astro", {"app.kubernetes.io/component": "mover"}),
    "the operator": _pod("fairlead-system", OPERATOR),
    "the operator's double": _pod("astro", OPERATOR),
    "another pod beside the operator": _pod("fairlead-system", {"app": "shell"}),
    "prometheus": _pod("monitoring", {"app": "prometheus"}, team="watch"),
    "grafana": _pod("monitoring", {"app": "grafana"}, team="watch"),
    "a double of prometheus": _pod("evil", {"app": "prometheus"}),
    "dns": _pod("kube-system", {"k8s-app": "kube-dns"}),
    "the API server": {"reserved": "kube-apiserver"},
    "another node": {"reserved": "remote-node"},
    "the world": {"cidr": "192.0.2.7/32"},
    "the lab's network": {"cidr": "198.18.4.0/24"},
    "the collector's network": {"cidr": "203.0.113.9/32"},
    "what that leaves out": {"cidr": "203.0.113.200/32"},
}
ALLOWED = {
    ("sender", "receiver", "TCP", DATA),
    ("sender", "receiver", "UDP", DATA),
    ("receiver", "sender", "TCP", DATA),
    ("receiver", "sender", "UDP", DATA),
    *(("the lab's network", mover, protocol, DATA) for mover in ("sender", "receiver") for protocol in ("TCP", "UDP")),
    *(
        (source, mover, "TCP", port)
        for source in ("the operator", "prometheus", "a neighbour that scrapes", "the collector's network")
        for mover in ("sender", "receiver")
        for port in (HTTP, ADVISOR)
    ),
}
"""Every flow of those below that may pass, by both ends' policies."""
PORTS = (("TCP", DATA), ("UDP", DATA), ("TCP", HTTP), ("TCP", ADVISOR), ("UDP", HTTP), ("TCP", 22), ("TCP", 53), ("UDP", 53), ("TCP", 443))
FLOWS = [(source, target, *port) for source, target in itertools.permutations(ENDPOINTS, 2) for port in PORTS]


def _rendered(kind: str) -> list[dict[str, Any]]:
    command = [CHECKOUT / "build/bin/helm", "template", "fairlead", CHECKOUT / "charts/fairlead", "--namespace", "fairlead-system"]
    rendered = subprocess.run(
        [*command, "--kube-version", "1.34.0", "--values", "-"], input=json.dumps(VALUES), capture_output=True, text=True, check=True
    ).stdout
    # That of the operator covers nobody here, and has no counterpart.
    return [
        each
        for each in yaml.safe_load_all(rendered)
        if each and each["kind"] == kind and each["metadata"]["namespace"] in VALUES["tenantNamespaces"]
    ]


def _ask(policies: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    flows = [dict(zip(("from", "to", "protocol", "port"), flow, strict=True)) for flow in FLOWS]
    request = json.dumps({"policies": policies, "endpoints": ENDPOINTS, "flows": flows})
    return subprocess.run([PROGRAM], input=request, capture_output=True, text=True, check=False)


def _verdicts(policies: list[dict[str, Any]]) -> dict[tuple[str, str, str, int], dict[str, bool]]:
    answer = _ask(policies)
    assert answer.returncode == 0, answer.stderr
    return dict(zip(FLOWS, json.loads(answer.stdout), strict=True))


@pytest.fixture(scope="module")
def cilium() -> dict[tuple[str, str, str, int], dict[str, bool]]:
    return _verdicts(_rendered("CiliumNetworkPolicy"))


def test_every_flow_to_or_from_a_tenants_movers_is_refused_unless_it_is_listed(cilium: dict[Any, dict[str, bool]]) -> None:
    passing = {flow for flow, verdict in cilium.items() if verdict["egress"] and verdict["ingress"]}
    concerned = {flow for flow in passing if {"sender", "receiver"} & {flow[0], flow[1]}}
    assert concerned == ALLOWED


def test_movers_reach_nothing_but_receivers(cilium: dict[Any, dict[str, bool]]) -> None:
    reached = {(flow[1], flow[2], flow[3]) for flow, verdict in cilium.items() if flow[0] == "sender" and verdict["egress"]}
    assert reached == {("receiver", "TCP", DATA), ("receiver", "UDP", DATA)}


def test_what_movers_take_in_is_what_the_plain_policies_let_in(cilium: dict[Any, dict[str, bool]]) -> None:
    plain = _verdicts(_rendered("NetworkPolicy"))
    different = {flow for flow in FLOWS if plain[flow]["ingress"] is not cilium[flow]["ingress"]}
    assert different == set()


def test_pods_that_no_policy_covers_are_left_alone(cilium: dict[Any, dict[str, bool]]) -> None:
    assert cilium["a neighbour", "dns", "UDP", 53] == {"egress": True, "ingress": True}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"ingress": [{"toPorts": [{"ports": [{"port": "70000", "protocol": "TCP"}]}]}]}, "70000"),
        ({"ingress": [{"fromEndpoints": [{}], "fromCIDR": ["198.18.0.0/15"]}]}, "ombining"),
    ],
    ids=["a port that cannot be", "sources that cannot be in one rule"],
)
def test_a_policy_that_cilium_would_not_take_is_refused(change: dict[str, Any], refusal: str) -> None:
    (policy, *_) = _rendered("CiliumNetworkPolicy")
    policy["spec"] |= change
    answer = _ask([policy])
    assert answer.returncode == 1
    assert refusal in answer.stderr
