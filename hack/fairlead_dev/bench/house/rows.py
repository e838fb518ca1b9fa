"""The rows of house.json. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead_dev.bench.house.counts import layer_contracts, lines_by_room, pythonpath_uses
from fairlead_dev.bench.house.names import homonyms, shared_names
from fairlead_dev.bench.house.pages import GLOSSARY, broken_links, missing_paths, orphan_pages, unresolved_citations
from fairlead_dev.bench.house.repository import TrackedTree
from fairlead_dev.bench.rows import Goal, Row, heading, line

FEWEST_CONTRACTS = 4
_NONE = Goal("at_most", 0, of="value")


def house_rows(tree: TrackedTree, before: Mapping[str, int]) -> list[Row]:
    """What must hold first, with everything that offends in `found`, then the lines by room. `before`: the references, by name."""
    texts = tree.texts
    same_names = homonyms(texts, shared_names(texts.get(GLOSSARY, "")))
    must_be_none = {
        "pythonpath_uses": pythonpath_uses(texts),
        "orphan_pages": [str(page) for page in orphan_pages(texts)],
        "broken_links": broken_links(texts, tree.files) + missing_paths(texts, tree.files),
        "homonyms": [f"{name}: {', '.join(map(str, paths))}" for (name, _), paths in same_names.items()],
        "citations_unresolved": unresolved_citations(texts),
    }
    lines = {f"lines_{name}": count for name, count in lines_by_room(texts).items()}
    lines["lines_code_and_tests"] = sum(count for name, count in lines.items() if name != "lines_docs_pages")
    return [
        _row("layer_contracts", layer_contracts(tree.import_contracts), "1", before, goal=Goal("at_least", FEWEST_CONTRACTS, of="value")),
        *(_row(name, len(found), "1", before, found=found, goal=_NONE) for name, found in must_be_none.items()),
        *(_row(name, count, "lines", before) for name, count in lines.items()),
    ]


def _row(
    name: str, value: int, unit: str, before: Mapping[str, int], *, found: Sequence[str] | None = None, goal: Goal | None = None
) -> Row:
    reference = before.get(name)
    ratio = round(value / reference, 4) if reference else None
    return Row(name, value, unit, reference, ratio, more={} if found is None else {"found": list(found)}, goal=goal)


def house_table(rows: Sequence[Row]) -> str:
    """The rows for people, each with what was found beneath it."""
    text = [heading()]
    for row in rows:
        text += [line(row), *(f"    {found}" for found in row.more.get("found", ()))]
    return "\n".join(text)
