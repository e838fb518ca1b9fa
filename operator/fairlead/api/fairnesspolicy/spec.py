"""`FairnessPolicy.spec`: which links are shared, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from fairlead.api.shared.fields import DEFAULT_WEIGHT, FASTEST, HEAVIEST, InterfaceName, ObjectName, RateText
from fairlead.api.shared.quantity import PART_PATTERN, parse_part, parse_rate
from fairlead.api.shared.resource import ApiModel
from fairlead.api.shared.schema import cel, marks

OTHERS: Final = "others"
MOST_LINKS: Final = 1024
"""Name of the tenant of all namespaces that no selector matches."""

NARROWEST: Final = "1M"

Direction = Literal["Transmit", "Receive"]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
PartText = Annotated[str, Field(min_length=1, max_length=20, pattern=PART_PATTERN)]
ShareName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
NodePattern = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9*?]([-a-z0-9.*?]*[a-z0-9*?])?$")]
InterfacePattern = Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[A-Za-z0-9*?][A-Za-z0-9_.*?\-]*$")]
LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]


def _percentage_or_rate(field: str, of_percentage: str = "") -> str:
    """CEL for a field that is a percentage, to whose number `of_percentage` is applied, or a rate in bits per second."""
    number = f"double(self.{field}.substring(0, size(self.{field}) - 1))"
    return f"(self.{field}.endsWith('%') ? {number}{of_percentage} : quantity(self.{field}).asApproximateFloat())"


def _part_of_capacity(field: str) -> str:
    """CEL for bits per second of a field that is a percentage of `capacity` or a rate."""
    return _percentage_or_rate(field, " * quantity(self.capacity).asApproximateFloat() / 100.0")


_GUARANTEE_WITHIN_LIMIT: Final = cel(
    "!has(self.guarantee) || !has(self.limit) || quantity(self.guarantee).compareTo(quantity(self.limit)) <= 0",
    "guarantee must not exceed limit: lower guarantee or raise limit",
)
LINK_IS_ONE_THING: Final = "a link is either interfaces or a networkPath: give exactly one of the two"
LINK_HAS_CAPACITY: Final = "capacity is missing: give it; only a link by networkPath may leave it to the path's spec.capacity"
_LINK_IS_ONE_THING: Final = cel("has(self.interfaces) != has(self.networkPath)", LINK_IS_ONE_THING)
_LINK_HAS_CAPACITY: Final = cel("has(self.capacity) || has(self.networkPath)", LINK_HAS_CAPACITY)
_LINK_LEAVES_SOMETHING: Final = cel(
    "!has(self.capacity)"
    f" || {_part_of_capacity('headroom')} + {_part_of_capacity('floor')} <= quantity(self.capacity).asApproximateFloat()",
    "headroom and floor together exceed capacity: lower one of them",
)
_LINK_HAS_A_FLOOR: Final = cel(
    f"{_percentage_or_rate('floor')} > 0.0",
    "floor must be above 0: jobs cannot run on nothing; give e.g. 1%",
)


class InterfaceDirection(ApiModel):
    """One direction of a node's network interface."""

    node: ObjectName
    """Name of the node."""

    name: InterfaceName
    """Name of the interface on the node."""

    direction: Direction
    """`Transmit` for what senders on the node send, `Receive` for what receivers on it get."""


class DataInterfaces(ApiModel):
    """Interfaces of some nodes that may carry data. In both fields `*` stands for any characters and `?` for one."""

    nodes: Annotated[tuple[NodePattern, ...], Field(min_length=1, max_length=64)] = Field(json_schema_extra=marks(list_type="set"))
    """Names of nodes, or patterns of them, e.g. `dtn-*`."""

    names: Annotated[tuple[InterfacePattern, ...], Field(min_length=1, max_length=32)] = Field(json_schema_extra=marks(list_type="set"))
    """Names of interfaces on those nodes, or patterns of them, e.g. `bond*`."""

    def include(self, node: str, name: str) -> bool:
        """Whether this interface of this node is among them."""
        return any(fnmatchcase(node, pattern) for pattern in self.nodes) and any(fnmatchcase(name, pattern) for pattern in self.names)


