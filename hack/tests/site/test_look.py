"""The parts of `make site-look` that need no browser."""

from pathlib import Path

import pytest

from fairlead_dev.site.look import PageSize, main, pages_of, picture_name, search_address, search_trouble


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for page, words in (("", "Fairlead"), ("how-to/share-links/", "a Guarantee of a job"), ("reference/metrics/", "bytes")):
        (tmp_path / page).mkdir(parents=True, exist_ok=True)
        (tmp_path / page / "index.html").write_text(words)
    (tmp_path / "404.html").write_text("nothing")
    (tmp_path / "site.css").write_text("")
    return tmp_path


def test_every_page_is_known_by_its_path_in_the_browser(site: Path) -> None:
    assert pages_of(site) == ["", "404.html", "how-to/share-links/", "reference/metrics/"]


@pytest.mark.parametrize(
    ("page", "name"),
    [("", "front-390.png"), ("reference/metrics/", "reference-metrics-390.png"), ("search", "search-390.png")],
)
def test_a_picture_is_named_after_its_page_and_the_width(page: str, name: str) -> None:
    assert picture_name(page, 390) == name


def test_what_is_searched_goes_into_the_address_whatever_it_has() -> None:
    assert search_address("http://127.0.0.1:1/", "a & b") == "http://127.0.0.1:1/?q=a%20%26%20b"


@pytest.mark.parametrize(
    ("width", "widest", "trouble"),
    [
        (390, [], None),
        (380, [], None),
        (700, [], "/a/ is 700 px wide in a window of 390 px"),
        (700, ["img", "pre.wide"], "/a/ is 700 px wide in a window of 390 px by img, pre.wide"),
    ],
)
def test_a_page_that_is_wider_than_its_window_is_told_with_what_sticks_out(width: int, widest: list[str], trouble: str | None) -> None:
    assert PageSize.of("a/", {"room": 390, "width": width, "height": 900, "widest": widest}).trouble == trouble


@pytest.mark.parametrize(
    ("links", "trouble"),
    [
        ([], "a search for 'guarantee' finds nothing"),
        (["/how-to/share-links/?h=guarantee#why", "/reference/metrics/"], None),
        (["/how-to/share-links/", "/gone/"], "a search for 'guarantee' leads to gone/index.html, which does not exist"),
        (["/reference/metrics/"], "a search for 'guarantee' leads first to reference/metrics/index.html, which does not have it"),
    ],
)
def test_a_search_leads_to_pages_that_exist_and_first_to_one_that_has_the_words(site: Path, links: list[str], trouble: str | None) -> None:
    assert search_trouble([f"http://127.0.0.1:4321{link}" for link in links], site, "guarantee") == trouble


def test_without_a_site_it_says_how_to_build_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--site", str(tmp_path)]) == 2
    assert "`make site` builds it" in capsys.readouterr().err
