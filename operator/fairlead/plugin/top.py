"""`kubectl fairlead top`: who has how much of which link, with Jain's index, drawn again every two seconds on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.fairnesspolicy.spec import OTHERS, Share
from fairlead.api.fairnesspolicy.status import LinkStatus, TenantStatus
from fairlead.api.reasons import PolicyConditionType
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.commands.explain.facts import readable
from fairlead.commands.explain.text import plain
from fairlead.kube.client import POLICIES
from fairlead.plugin.cluster import POLL_SECONDS, Exit, PassingError, Pause, Session
from fairlead.plugin.columns import DrawnCell, FittedColumn, FittedTable, bar
from fairlead.plugin.output import Output, complain

_LINK_COLUMNS: Final = (
    FittedColumn("LINK", least=16),
    FittedColumn("CAPACITY", right=True),
    FittedColumn("FOR JOBS", rank=4, right=True),
    FittedColumn("GIVEN", right=True),
    FittedColumn("MEASURED", right=True),
    FittedColumn("OTHERS", rank=3, right=True),
    FittedColumn("", rank=5, least=8),
    FittedColumn("JOBS", rank=2, right=True),
    FittedColumn("WAITING", rank=1, right=True),
    FittedColumn("JAIN", right=True),
)
_TENANT_COLUMNS: Final = (
    FittedColumn("TENANT", least=16),
    FittedColumn("NAMESPACES", rank=6, right=True),
    FittedColumn("WEIGHT", rank=3, right=True),
    FittedColumn("GUARANTEE", rank=4, right=True),
    FittedColumn("LIMIT", rank=5, right=True),
    FittedColumn("GIVEN", right=True),
    FittedColumn("MEASURED", right=True),
    FittedColumn("JOBS", rank=2, right=True),
    FittedColumn("WAITING", rank=1, right=True),
    FittedColumn("JAIN", right=True),
)
_UNEVEN: Final = 0.9
"""Jain's index below which a link is coloured."""
_NONE: Final = "no FairnessPolicy is in force, so no link is shared by rule; jobs keep to their own spec.bandwidth.limit alone"


async def top(session: Session, output: Output, *, once: bool, pause: Pause = asyncio.sleep) -> Exit:
    """Shows the policy in force until it is interrupted; once where nobody looks at a screen."""
    policy = await _in_force(session)
    if output.as_json:
        output.document(document_of(policy))
        return Exit.DONE
    if once or not output.is_live:
        output.show(drawn(policy))
        return Exit.DONE
    with Live(drawn(policy), console=output.console, auto_refresh=False) as live:
        while True:
            await pause(POLL_SECONDS)
            try:
                live.update(drawn(await _in_force(session)), refresh=True)
            except PassingError as error:
                complain(f"{error}; trying again")


async def _in_force(session: Session) -> FairnessPolicy | None:
    policies = readable(FairnessPolicy, await session.list_all(POLICIES))
    return next((policy for policy in policies if _is_true(policy, PolicyConditionType.ACCEPTED)), None)


def _is_true(policy: FairnessPolicy, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in policy.status.conditions)


def document_of(policy: FairnessPolicy | None) -> dict[str, Any]:
    """The answer for programs: the policy's status as it is, and what each tenant was promised."""
    if policy is None:
        return {"version": 1, "policy": None, "links": [], "tenants": []}
    status = policy.status.to_object()
    return {
        "version": 1,
        "policy": policy.metadata.name,
        "jainIndex": policy.status.jain_index,
        "jobs": policy.status.jobs,
        "waiting": policy.status.waiting,
        "links": status.get("links", []),
        "tenants": [{**tenant, **_promise(policy, tenant["name"]).to_object()} for tenant in status.get("tenants", [])],
        "conditions": status.get("conditions", []),
    }


def drawn(policy: FairnessPolicy | None) -> RenderableType:
    """Two tables, and what is not as it should be."""
    if policy is None:
        return Text(_NONE)
    status = policy.status
    title = Text(f"FairnessPolicy {policy.metadata.name}: {status.jobs or 0} jobs, {status.waiting or 0} waiting, Jain's index ")
    title.append(_index(status.jain_index))
    wrong = [
        Text(f"{each.type} is {each.status} ({each.reason}): {plain(each.message)}", "yellow")
        for each in status.conditions
        if each.status != "True"
    ]
    return Group(title, Text(), _links(status.links), Text(), _tenants(policy, status.tenants), *wrong)


def _links(links: Sequence[LinkStatus]) -> FittedTable:
    def cells(link: LinkStatus) -> list[DrawnCell]:
        used = _part(link.measured, link.capacity) + _part(link.foreign, link.capacity)
        rates = (link.capacity, link.available, link.allocated, link.measured or "-", link.foreign or "-")
        counts = (link.jobs, link.waiting)
        return [_word(link.name), *map(_word, rates), bar(used, "cyan", "yellow"), *map(_word, counts), _index(link.jain_index)]

    return FittedTable(_LINK_COLUMNS, [cells(link) for link in links])


def _tenants(policy: FairnessPolicy, tenants: Sequence[TenantStatus]) -> FittedTable:
    def cells(tenant: TenantStatus) -> list[DrawnCell]:
        promise = _promise(policy, tenant.name)
        promised = (promise.weight, promise.guarantee or "-", promise.limit or "-")
        used = (tenant.allocated, tenant.measured or "-", tenant.jobs, tenant.waiting)
        return [*map(_word, (tenant.name, tenant.namespaces, *promised, *used)), _index(tenant.jain_index)]

    return FittedTable(_TENANT_COLUMNS, [cells(tenant) for tenant in tenants])


def _promise(policy: FairnessPolicy, tenant: str) -> Share:
    """What the policy's spec gives to a tenant."""
    chosen: Share = policy.spec.others
    if tenant != OTHERS:
        chosen = next((each for each in policy.spec.tenants if each.name == tenant), chosen)
    return Share(weight=chosen.weight, guarantee=chosen.guarantee, limit=chosen.limit)


def _word(value: object) -> Text:
    return Text(plain(str(value)))


def _index(text: str | None) -> Text:
    if text is None:
        return Text("-")
    try:
        uneven = float(text) < _UNEVEN
    except ValueError:
        uneven = False
    return Text(plain(text), "yellow" if uneven else "green")


def _part(rate: str | None, whole: str) -> float:
    try:
        return parse_rate(rate) / parse_rate(whole) if rate else 0.0
    except (RateError, ZeroDivisionError):
        return 0.0
