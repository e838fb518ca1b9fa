//! What was checked before any byte of data, as the verdict and the pages show it.

use fairlead_protocol::fault::cut;
use fairlead_protocol::{Fault, Reason};
use serde::Serialize;

/// Longest message of a check, in bytes: all checks together fit a termination message.
const MESSAGE_BYTES: usize = 200;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum CheckResult {
    Passed,
    /// The transfer goes on, but somebody should look.
    Warning,
    Failed,
}

/// One check of one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Its name, such as `PathMtu`.
    pub(crate) check: &'static str,
    pub(crate) result: CheckResult,
    /// Of a warning or a failure.
    pub(crate) reason: Option<Reason>,
    /// What was found, and the remedy.
    pub(crate) message: String,
}

impl Check {
    /// A check that passed, with what it found.
    pub(crate) fn passed(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, result: CheckResult::Passed, reason: None, message: cut(message.into(), MESSAGE_BYTES) }
    }

    /// Something that does not keep the transfer from working.
    pub(crate) fn warning(check: &'static str, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            check,
            result: CheckResult::Warning,
            reason: Some(reason),
            message: cut(message.into(), 2 * MESSAGE_BYTES),
        }
    }

    /// A check that failed with this fault.
    pub(crate) fn failed(check: &'static str, fault: &Fault) -> Self {
        let message = cut(fault.message.clone(), MESSAGE_BYTES);
        Self { check, result: CheckResult::Failed, reason: Some(fault.reason), message }
    }

    /// The same with a message of at most `bytes`.
    pub(crate) fn shortened(mut self, bytes: usize) -> Self {
        self.message = cut(self.message, bytes);
        self
    }
}

/// Whether all checks of this end are done, and what they warn of: the part that is shown while the transfer runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Preflight {
    pub(crate) passed: bool,
    pub(crate) warnings: Vec<Check>,
}
