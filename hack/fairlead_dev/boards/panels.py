"""The kinds of panel that the boards are made of, over grafana-foundation-sdk's builders. Rates are shown in bits per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any, Final

from grafana_foundation_sdk.builders import bargauge, stat, table, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
BITS_PER_SECOND: Final = "bps"
BYTES: Final = "bytes"
SECONDS: Final = "s"
RATIO: Final = "percentunit"
COUNT: Final = "short"

GREEN, YELLOW, RED, BLUE, GREY = "green", "yellow", "red", "blue", "#808080"
GRID_WIDTH: Final = 24
_LEAST_COLUMN_PX: Final = 96
"""Of tables: "Guaranteed" and "62.5 Mb/s" fit. A narrower window scrolls them."""

_LONGEST_GAP: Final = "1h"
"""For how long before a time a counter's value then may have been read: scrapes are lost."""

Steps = Sequence[tuple[float | None, str]]
"""Thresholds: from which value on which colour; None for the lowest."""
PLAIN: Final[Steps] = ((None, BLUE),)


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and how its series are named, `{{label}}` standing for a label."""

    expr: str
    legend: str = ""


def once(expr: str, *by: str) -> str:
    """Each value once, told apart `by` these labels alone: a leader and its successor may show the same job or link for a moment."""
    return f"max by ({', '.join(by)}) ({expr})"


def once_by_job(expr: str, *more: str) -> str:
    """Each job's value once, told apart by these labels too."""
    return once(expr, "namespace", "transferjob", *more)


def gained(counter: str, span: str, *by: str) -> str:
    """How often a counter has counted within `span`, by labels. Unlike `increase` it knows a series' first event, and has whole numbers
    but where a process began anew within `span` under the labels that it had. What another one counted that has ended since stays."""
    group = f" by ({', '.join(by)})" if by else ""
    last, before = f"last_over_time({counter}[{span}])", f"last_over_time({counter}[{_LONGEST_GAP}] offset {span})"
    began_anew = f"(increase({counter}[{span}]) and resets({counter}[{span}]) > 0)"
    return f"sum{group} ({began_anew} or ({last} - ({before} <= {last})) or {last})"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: the value of an expression, or a label of the first one."""

    title: str
    """Empty for a value that is not shown."""
    expr: str = ""
    label: str = ""
    unit: str = COUNT
    decimals: int | None = None
    steps: Steps = ()
    gauge: bool = False
    """Drawn as a bar from 0 to 1."""
    width: int | None = None
    links: Sequence[Mapping[str, Any]] = field(default=())


def graph(title: str, description: str, unit: str, *queries: Query, width: int, height: int = 8, **options: Any) -> timeseries.Panel:
    """Values over time. Options: `stacked`, `steps` (thresholds as lines), `least` and `most` of the axis, `usual_most` (what the axis
    reaches to where values are less), `dashed` (names of limits), `nothing` (shown in the place of no series)."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .span(width)
        .height(height)
        .min(options.get("least", 0))
        .line_width(1)
        .fill_opacity(60 if options.get("stacked") else 8)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(False)
        .color_scheme(_color(dashboard.FieldColorModeId.PALETTE_CLASSIC))
        .legend(_legend(["lastNotNull"]))
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
    )
    if "most" in options:
        panel.max(options["most"])
    if "usual_most" in options:
        panel.axis_soft_max(options["usual_most"])
    if "nothing" in options:
        panel.no_value(options["nothing"])
    if options.get("stacked"):
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if options.get("steps"):
        panel.thresholds(_thresholds(options["steps"]))
        panel.thresholds_style(common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED))
    for name in options.get("dashed", ()):
        panel.override_by_regexp(
            f"/{name}/",
            [
                dashboard.DynamicConfigValue("custom.fillOpacity", 0),
                dashboard.DynamicConfigValue("custom.lineWidth", 2),
                dashboard.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 10]}),
                dashboard.DynamicConfigValue("custom.stacking", {"mode": "none", "group": "A"}),
            ],
        )
    for ref, query in zip(ascii_uppercase, queries, strict=False):
        panel.with_target(_range_query(query, ref))
    return panel


def number(title: str, description: str, unit: str, query: Query, *, width: int, height: int = 4, **options: Any) -> stat.Panel:
    """The present value, large. Options: `steps`, `decimals`, `nothing` (shown in the place of no value)."""
    steps = options.get("steps", PLAIN)
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .span(width)
        .height(height)
        .thresholds(_thresholds(steps))
        .color_scheme(_color(dashboard.FieldColorModeId.THRESHOLDS))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .no_value(options.get("nothing", "none"))
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .with_target(_instant_query(query, "A", PromQueryFormat.TIME_SERIES))
    )
    decimals = options.get("decimals", 0 if unit == COUNT else None)
    if decimals is not None:
        panel.decimals(decimals)
    return panel


