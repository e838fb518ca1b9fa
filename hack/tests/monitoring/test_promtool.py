from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_dev.errors import NotAvailableError
from fairlead_dev.monitoring import exposition
from fairlead_dev.promtool import complaints


def test_nothing_is_said_of_what_is_documented() -> None:
    assert complaints(exposition()) == ""


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("# HELP sent_bytes Bytes.\n# TYPE sent_bytes counter\nsent_bytes 1\n", 'counter metrics should have "_total" suffix'),
        ("# TYPE sent_bytes_total counter\nsent_bytes_total 1\n", "no help text"),
        ("# HELP wait_ms Wait.\n# TYPE wait_ms gauge\nwait_ms 1\n", "abbreviated units"),
        ("HTTP/1.1 200 OK\r\n", "parsing error"),
        ("# HELP sent_bytes_total Bytes.\n", "no metrics"),
        ("", "no metrics"),
    ],
)
def test_a_page_that_breaks_the_conventions_is_refused(page: str, said: str) -> None:
    assert said in complaints(page)


def test_without_promtool_there_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotAvailableError, match="make programs"):
        complaints("up 1\n", tmp_path / "promtool")