class SharedLink(ApiModel):
    """A link that jobs share: an interface, an uplink that several interfaces share, or a path between two nodes."""

    model_config = ConfigDict(json_schema_extra=marks(_LINK_IS_ONE_THING, _LINK_HAS_CAPACITY, _LINK_LEAVES_SOMETHING, _LINK_HAS_A_FLOOR))

    name: ShareName
    """Name of the link, for the status and metrics."""

    interfaces: Annotated[tuple[InterfaceDirection, ...], Field(min_length=1, max_length=32)] | None = Field(
        default=None, json_schema_extra=marks(list_type="map", list_map_keys=("node", "name", "direction"))
    )
    """The interfaces whose traffic crosses the link: a job crosses it if it uses one of them."""

    network_path: ObjectName | None = None
    """Name of the NetworkPath that the link is, instead of `interfaces`: a job crosses it if it leads from the path's source to its
    destination. Others' traffic on a path cannot be counted; `headroom` is all that is left to it."""

    capacity: RateText | None = Field(
        default=None,
        json_schema_extra=marks(
            cel(
                f"quantity(self).compareTo(quantity('{NARROWEST}')) >= 0 && quantity(self).compareTo(quantity('{FASTEST}')) <= 0",
                f"capacity must lie between {NARROWEST} and {FASTEST}: it is in decimal bits per second",
            )
        ),
    )
    """What the link carries, in decimal bits per second, e.g. `10G`. A link by `networkPath` without it has the path's `spec.capacity`."""

    headroom: PartText = "10%"
    """What is always left to others, as a percentage of the capacity or a rate."""

    floor: PartText = "10%"
    """What Fairlead's jobs together keep however much others send, as a percentage of the capacity or a rate."""

    def headroom_bps(self, capacity_bps: int) -> int:
        """The headroom in bits per second on a link of this capacity."""
        return parse_part(self.headroom, capacity_bps)

    def floor_bps(self, capacity_bps: int) -> int:
        """The floor in bits per second on a link of this capacity."""
        return parse_part(self.floor, capacity_bps)


class LabelRequirement(ApiModel):
    """One requirement on a namespace's labels."""

    key: LabelKey
    """Label that the requirement is about."""

    operator: Operator
    """`In`, `NotIn`, `Exists` or `DoesNotExist`."""

    values: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = Field(default=(), json_schema_extra=marks(list_type="atomic"))
    """Values for `In` and `NotIn`; empty for the others."""


class NamespaceSelector(ApiModel):
    """Labels of namespaces; all of it must hold."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=16)] = Field(default_factory=dict)
    """Labels with their values. `kubernetes.io/metadata.name` names a namespace."""

    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=16)] = Field(
        default=(),
        json_schema_extra=marks(
            cel(
                "self.all(e, (e.operator in ['In', 'NotIn']) == (has(e.values) && size(e.values) > 0))",
                "matchExpressions: In and NotIn need values, Exists and DoesNotExist must have none: correct values",
            ),
            list_type="atomic",
        ),
    )
    """Requirements on labels."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a namespace with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _holds(requirement, labels) for requirement in self.match_expressions
        )


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


class Share(ApiModel):
    """What a tenant gets of every link."""

    model_config = ConfigDict(json_schema_extra=marks(_GUARANTEE_WITHIN_LIMIT))

    weight: Annotated[int, Field(ge=1, le=HEAVIEST)] = DEFAULT_WEIGHT
    """Share of the tenant on a link, relative to the other tenants' weights, however many jobs it has there."""

    guarantee: RateText | None = None
    """What its jobs together get on each link in any case, in decimal bits per second."""

    limit: RateText | None = Field(
        default=None,
        json_schema_extra=marks(
            cel(
                f"quantity(self).compareTo(quantity('{NARROWEST}')) >= 0",
                f"limit must be at least {NARROWEST}: it is in decimal bits per second; leave it out for no limit",
            )
        ),
    )
    """Most that its jobs together get on each link, in decimal bits per second. No limit if absent."""

    @property
    def guarantee_bps(self) -> int:
        """The guarantee in bits per second, 0 without one."""
        return 0 if self.guarantee is None else parse_rate(self.guarantee)

    @property
    def limit_bps(self) -> int | None:
        """The limit in bits per second, None without one."""
        return None if self.limit is None else parse_rate(self.limit)


class Tenant(Share):
    """Who shares: the jobs of all namespaces that a selector matches, together."""

    name: ShareName = Field(
        json_schema_extra=marks(
            cel(f"self != '{OTHERS}'", f"name '{OTHERS}' stands for namespaces that no tenant selects: use spec.{OTHERS} for their share")
        )
    )
    """Name of the tenant, for the status and metrics."""

    namespace_selector: NamespaceSelector = Field(
        json_schema_extra=marks(
            cel(
                "has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",
                "namespaceSelector is empty: give matchLabels or matchExpressions",
            )
        )
    )
    """The namespaces whose jobs are the tenant's. Of several tenants that match one, the first in the list has it."""


class FairnessPolicySpec(ApiModel):
    """The links and who shares them."""

    links: Annotated[tuple[SharedLink, ...], Field(min_length=1, max_length=MOST_LINKS)] = Field(
        json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """The links. Traffic of jobs that cross none of them is left alone."""

    interfaces: Annotated[tuple[DataInterfaces, ...], Field(max_length=64)] = Field(default=(), json_schema_extra=marks(list_type="atomic"))
    """The nodes' data interfaces beside those that the links name. A job on one of these that no link names crosses none; a job on any
    other interface, whether its spec or its mover says so, counts on all links of its node."""

    tenants: Annotated[tuple[Tenant, ...], Field(max_length=128)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """The tenants, in the order in which they are asked for a namespace."""

    others: Share = Field(default_factory=Share, json_schema_extra=marks(default=Share().to_object()))
    """The share of all namespaces that no tenant selects, together: they are one tenant named `others`."""