def bars(title: str, description: str, unit: str, query: Query, *, width: int, height: int = 8, **options: Any) -> bargauge.Panel:
    """The present value of each series as a bar. Options: `steps`, `most` of the scale, `nothing`."""
    panel = (
        bargauge.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .unit(unit)
        .span(width)
        .height(height)
        .min(0)
        .thresholds(_thresholds(options.get("steps", PLAIN)))
        .color_scheme(_color(dashboard.FieldColorModeId.THRESHOLDS))
        .orientation(common.VizOrientation.HORIZONTAL)
        .display_mode(common.BarGaugeDisplayMode.BASIC)
        .show_unfilled(True)
        .sizing(common.BarGaugeSizing.MANUAL)
        .min_viz_height(20)
        .max_viz_height(32)
        .name_placement(common.BarGaugeNamePlacement.LEFT)
        .no_value(options.get("nothing", "none"))
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .with_target(_instant_query(query, "A", PromQueryFormat.TIME_SERIES))
    )
    if "most" in options:
        panel.max(options["most"])
    if unit == COUNT:
        panel.decimals(0)
    return panel


def rows(
    title: str, description: str, *columns: TableColumn, width: int, height: int = 8, sort_by: str, descending: bool = True
) -> table.Panel:
    """A row for each set of labels. Every expression keeps the labels by which rows are told apart; the first may have more."""
    panel = table.Panel().title(title).description(description).datasource(SOURCE).span(width).height(height).show_header(True)
    panel.filterable(True).min_width(_LEAST_COLUMN_PX).color_scheme(_color(dashboard.FieldColorModeId.THRESHOLDS))
    renamed: dict[str, str] = {}
    asked = [column for column in columns if column.expr]
    for ref, column in zip(ascii_uppercase, asked, strict=False):
        panel.with_target(_instant_query(Query(column.expr), ref, PromQueryFormat.TABLE))
        renamed[f"Value #{ref}" if len(asked) > 1 else "Value"] = column.title
    renamed.update({column.label: column.title for column in columns if column.label})
    order = {old: index for index, column in enumerate(columns) for old, new in renamed.items() if new == column.title}
    hidden = {"Time": True} | {old: True for old, new in renamed.items() if not new}
    renamed = {old: new for old, new in renamed.items() if new}
    panel.with_transformation(dashboard.DataTransformerConfig("merge", options={}))
    organize = {"excludeByName": hidden, "indexByName": order, "renameByName": renamed}
    panel.with_transformation(dashboard.DataTransformerConfig("organize", options=organize))
    for column in columns:
        if column.title:
            panel.override_by_name(column.title, _column_properties(column))
    return panel.sort_by([common_builders.TableSortByFieldState().display_name(sort_by).desc(descending)])


def _column_properties(column: TableColumn) -> list[dashboard.DynamicConfigValue]:
    properties = [dashboard.DynamicConfigValue("unit", column.unit)] if column.expr else []
    if column.decimals is not None:
        properties.append(dashboard.DynamicConfigValue("decimals", column.decimals))
    if column.width is not None:
        properties.append(dashboard.DynamicConfigValue("custom.width", column.width))
    if column.steps:
        steps = [{"value": value, "color": color} for value, color in column.steps]
        properties.append(dashboard.DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}))
    if column.gauge:
        properties += [
            dashboard.DynamicConfigValue("min", 0),
            dashboard.DynamicConfigValue("max", 1),
            dashboard.DynamicConfigValue("custom.cellOptions", {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}),
        ]
    elif column.steps:
        properties.append(dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}))
    if column.links:
        properties.append(dashboard.DynamicConfigValue("links", list(column.links)))
    return properties


def _range_query(query: Query, ref: str) -> Dataquery:
    return Dataquery().ref_id(ref).datasource(SOURCE).expr(query.expr).legend_format(query.legend).range()


def _instant_query(query: Query, ref: str, shape: PromQueryFormat) -> Dataquery:
    return Dataquery().ref_id(ref).datasource(SOURCE).expr(query.expr).legend_format(query.legend).format(shape).instant()


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    made = [dashboard.Threshold(value, color) for value, color in steps]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def _legend(calculations: list[str]) -> common_builders.VizLegendOptions:
    legend = common_builders.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
    return legend.display_mode(common.LegendDisplayMode.LIST).calcs(calculations)


def _color(mode: dashboard.FieldColorModeId) -> builders.FieldColor:
    return builders.FieldColor().mode(mode)
