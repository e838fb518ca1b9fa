"""Which policy is in force, and its rules as numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from fairlead.api.fairnesspolicy import FairnessPolicy, FairnessPolicyStatus
from fairlead.api.fairnesspolicy.spec import LINK_HAS_CAPACITY, LINK_IS_ONE_THING, OTHERS, DataInterfaces, Share, SharedLink
from fairlead.api.fairnesspolicy.status import CapacitySource
from fairlead.api.networkpath import NetworkPath
from fairlead.api.reasons import PolicyReason
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.api.shared.resource import ObjectMetadata
from fairlead.core.fairness.model import Participant
from fairlead.core.paths.model import End, PathEnds
from fairlead.core.paths.objects import ends_of_spec

_MOST_NAMED = 5

InterfaceKey = tuple[str, str, str]
"""Node, name and direction."""
EndKey = tuple[str | None, str | None, str]
_TRANSMIT, _RECEIVE = "Transmit", "Receive"


class InvalidPolicyError(ValueError):
    """A policy that cannot be put in force. Its author must change it; the message names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class LinkRule:
    """One shared link: some interfaces, or what lies between the ends of a path."""

    name: str
    interfaces: frozenset[InterfaceKey]
    capacity_bps: float
    headroom_bps: float
    floor_bps: float
    between: PathEnds | None = None
    capacity_source: CapacitySource = "Policy"

    @property
    def available_bps(self) -> float:
        """What jobs may have while nobody else uses the link."""
        return self.capacity_bps - self.headroom_bps


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why a link of the policy cannot be used as long as its NetworkPath is as it is."""

    reason: PolicyReason
    message: str


@dataclass(frozen=True, slots=True)
class TenantRule:
    """One tenant and how many namespaces it has."""

    name: str
    weight: float
    guarantee_bps: float
    limit_bps: float
    namespaces: int = 0


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """A policy in numbers, its selectors resolved. Namespaces missing in `tenant_of` belong to `others`."""

    links: Mapping[str, LinkRule]
    tenants: Mapping[str, TenantRule]
    tenant_of: Mapping[str, str]
    links_by_end: Mapping[EndKey, frozenset[str]]
    """Links by node, interface and direction; with None for the interface those of any."""
    links_by_nodes: Mapping[tuple[str, str], tuple[LinkRule, ...]] = field(default_factory=dict)
    """Links that are paths, by sending and receiving node."""
    unresolved: Mapping[str, Unresolved] = field(default_factory=dict)
    """Links that are not in `links`, or only as they were before."""
    overlaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Namespaces that several tenants select, with those tenants."""
    data_interfaces: tuple[DataInterfaces, ...] = ()
    """Interfaces that an administrator lists beside those of links."""
    named: frozenset[tuple[str, str]] = frozenset()
    """Node and name of the interfaces that links name."""
    _routes: dict[tuple[tuple[End, End], ...], tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What `links_of` has found: a round asks of each job many times, and has rules of its own."""

    def tenant(self, namespace: str) -> TenantRule:
        """The tenant of a namespace."""
        return self.tenants[self.tenant_of.get(namespace, OTHERS)]

    @property
    def without_namespaces(self) -> list[str]:
        """Tenants whose selectors match nothing."""
        return [tenant.name for tenant in self.tenants.values() if tenant.namespaces == 0 and tenant.name != OTHERS]

    def links_of(self, job: Participant) -> tuple[str, ...]:
        """Names of the links that the job crosses, or may cross where an interface is not known or not listed."""
        ends = _ends_of(job)
        known = self._routes.get(ends)
        if known is None:
            routes = [self._route(self._listed(source), self._listed(destination)) for source, destination in ends]
            known = routes[0] if len(routes) == 1 else tuple(sorted({link for route in routes for link in route}))
            self._routes[ends] = known
        return known

    def unlisted_of(self, job: Participant) -> tuple[str, ...]:
        """Those of the job's interfaces that are not listed and for which it counts on other links, in words."""
        found: dict[str, None] = {}
        for own_source, own_destination in _ends_of(job):
            source, destination = self._listed(own_source), self._listed(own_destination)
            if source is own_source and destination is own_destination:
                continue
            route = self._route(source, destination)
            ends = (
                ("source", own_source, self._route(own_source, destination)),
                ("destination", own_destination, self._route(source, own_destination)),
            )
            found |= {f"{end.interface} of node {end.node} ({side})": None for side, end, own_route in ends if own_route != route}
        return tuple(found)

    def shares_at_receiver(self, job: Participant) -> bool:
        """Whether the job shares what its receiver's interface gets."""
        return any(self._links_at(self._listed(destination), _RECEIVE) for _, destination in _ends_of(job))

    def open_bps(self, available_bps: Mapping[str, float]) -> dict[tuple[str, str], float]:
        """By node and name of an interface, what its links leave to all jobs, of `available_bps` by link: the least of them."""
        found: dict[tuple[str, str], float] = {}
        for name, link in self.links.items():
            for node, interface, _ in link.interfaces:
                key = node, interface
                found[key] = min(found.get(key, math.inf), available_bps[name])
        return found

    def interfaces_of(self, job: Participant) -> frozenset[InterfaceKey]:
        """The interfaces that carry the job's data; where one is not known or not listed, all of the node's that are in links."""
        return frozenset().union(
            *(
                self._interfaces_at(self._listed(source), _TRANSMIT) | self._interfaces_at(self._listed(destination), _RECEIVE)
                for source, destination in _ends_of(job)
            )
        )

    def _listed(self, end: End) -> End:
        """The end; without its interface if no link and no list of the policy has that. Names come from tenants and their movers."""
        if end.node is None or end.interface is None or (end.node, end.interface) in self.named:
            return end
        return end if any(each.include(end.node, end.interface) for each in self.data_interfaces) else End(end.node, None)

    def _route(self, source: End, destination: End) -> tuple[str, ...]:
        at_ends = self._links_at(source, _TRANSMIT) | self._links_at(destination, _RECEIVE)
        return tuple(sorted(at_ends | self._links_between(source, destination)))

    def _links_at(self, end: End, direction: str) -> frozenset[str]:
        return self.links_by_end.get((end.node, end.interface, direction), frozenset())

    def _links_between(self, source: End, destination: End) -> frozenset[str]:
        if source.node is None or destination.node is None:
            return frozenset()
        ends = PathEnds(source.node, source.interface, destination.node, destination.interface)
        paths = self.links_by_nodes.get(ends.nodes, ())
        return frozenset(link.name for link in paths if link.between is not None and link.between.may_be(ends))

    def _interfaces_at(self, end: End, direction: str) -> frozenset[InterfaceKey]:
        if end.node is None:
            return frozenset()
        if end.interface is not None:
            return frozenset({(end.node, end.interface, direction)})
        shared = (key for name in self._links_at(end, direction) for key in self.links[name].interfaces)
        return frozenset(key for key in shared if key[0] == end.node and key[2] == direction)


def _ends_of(job: Participant) -> tuple[tuple[End, End], ...]:
    """Source and destination of each of its lanes, or of the job."""
    if not job.lanes:
        return ((job.source, job.destination),)
    return tuple((lane.source, lane.destination) for lane in job.lanes)


def _by_end(links: Iterable[LinkRule]) -> Mapping[EndKey, frozenset[str]]:
    found: dict[EndKey, set[str]] = defaultdict(set)
    for link in links:
        for node, name, direction in link.interfaces:
            found[node, name, direction].add(link.name)
            found[node, None, direction].add(link.name)
    return {end: frozenset(names) for end, names in found.items()}


def _named_by(links: Iterable[LinkRule]) -> Iterator[tuple[str, str]]:
    for link in links:
        yield from ((node, name) for node, name, _ in link.interfaces)
        if link.between is not None:
            path = link.between
            ends = ((path.source_node, path.source_interface), (path.destination_node, path.destination_interface))
            yield from ((node, name) for node, name in ends if name is not None)


def _by_nodes(links: Iterable[LinkRule]) -> Mapping[tuple[str, str], tuple[LinkRule, ...]]:
    found: dict[tuple[str, str], tuple[LinkRule, ...]] = defaultdict(tuple)
    for link in links:
        if link.between is not None:
            found[link.between.nodes] += (link,)
    return dict(found)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that exists. `policy` is None if its spec cannot be read; `problem` is why."""

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
        return Candidate(metadata, _readable_status(body), None, str(error))
    return Candidate(metadata, policy.status, policy)


def _readable_status(body: Mapping[str, Any]) -> FairnessPolicyStatus:
    """The status of a policy whose spec cannot be read; an empty one if that cannot be read either."""
    try:
        return FairnessPolicyStatus.model_validate(body.get("status") or {})
    except ValidationError:
        return FairnessPolicyStatus()


def choose(candidates: Iterable[Candidate]) -> Candidate | None:
    """The policy in force, as it is or as it was: of those that are not being deleted, the oldest."""
    present = [candidate for candidate in candidates if candidate.metadata.deletion_timestamp is None]
    return min(present, key=lambda each: (each.metadata.creation_timestamp, each.metadata.name), default=None)


def read_rules(
    policy: FairnessPolicy,
    namespaces: Mapping[str, Mapping[str, str]],
    paths: Iterable[NetworkPath] = (),
    before: PolicyRules | None = None,
) -> PolicyRules:
    """The policy for namespaces with these labels. Raises InvalidPolicyError: objects may be older than the schema's rules.

    A link whose NetworkPath is not among `paths`, or gives it no capacity, is no error of the policy, since paths come and go: it is
    what it was in `before`, or left out, and named in `Rules.unresolved`.
    """
    links, unresolved = _links(policy, {path.metadata.name: path for path in paths}, before.links if before else {})
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
    return PolicyRules(
        links=links,
        tenants={name: _tenant(path, name, share, sizes[name]) for path, name, share in shares},
        tenant_of=tenant_of,
        links_by_end=_by_end(links.values()),
        links_by_nodes=_by_nodes(links.values()),
        unresolved=unresolved,
        overlaps=overlaps,
        data_interfaces=policy.spec.interfaces,
        named=frozenset(_named_by(links.values())),
    )


def _links(
    policy: FairnessPolicy, paths: Mapping[str, NetworkPath], before: Mapping[str, LinkRule]
) -> tuple[dict[str, LinkRule], dict[str, Unresolved]]:
    links: dict[str, LinkRule] = {}
    unresolved: dict[str, Unresolved] = {}
    for number, link in enumerate(policy.spec.links):
        found = _link(f"spec.links[{number}]", link, paths.get(link.network_path or ""))
        if isinstance(found, LinkRule):
            links[link.name] = found
            continue
        known = before.get(link.name)
        if known is not None:
            links[link.name] = known
        meanwhile = "is not shared" if known is None else "stays as it was"
        unresolved[link.name] = Unresolved(found.reason, f"{found.message}; until then the link {meanwhile}")
    return links, unresolved


def _link(where: str, link: SharedLink, path: NetworkPath | None) -> LinkRule | Unresolved:
    """The link, as far as its path allows it. Raises InvalidPolicyError for what is wrong whatever the path."""
    if (link.interfaces is None) == (link.network_path is None):
        raise InvalidPolicyError(f"{where}: {LINK_IS_ONE_THING}")
    rule = None if link.capacity is None else _rule(where, link, link.capacity)
    if link.network_path is not None:
        return _on_path(where, link, rule, path)
    if rule is None:
        raise InvalidPolicyError(f"{where}: {LINK_HAS_CAPACITY}")
    return rule


def _on_path(where: str, link: SharedLink, rule: LinkRule | None, path: NetworkPath | None) -> LinkRule | Unresolved:
    named = f"link {link.name}: NetworkPath {link.network_path}"
    if path is None:
        return Unresolved(PolicyReason.PATH_NOT_FOUND, f"{named} does not exist: correct networkPath or create it")
    if rule is None:
        # What transfers got there is no capacity: those held by a cap are not counted, so a link by it could only shrink.
        if path.spec.capacity is None:
            return Unresolved(
                PolicyReason.NO_CAPACITY, f"{named} declares no capacity: give the link a capacity or the path its spec.capacity"
            )
        try:
            rule = replace(_rule(where, link, path.spec.capacity), capacity_source="NetworkPath")
        except InvalidPolicyError as error:
            return Unresolved(PolicyReason.NO_CAPACITY, f"{named} declares a capacity of {path.spec.capacity}: {error}")
    return replace(rule, between=ends_of_spec(path.spec))


def _rule(where: str, link: SharedLink, capacity: str) -> LinkRule:
    try:
        capacity_bps = parse_rate(capacity)
        headroom_bps, floor_bps = link.headroom_bps(capacity_bps), link.floor_bps(capacity_bps)
    except RateError as error:
        raise InvalidPolicyError(f"{where} ({link.name}): {error}") from error
    if capacity_bps <= 0:
        raise InvalidPolicyError(f"{where}.capacity is 0: give the link's rate, e.g. 10G")
    if floor_bps <= 0:
        raise InvalidPolicyError(f"{where}.floor is 0: jobs cannot run on nothing; give e.g. 1%")
    if headroom_bps + floor_bps > capacity_bps:
        raise InvalidPolicyError(f"{where}: headroom and floor together exceed capacity: lower one of them")
    interfaces = frozenset((each.node, each.name, each.direction) for each in link.interfaces or ())
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
