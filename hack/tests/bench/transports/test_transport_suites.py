from fairlead_dev.bench.transports.suites import result_of, rows_of

CONFORMANCE = """
running 4 tests
test tcp::trees_arrive ... ok
test tcp::a_stall_ends ... ok
test udt::trees_arrive ... ok
test udt::a_stall_ends ... FAILED
"""
INTEROP = """
test libudt_receives ... ok
test libudt_sends ... ignored, not here
"""


def test_the_engine_that_passed_fewest_counts_and_whatever_has_not_passed_is_named() -> None:
    conformance, interop = rows_of(result_of(CONFORMANCE), result_of(INTEROP))
    assert (conformance.value, conformance.reference, conformance.ok) == (1, 2, False)
    assert conformance.more == {"passed": {"tcp": 2, "udt": 1}, "not_passed": {"udt": ["a_stall_ends"]}}
    assert (interop.value, interop.ok, interop.more) == (1, False, {"not_passed": {"": ["libudt_sends"]}})


def test_a_case_that_one_engine_lacks_is_one_that_it_has_not_passed() -> None:
    lacking = CONFORMANCE.replace("test udt::a_stall_ends ... FAILED\n", "")
    assert rows_of(result_of(lacking), result_of(INTEROP))[0].ok is False


def test_all_passed_reaches_the_goals() -> None:
    rows = rows_of(result_of(CONFORMANCE.replace("FAILED", "ok")), result_of(INTEROP.replace("ignored, not here", "ok")))
    assert [row.ok for row in rows] == [True, True]
