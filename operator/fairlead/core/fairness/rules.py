"""Which policy is in force, and what it says in numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.api.fairnesspolicy import OTHERS, FairnessPolicy, FairnessPolicyStatus, Share, SharedLink
from fairlead.api.quantity import RateError
from fairlead.api.schema import InvalidResourceError, ObjectMetadata
from fairlead.core.ends import End
from fairlead.core.fairness.model import Participant

_MOST_NAMED = 5

InterfaceKey = tuple[str, str, str]
"""Node, name and direction."""
EndKey = tuple[str | None, str | None, str]
_TRANSMIT, _RECEIVE = "Transmit", "Receive"


class InvalidPolicyError(ValueError):
    """A policy that cannot be put in force. Its author must change it; the message names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class LinkRule:
    """One shared link."""

    name: str
    interfaces: frozenset[InterfaceKey]
    capacity_bps: float
    headroom_bps: float
    floor_bps: float

    @property
    def available_bps(self) -> float:
        """What jobs may have while nobody else uses the link."""
        return self.capacity_bps - self.headroom_bps


@dataclass(frozen=True, slots=True)
class TenantRule:
    """One tenant and how many namespaces it has."""

    name: str
    weight: float
    guarantee_bps: float
    limit_bps: float
    namespaces: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """A policy in numbers, its selectors resolved. Namespaces missing in `tenant_of` belong to `others`."""

    links: Mapping[str, LinkRule]
    tenants: Mapping[str, TenantRule]
    tenant_of: Mapping[str, str]
    links_by_end: Mapping[EndKey, frozenset[str]]
    """Links by node, interface and direction; with None for the interface those of any."""
    overlaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Namespaces that several tenants select, with those tenants."""

    def tenant(self, namespace: str) -> TenantRule:
        """The tenant of a namespace."""
        return self.tenants[self.tenant_of.get(namespace, OTHERS)]

    @property
    def without_namespaces(self) -> list[str]:
        """Tenants whose selectors match nothing."""
        return [tenant.name for tenant in self.tenants.values() if tenant.namespaces == 0 and tenant.name != OTHERS]

    def links_of(self, job: Participant) -> tuple[str, ...]:
        """Names of the links that the job crosses, or may cross as long as an interface is not known."""
        return tuple(sorted(self._links_at(job.source, _TRANSMIT) | self._links_at(job.destination, _RECEIVE)))

    def shares_at_receiver(self, job: Participant) -> bool:
        """Whether the job shares what its receiver's interface gets."""
        return bool(self._links_at(job.destination, _RECEIVE))

    def interfaces_of(self, job: Participant) -> frozenset[InterfaceKey]:
        """The interfaces that carry the job's data; where one is not known, all of the node's that are in links."""
        return self._interfaces_at(job.source, _TRANSMIT) | self._interfaces_at(job.destination, _RECEIVE)

    def _links_at(self, end: End, direction: str) -> frozenset[str]:
        return self.links_by_end.get((end.node, end.interface, direction), frozenset())

    def _interfaces_at(self, end: End, direction: str) -> frozenset[InterfaceKey]:
        if end.node is None:
            return frozenset()
        if end.interface is not None:
            return frozenset({(end.node, end.interface, direction)})
        shared = (key for name in self._links_at(end, direction) for key in self.links[name].interfaces)
        return frozenset(key for key in shared if key[0] == end.node and key[2] == direction)


