from xml.etree import ElementTree

import pytest

from fairlead_dev.pictures.files import render
from fairlead_dev.pictures.shares import CAPACITY_BPS, HEADROOM, TENANTS, shares_bps
from fairlead_dev.pictures.svg import Drawing

PICTURES = {path.name: text for path, text in render().items()}


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_a_picture_is_an_image_with_a_title_in_which_every_part_lies(name: str) -> None:
    root = ElementTree.fromstring(PICTURES[name])
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert root.findtext("svg:title", namespaces=space)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iterfind("svg:rect", space):
        assert float(box.get("x", 0)) + float(box.attrib["width"]) <= width
        assert float(box.get("y", 0)) + float(box.attrib["height"]) <= height


def test_the_shares_that_are_drawn_are_those_of_the_operator() -> None:
    got = shares_bps()
    assert sum(got.values()) == pytest.approx(CAPACITY_BPS * (1 - HEADROOM))
    drawn = PICTURES["shares.svg"]
    assert all(f">{got[name] / 1e6:g} Mb/s<" in drawn for name, *_ in TENANTS)


def test_text_cannot_break_the_picture() -> None:
    drawing = Drawing(100, 50, "a < b")
    drawing.text((1, 2), "<script>&")
    assert "<script>" not in drawing.render()
    ElementTree.fromstring(drawing.render())
