"""Boxes, arrows and text of a drawing, as SVG. Positions and sizes are in pixels, from the upper left corner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.sax.saxutils import escape

LINE_HEIGHT = 17
_FONT = "font-family='system-ui, Segoe UI, Helvetica, Arial, sans-serif'"
INK, QUIET = "#24313a", "#5a6b75"
FILLS = {"blue": "#dce9f5", "green": "#dff0e0", "orange": "#fbe6cf", "grey": "#eef1f3", "white": "#ffffff"}
Fill = Literal["blue", "green", "orange", "grey", "white"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A rectangle that was drawn; arrows begin and end at the middles of its sides."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.width, self.y + self.height / 2


@dataclass
class Drawing:
    """A picture under way. `title` is read out by screen readers."""

    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def box(
        self, at: tuple[float, float], size: tuple[float, float], lines: Sequence[str], fill: Fill = "white", *, head: bool = False
    ) -> Frame:
        """A box with centred lines, the first in bold; with `head` they stand at its top, and there is room for boxes within."""
        (x, y), (width, height) = at, size
        self._parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='6' fill='{FILLS[fill]}' stroke='{QUIET}'/>"
        )
        middle = y + 20 if head else y + height / 2 - (len(lines) - 1) * LINE_HEIGHT / 2 + 5
        for number, line in enumerate(lines):
            self.text((x + width / 2, middle + number * LINE_HEIGHT), line, bold=number == 0)
        return Frame(x, y, width, height)

    def text(self, at: tuple[float, float], words: str, *, anchor: str = "middle", bold: bool = False, quiet: bool = False) -> None:
        """One line of text."""
        weight, colour = (" font-weight='600'" if bold else ""), (QUIET if quiet else INK)
        self._parts.append(
            f"<text x='{at[0]:g}' y='{at[1]:g}' text-anchor='{anchor}' {_FONT} font-size='13' fill='{colour}'{weight}>"
            f"{escape(words)}</text>"
        )

    def arrow(self, *points: tuple[float, float], both: bool = False, dashed: bool = False) -> None:
        """A line through the points with a head at its end, or at both."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        start, dash = (" marker-start='url(#head)'" if both else ""), (" stroke-dasharray='5 4'" if dashed else "")
        self._parts.append(
            f"<polyline points='{path}' fill='none' stroke='{INK}' stroke-width='1.4'{dash}{start} marker-end='url(#head)'/>"
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False) -> None:
        """A plain line."""
        dash = " stroke-dasharray='6 4'" if dashed else ""
        self._parts.append(
            f"<line x1='{start[0]:g}' y1='{start[1]:g}' x2='{end[0]:g}' y2='{end[1]:g}' stroke='{INK}' stroke-width='1.4'{dash}/>"
        )

    def render(self) -> str:
        """The whole file."""
        head = (
            "<marker id='head' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='8' markerHeight='8' orient='auto-start-reverse'>"
            f"<path d='M 0 0 L 10 5 L 0 10 z' fill='{INK}'/></marker>"
        )
        frame = f"<rect width='{self.width}' height='{self.height}' rx='8' fill='#ffffff'/>"
        size = f"width='{self.width}' height='{self.height}' viewBox='0 0 {self.width} {self.height}'"
        return "\n".join(
            [
                f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img'>",
                f"<title>{escape(self.title)}</title>",
                f"<defs>{head}</defs>",
                frame,
                *self._parts,
                "</svg>\n",
            ]
        )
