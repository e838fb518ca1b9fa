"""The rows of house.json. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead_dev.bench.house.counts import layer_contracts, lines_by_room, pythonpath_uses
from fairlead_dev.bench.house.names import homonyms, shared_names
from fairlead_dev.bench.house.pages import GLOSSARY, broken_links, orphan_pages, unresolved_citations
from fairlead_dev.bench.house.repository import TrackedTree


@dataclass(frozen=True, slots=True)
class HouseRow:
    """A count, the same at the commit before (None if it was not counted there), the goal if there is one, and what was found."""

    name: str
    value: int
    unit: str
    before: int | None
    goal: str = ""
    reached: bool | None = None
    found: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The form that all benches write; `reference` is the count before."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "reference": self.before,
            "ratio": round(self.value / self.before, 4) if self.before else None,
            "goal": self.goal,
            "reached": self.reached,
            "found": list(self.found),
        }


def house_rows(tree: TrackedTree, before: Mapping[str, int]) -> list[HouseRow]:
    """What must hold first, then the lines by room."""
    contracts = layer_contracts(tree.import_contracts)
    same_names = homonyms(tree.texts, shared_names(tree.texts.get(GLOSSARY, "")))
    must_be_none = {
        "pythonpath_uses": pythonpath_uses(tree.texts),
        "orphan_pages": [str(page) for page in orphan_pages(tree.texts)],
        "broken_links": broken_links(tree.texts, tree.files),
        "homonyms": [f"{name}: {', '.join(map(str, paths))}" for (name, _), paths in same_names.items()],
        "citations_unresolved": unresolved_citations(tree.texts),
    }
    lines = {f"lines_{name}": count for name, count in lines_by_room(tree.texts).items()}
    lines["lines_code_and_tests"] = sum(count for name, count in lines.items() if name != "lines_docs_pages")
    return [
        HouseRow("layer_contracts", contracts, "1", before.get("layer_contracts"), ">= 4", contracts >= 4),
        *(HouseRow(name, len(found), "1", before.get(name), "0", not found, tuple(found)) for name, found in must_be_none.items()),
        *(HouseRow(name, count, "lines", before.get(name)) for name, count in lines.items()),
    ]


def house_table(rows: list[HouseRow]) -> str:
    """The rows for people, each with what was found beneath it."""
    text = [f"{'':24} {'now':>8} {'before':>8} {'goal':>6}"]
    for row in rows:
        reached = {True: "yes", False: "NO", None: ""}[row.reached]
        text.append(f"{row.name:24} {row.value:8,} {'-' if row.before is None else f'{row.before:,}':>8} {row.goal:>6} {reached}".rstrip())
        text += [f"    {line}" for line in row.found]
    return "\n".join(text)
