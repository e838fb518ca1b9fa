"""What all boards have in common: their names, their variables, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from fairlead_dev.boards.panels import SOURCE

TAG: Final = "fairlead"


@dataclass(frozen=True, slots=True)
class BoardName:
    """A board's identifier, which links use, and its title."""

    uid: str
    title: str
    file: str


GOODPUT: Final = BoardName("fairlead-goodput", "Fairlead / Goodput", "goodput.json")
FAIRNESS: Final = BoardName("fairlead-fairness", "Fairlead / Fairness", "fairness.json")
DECISIONS: Final = BoardName("fairlead-decisions", "Fairlead / Decisions", "decisions.json")
OPERATOR: Final = BoardName("fairlead-operator", "Fairlead / Operator", "operator.json")

_QUERIES: Final = {
    "namespace": ("Namespace", "label_values(fairlead_job_info, namespace)"),
    "tenant": ("Tenant", "label_values(fairlead_operator_tenant_jobs, tenant)"),
    "link": ("Link", "label_values(fairlead_operator_link_capacity_bytes_per_second, link)"),
    "node": ("Source node", 'label_values(fairlead_job_info{namespace=~"$namespace"}, source_node)'),
    "job": ("Job", 'label_values(fairlead_job_info{namespace=~"$namespace"}, transferjob)'),
}
"""The variables beside `datasource`: their labels on the board, and the queries for their values."""


def board(name: BoardName, description: str, *variables: str) -> builders.Dashboard:
    """An empty board with the variables of these names and links to all others."""
    made = (
        builders.Dashboard(name.title)
        .uid(name.uid)
        .description(description)
        .tags([TAG])
        .editable()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(_links())
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for each in variables:
        made.with_variable(_variable(each))
    return made


def section(made: builders.Dashboard, title: str, *shown: Builder[dashboard.Panel]) -> None:
    """Adds a heading and the panels below it, from left to right and top to bottom."""
    made.with_row(builders.Row(title))
    for panel in shown:
        made.with_panel(panel)


def decision_link() -> dict[str, Any]:
    """From a row of a table with the columns Namespace and Job to that job's decision."""
    return _row_link("Decision of this job", DECISIONS)


def goodput_link() -> dict[str, Any]:
    """From a row of a table with the columns Namespace and Job to that job's goodput."""
    return _row_link("Goodput of this job", GOODPUT)


def _row_link(title: str, target: BoardName) -> dict[str, Any]:
    chosen = "var-namespace=${__data.fields.Namespace}&var-job=${__data.fields.Job}"
    return {"title": title, "url": f"/d/{target.uid}?{chosen}&${{datasource:queryparam}}&${{__url_time_range}}"}


def _links() -> builders.DashboardLink:
    link = builders.DashboardLink("Fairlead").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(False).include_vars(True).keep_time(True).icon("external link").target_blank(False)


def _variable(name: str) -> builders.QueryVariable:
    label, query = _QUERIES[name]
    every = dashboard.VariableOption(selected=True, text="All", value="$__all")
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": "A"})
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(every)
    )
