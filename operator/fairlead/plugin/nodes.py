"""`kubectl fairlead nodes`: the data transfer nodes, their interfaces and slots, and what to set on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.reasons import DtnConditionType
from fairlead.commands.explain.facts import readable
from fairlead.commands.explain.text import plain
from fairlead.kube.client import DTNS
from fairlead.plugin.cluster import Exit, PluginError, Session
from fairlead.plugin.columns import FittedColumn, FittedTable
from fairlead.plugin.output import Output

_NODE_COLUMNS: Final = (
    FittedColumn("NODE", least=24),
    FittedColumn("SITE", rank=4, least=12),
    FittedColumn("READY"),
    FittedColumn("INTERFACES", rank=2),
    FittedColumn("JOBS"),
    FittedColumn("FREE", rank=3),
    FittedColumn("LOAD", rank=5),
    FittedColumn("TO SET", rank=1),
    FittedColumn("WHY", least=24),
)
_INTERFACE_COLUMNS: Final = (
    FittedColumn("INTERFACE"),
    FittedColumn("RATE"),
    FittedColumn("MTU", rank=2),
    FittedColumn("NUMA", rank=4),
    FittedColumn("CARRIER", rank=1),
    FittedColumn("NETWORK", rank=3, least=12),
    FittedColumn("ADDRESSES", least=20),
)
_NONE: Final = "no data transfer node is described: an administrator turns on the chart value nodeAgent.enabled; jobs run without it too"


async def nodes(session: Session, output: Output, names: Sequence[str]) -> Exit:
    """Shows all nodes on a line each, or those with `names` in full. Raises PluginError if one does not exist."""
    found = sorted(readable(DataTransferNode, await session.list_all(DTNS)), key=lambda node: node.metadata.name)
    if unknown := set(names) - {node.metadata.name for node in found}:
        known = ", ".join(node.metadata.name for node in found) or "none"
        raise PluginError(f"there is no DataTransferNode {', '.join(sorted(unknown))}; there are: {known}")
    chosen = [node for node in found if not names or node.metadata.name in names]
    if output.as_json:
        output.document({"version": 1, "nodes": [_document(node) for node in chosen]})
    elif not chosen:
        output.line(_NONE)
    elif names:
        for node in chosen:
            output.show(in_full(node))
    else:
        output.show(table_of(chosen))
    return Exit.DONE


def _document(node: DataTransferNode) -> dict[str, Any]:
    return {
        "name": node.metadata.name,
        "ready": _status(node, DtnConditionType.READY),
        "spec": node.spec.to_object(),
        "status": node.status.to_object(),
    }


def table_of(nodes: Sequence[DataTransferNode]) -> FittedTable:
    """A line for each node."""
    return FittedTable(_NODE_COLUMNS, [_cells(node) for node in nodes])


def _cells(node: DataTransferNode) -> list[Text]:
    status, summary = node.status, node.status.summary
    ready = _status(node, DtnConditionType.READY)
    condition = next((each for each in status.conditions if each.type == DtnConditionType.READY and each.status != "True"), None)
    return [
        Text(node.metadata.name),
        Text(node.spec.site or "-"),
        Text(ready, "green" if ready == "True" else "red"),
        Text(plain(summary.interfaces) if summary else "-"),
        Text(plain(summary.jobs) if summary else f"{status.jobs or 0}/{node.spec.slots}"),
        Text((plain(summary.free) if summary else "") or "-"),
        Text(status.load or "-"),
        Text(str(len(status.advice)), "yellow" if status.advice else ""),
        Text(f"{condition.reason}: {plain(condition.message)}" if condition else ""),
    ]


def in_full(node: DataTransferNode) -> RenderableType:
    """The node's line, its interfaces, and what to set on it."""
    status = node.status
    parts: list[RenderableType] = [table_of([node]), Text()]
    if status.interfaces:
        rows: list[list[Text]] = []
        for interface in status.interfaces:
            declared = node.spec.declared(interface.name)
            values = (
                interface.name + (" (management)" if interface.management else ""),
                (declared.rate if declared else None) or interface.rate,
                (declared.mtu if declared else None) or interface.mtu,
                interface.numa_node,
                None if interface.carrier is None else "yes" if interface.carrier else "no",
                declared.network if declared else None,
                ", ".join(interface.addresses),
            )
            rows.append([Text("-" if value is None else plain(str(value))) for value in values])
        parts += [FittedTable(_INTERFACE_COLUMNS, rows), Text()]
    for advice in status.advice:
        where = f" on {advice.interface}" if advice.interface else ""
        parts.append(Text(f"{advice.rule}{where}: {plain(advice.found)}; set {plain(advice.recommended)}: {plain(advice.why)}", "yellow"))
        parts.append(Text(f"  {plain(advice.command)}   ({plain(advice.page)})"))
    return Group(*parts)


def _status(node: DataTransferNode, kind: str) -> str:
    return next((each.status for each in node.status.conditions if each.type == kind), "Unknown")