def _by_end(links: Iterable[LinkRule]) -> Mapping[EndKey, frozenset[str]]:
    found: dict[EndKey, set[str]] = defaultdict(set)
    for link in links:
        for node, name, direction in link.interfaces:
            found[node, name, direction].add(link.name)
            found[node, None, direction].add(link.name)
    return {end: frozenset(names) for end, names in found.items()}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that exists. `policy` is None if its spec cannot be read; `problem` says why."""

    metadata: ObjectMetadata
    status: FairnessPolicyStatus
    policy: FairnessPolicy | None
    problem: str = ""


def read_candidate(body: Mapping[str, Any]) -> Candidate:
    """A policy as the API server shows it."""
    metadata = ObjectMetadata.model_validate(body["metadata"])
    try:
        policy = FairnessPolicy.from_object(body)
    except InvalidResourceError as error:
        return Candidate(metadata, FairnessPolicyStatus(), None, str(error))
    return Candidate(metadata, policy.status, policy)


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """The policy in force, as it is or as it was: of those that are not being deleted, the oldest."""
    present = [candidate for candidate in candidates if candidate.metadata.deletion_timestamp is None]
    return min(present, key=lambda each: (each.metadata.creation_timestamp, each.metadata.name), default=None)


def read_rules(policy: FairnessPolicy, namespaces: Mapping[str, Mapping[str, str]]) -> Rules:
    """The policy for namespaces with these labels. Raises InvalidPolicyError: objects may be older than the schema's rules."""
    links = {link.name: _link(number, link) for number, link in enumerate(policy.spec.links)}
    tenant_of: dict[str, str] = {}
    overlaps: dict[str, tuple[str, ...]] = {}
    for name, labels in namespaces.items():
        selected = tuple(tenant.name for tenant in policy.spec.tenants if tenant.namespace_selector.matches(labels))
        if selected:
            tenant_of[name] = selected[0]
        if len(selected) > 1:
            overlaps[name] = selected
    sizes = {tenant.name: 0 for tenant in policy.spec.tenants} | {OTHERS: len(namespaces) - len(tenant_of)}
    for tenant_name in tenant_of.values():
        sizes[tenant_name] += 1
    shares: list[tuple[str, str, Share]] = [
        (f"spec.tenants[{number}]", tenant.name, tenant) for number, tenant in enumerate(policy.spec.tenants)
    ]
    shares.append((f"spec.{OTHERS}", OTHERS, policy.spec.others))
    return Rules(
        links=links,
        tenants={name: _tenant(path, name, share, sizes[name]) for path, name, share in shares},
        tenant_of=tenant_of,
        links_by_end=_by_end(links.values()),
        overlaps=overlaps,
    )


def _link(number: int, link: SharedLink) -> LinkRule:
    path = f"spec.links[{number}]"
    try:
        capacity_bps, headroom_bps, floor_bps = link.capacity_bps, link.headroom_bps, link.floor_bps
    except RateError as error:
        raise InvalidPolicyError(f"{path} ({link.name}): {error}") from error
    if capacity_bps <= 0:
        raise InvalidPolicyError(f"{path}.capacity is 0: give the link's rate, e.g. 10G")
    if floor_bps <= 0:
        raise InvalidPolicyError(f"{path}.floor is 0: jobs cannot run on nothing; give e.g. 1%")
    if headroom_bps + floor_bps > capacity_bps:
        raise InvalidPolicyError(f"{path}: headroom and floor together exceed capacity: lower one of them")
    interfaces = frozenset((each.node, each.name, each.direction) for each in link.interfaces)
    return LinkRule(link.name, interfaces, float(capacity_bps), float(headroom_bps), float(floor_bps))


def _tenant(path: str, name: str, share: Share, namespaces: int) -> TenantRule:
    try:
        limit_bps = math.inf if share.limit_bps is None else float(share.limit_bps)
        guarantee_bps = float(share.guarantee_bps)
    except RateError as error:
        raise InvalidPolicyError(f"{path} ({name}): {error}") from error
    if guarantee_bps > limit_bps:
        raise InvalidPolicyError(f"{path}.guarantee exceeds its limit: lower guarantee or raise limit")
    if limit_bps <= 0.0:
        raise InvalidPolicyError(f"{path}.limit is 0: leave it out, or give a rate, e.g. 2G")
    return TenantRule(name, float(share.weight), guarantee_bps, limit_bps, namespaces)


def some(names: Iterable[str]) -> str:
    """At most a few of the names, for a message."""
    listed = sorted(names)
    rest = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
