"""`kubectl fairlead top`: who has how much of which link, with Jain's index, drawn again every two seconds on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.fairnesspolicy.spec import OTHERS, Share
from fairlead.api.fairnesspolicy.status import LinkStatus, TenantStatus
from fairlead.api.reasons import PolicyConditionType
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.commands.explain.facts import readable
from fairlead.commands.explain.text import plain
from fairlead.kube.client import POLICIES
from fairlead.plugin.cluster import POLL_SECONDS, Exit, Pause, Session
from fairlead.plugin.output import Output

_BAR_CHARACTERS: Final = 20
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
            live.update(drawn(await _in_force(session)), refresh=True)


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


def _links(links: Sequence[LinkStatus]) -> Table:
    table = _table("LINK", "CAPACITY", "FOR JOBS", "GIVEN", "MEASURED", "OTHERS", "", "JOBS", "WAITING", "JAIN")
    for link in links:
        used = _part(link.measured, link.capacity) + _part(link.foreign, link.capacity)
        bar = ProgressBar(total=1.0, completed=min(used, 1.0), width=_BAR_CHARACTERS, complete_style="cyan", finished_style="yellow")
        rates = (link.capacity, link.available, link.allocated, link.measured or "-", link.foreign or "-")
        table.add_row(Text(link.name), *map(_word, rates), bar, _word(link.jobs), _word(link.waiting), _index(link.jain_index))
    return table


def _tenants(policy: FairnessPolicy, tenants: Sequence[TenantStatus]) -> Table:
    table = _table("TENANT", "NAMESPACES", "WEIGHT", "GUARANTEE", "LIMIT", "GIVEN", "MEASURED", "JOBS", "WAITING", "JAIN")
    for tenant in tenants:
        promise = _promise(policy, tenant.name)
        table.add_row(
            Text(tenant.name),
            *map(_word, (tenant.namespaces, promise.weight, promise.guarantee or "-", promise.limit or "-")),
            *map(_word, (tenant.allocated, tenant.measured or "-", tenant.jobs, tenant.waiting)),
            _index(tenant.jain_index),
        )
    return table


def _promise(policy: FairnessPolicy, tenant: str) -> Share:
    """What the policy's spec gives to a tenant."""
    chosen: Share = policy.spec.others
    if tenant != OTHERS:
        chosen = next((each for each in policy.spec.tenants if each.name == tenant), chosen)
    return Share(weight=chosen.weight, guarantee=chosen.guarantee, limit=chosen.limit)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for title in others:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    return table


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
