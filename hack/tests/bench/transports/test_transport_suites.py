import pytest

from fairlead_dev.bench.rows import Row, judged
from fairlead_dev.bench.transports.suites import GOALS, result_of, rows_of
from fairlead_dev.errors import LabError

CONFORMANCE = """
running 4 tests
test tcp::trees_arrive ... ok
test tcp::a_stall_ends ... ok
test udt::trees_arrive ... ok
test udt::a_stall_ends ... FAILED
test support::skip::tests::reasons_are_read ... ok

test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
"""
INTEROP = """
test libudt_receives ... ok
test libudt_sends ... ignored, not here

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s
"""


def judged_rows(conformance: str, interop: str) -> list[Row]:
    return judged(rows_of(result_of(conformance), result_of(interop)), GOALS)


def test_the_engine_that_passed_fewest_counts_and_whatever_has_not_passed_is_named() -> None:
    conformance, interop = judged_rows(CONFORMANCE, INTEROP)
    assert (conformance.value, conformance.reference, conformance.ok) == (1, 2, False)
    assert conformance.more == {"passed": {"tcp": 2, "udt": 1}, "not_passed": {"udt": ["a_stall_ends"]}}
    assert (interop.value, interop.ok, interop.more) == (1, False, {"not_passed": {"": ["libudt_sends"]}})


def test_a_case_that_one_engine_lacks_is_one_that_it_has_not_passed() -> None:
    lacking = CONFORMANCE.replace("test udt::a_stall_ends ... FAILED\n", "").replace("1 failed", "0 failed")
    assert judged_rows(lacking, INTEROP)[0].ok is False


def test_a_suite_that_did_not_come_to_its_end_has_no_result() -> None:
    for cut in (CONFORMANCE.partition("test result")[0], CONFORMANCE.replace("test udt::trees_arrive ... ok\n", "")):
        with pytest.raises(LabError, match="did not come to its end"):
            result_of(cut)


def test_all_passed_reaches_the_goals() -> None:
    rows = judged_rows(CONFORMANCE.replace("FAILED", "ok"), INTEROP.replace("ignored, not here", "ok"))
    assert [row.ok for row in rows] == [True, True]
