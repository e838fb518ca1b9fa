import pytest

from fairlead_dev.boards.reading import BoardQuery, LabelQuery, filled, label_query, metrics, panels, queries


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (
            'sum(rate(fairlead_mover_wire_bytes_total{namespace=~"$namespace"}[5m])) by (fairlead_label)',
            {"fairlead_mover_wire_bytes_total"},
        ),
        ("a * on (fairlead_x) group_left (fairlead_y) fairlead_job_info", {"fairlead_job_info"}),
        ("fairlead:link_jain:min - process_resident_memory_bytes", {"fairlead:link_jain:min", "process_resident_memory_bytes"}),
        ('label_values(fairlead_job_info{reason="fairlead_no_metric"}, tenant)', {"fairlead_job_info"}),
        ("time()", set()),
    ],
)
def test_metrics_of_an_expression_are_found_and_labels_are_not_taken_for_them(expr: str, expected: set[str]) -> None:
    assert metrics(expr) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ('a{link=~"$link"}', 'a{link=~"wan"}'),
        ('a{tenant=~"$tenant|"}', 'a{tenant=~".*|"}'),
        ("rate(a[$__rate_interval])", "rate(a[20s])"),
        ("increase(a[$__range])", "increase(a[900s])"),
    ],
)
def test_variables_are_filled_in_as_grafana_does(expr: str, expected: str) -> None:
    assert filled(expr, {"link": "wan"}, range_s=900, rate_interval_s=20) == expected


def test_panels_of_collapsed_rows_count_too() -> None:
    inner = {"type": "stat", "id": 3, "title": "in", "targets": [{"refId": "A", "expr": "up", "instant": True}]}
    outer = {"type": "table", "title": "out", "targets": []}
    board = {"title": "board", "panels": [{"type": "row", "title": "row", "panels": [inner]}, outer]}
    assert [panel["title"] for panel in panels(board)] == ["in", "out"]
    assert queries(board) == [BoardQuery("board", "in", 3, "A", "up", True)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("label_values(a, link)", LabelQuery("a", "link")),
        ('label_values(a{x=~"b, c"}, link)', LabelQuery('a{x=~"b, c"}', "link")),
    ],
)
def test_a_variables_query_is_a_selector_and_a_label(query: str, expected: LabelQuery) -> None:
    assert label_query(query) == expected


@pytest.mark.parametrize("query", ["label_values(link)", "query_result(a)", "label_values(a, link) or b"])
def test_another_form_of_a_variables_query_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match="not of the form"):
        label_query(query)
