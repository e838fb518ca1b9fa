"""Every suite has the shared Hypothesis profile, and a skip that nobody expects fails."""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, settings

from fairlead_dev.suites import EXPECTED_SKIPS

pytest_plugins = ["pytester"]

SKIPPED_TEST = "import pytest\n\ndef test_it():\n    pytest.skip('needs root')\n"
SKIPPED_FILE = "import pytest\n\npytest.skip('needs root', allow_module_level=True)\n"


def test_properties_have_no_deadline_and_print_what_reproduces_a_failure() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert settings.default.print_blob
    assert HealthCheck.too_slow in settings.default.suppress_health_check


@pytest.mark.parametrize("content", [SKIPPED_TEST, SKIPPED_FILE], ids=["test", "file"])
@pytest.mark.parametrize("expected_skips", ["", "needs a cluster"])
def test_a_skip_fails_where_it_is_not_expected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, content: str, expected_skips: str
) -> None:
    monkeypatch.setenv(EXPECTED_SKIPS, expected_skips)
    pytester.makepyfile(content)
    outcomes = pytester.runpytest_inprocess("-p", "no:asyncio").parseoutcomes()
    assert set(outcomes) <= {"failed", "error", "errors"}
    assert sum(outcomes.values()) == 1


@pytest.mark.parametrize("expected_skips", [None, "needs (root|a cluster)"])
def test_a_skip_is_one_where_it_is_expected_or_nobody_asks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, expected_skips: str | None
) -> None:
    monkeypatch.delenv(EXPECTED_SKIPS, raising=False)
    if expected_skips is not None:
        monkeypatch.setenv(EXPECTED_SKIPS, expected_skips)
    pytester.makepyfile(SKIPPED_TEST)
    assert pytester.runpytest_inprocess("-p", "no:asyncio").parseoutcomes() == {"skipped": 1}


def test_the_garbage_collector_passes_over_what_was_collected_before_the_first_test() -> None:
    assert gc.get_freeze_count() > 0
