//! Tests that cannot run everywhere.

use std::io::Write;

/// Reports that a test cannot run on this machine, and why. Under `make`, which sets `FAIRLEAD_EXPECTED_SKIPS`, the test fails unless
/// an alternative of that expression (`a|b`) is part of the reason: a run must not pass by leaving tests out.
pub(crate) fn skip(why: &str) {
    let expected = std::env::var("FAIRLEAD_EXPECTED_SKIPS");
    let fails = expected.is_ok_and(|expected| !is_expected(&expected, why));
    assert!(!fails, "skipped ({why}), which FAIRLEAD_EXPECTED_SKIPS does not expect");
    // Straight to the stream: the test harness hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

fn is_expected(expected: &str, why: &str) -> bool {
    expected.split('|').any(|part| !part.is_empty() && why.contains(part))
}

#[test]
fn only_a_skip_whose_reason_is_listed_is_expected() {
    assert!(is_expected("needs root|no holes", "the file system has no holes"));
    assert!(!is_expected("", "needs root") && !is_expected("needs roots|", "needs root"));
}
