"""Tables that a narrow window shows with one cell below the other."""

import re

from fairlead_dev.site.hooks import titled

PROSE = "It is the rate that the job gets in any case, whatever the others of its tenant may want at that time."


def table(titles: list[str], *rows: list[str]) -> str:
    head = "".join(f'<th style="text-align: left;">{title}</th>\n' for title in titles)
    body = "".join("<tr>\n" + "".join(f"<td>{cell}</td>\n" for cell in row) + "</tr>\n" for row in rows)
    return f"<table>\n<thead>\n<tr>\n{head}</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table>"


def test_each_cell_of_a_table_of_prose_has_its_title() -> None:
    html = titled(table(["field", "<code>type</code>", 'a "default"'], ["a", "b", PROSE], ["c", "d", ""]))
    assert html.startswith("<table data-prose>")
    assert re.findall(r'<td data-title="([^"]*)">', html) == ["field", "type", "a &quot;default&quot;"] * 2


def test_a_table_of_figures_and_one_of_two_columns_stay_as_they_are() -> None:
    for kept in (table(["row", "value", "unit"], ["a", "1.5", "Gb/s"]), table(["field", "meaning"], ["a", PROSE]), table(["a", "b", "c"])):
        assert titled(kept) == kept
