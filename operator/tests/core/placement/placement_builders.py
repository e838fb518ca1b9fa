"""Nodes, wishes and requests for tests of placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_interface
from typing import Any

from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.placement.model import EndWish, Request

GIGABIT = 10**9


def make_interface(name: str, rate_gbps: float | None = 10, *addresses: str, **more: Any) -> NodeInterface:
    rate_bps = None if rate_gbps is None else int(rate_gbps * GIGABIT)
    given = {"carrier": True, "may_carry_data": True, **more}
    return NodeInterface(name=name, rate_bps=rate_bps, addresses=tuple(map(ip_interface, addresses)), **given)


def make_node(name: str, *interfaces: NodeInterface, **more: Any) -> TransferNode:
    given = {"ready": True, "slots": 8, **more}
    return TransferNode(name, interfaces=interfaces or (make_interface("data0"),), **given)


def make_nodes(*nodes: TransferNode) -> Mapping[str, TransferNode]:
    return {node.name: node for node in nodes}


def make_request(uid: str = "job", source: EndWish | None = None, destination: EndWish | None = None, **more: Any) -> Request:
    given = {"namespace": "science", **more}
    return Request(uid, source=source or EndWish(node="dtn-a"), destination=destination or EndWish(node="dtn-b"), **given)


def with_uids(requests: Iterable[Request]) -> dict[str, Request]:
    return {request.uid: request for request in requests}
