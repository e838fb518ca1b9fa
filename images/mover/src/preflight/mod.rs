//! What is checked before any byte of data, so that what cannot work ends at once with its reason and the remedy.
//!
//! - `own_end`: what each end can check alone, all of it before the first failure is reported.
//! - `route`: the kernel's route to the peer. `path`: what is checked with the peer, once it is authenticated: its clock, the echo
//!   service and the path MTU (`path_mtu`).
//! - `destination`: whether the mover may write what the listing holds, and the same without writing for `--check`.

pub(crate) mod destination;
pub(crate) mod own_end;
pub(crate) mod path;
mod path_mtu;
mod route;

use fairlead_protocol::{Fault, Reason};

use crate::progress::{Check, CheckResult, Progress};

/// Notes a fault that ended the transfer before the checks were done as the check that it belongs to, unless one has failed already.
pub(crate) fn note_failure(progress: &Progress, fault: &Fault) {
    let Some(check) = check_of(fault.reason) else { return };
    if !progress.has_passed_checks() && progress.checks().iter().all(|check| check.result != CheckResult::Failed) {
        progress.note_check(Check::failed(check, fault));
    }
}

/// The check that a reason belongs to; none if it can come about later alone, or says only that the other end failed.
fn check_of(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::CredentialsInvalid => "Credentials",
        Reason::InterfaceNotFound | Reason::InterfaceDown => "Interface",
        Reason::RouteMissing => "Route",
        Reason::AddressInUse => "Ports",
        Reason::CongestionControlUnavailable => "CongestionControl",
        Reason::PeerUnreachable | Reason::PeerRejected => "Peer",
        Reason::ClocksDiffer => "Clocks",
        Reason::EchoUnreachable => "Echo",
        Reason::ProtocolUnavailable => "Protocol",
        Reason::PathMtuTooSmall => "PathMtu",
        Reason::SourceMissing | Reason::SourceNotDirectory => "Source",
        Reason::SourceEmpty | Reason::SourceUnreadable | Reason::NameNotAllowed => "Listing",
        Reason::DestinationExists => "Names",
        Reason::DestinationFull => "Space",
        Reason::DestinationUnwritable => "Destination",
        Reason::Verified
        | Reason::Cleaned
        | Reason::PreflightPassed
        | Reason::SourceChanged
        | Reason::PeerLost
        | Reason::PeerFailed
        | Reason::ChecksumMismatch
        | Reason::Stalled
        | Reason::Superseded
        | Reason::ResendBudgetExceeded
        | Reason::StoppedBySignal
        | Reason::ProtocolError
        | Reason::InternalError => return None,
    })
}

/// Runs checks of one end to the last, notes what each found, and fails with all faults at once.
pub(crate) struct Checklist<'a> {
    progress: &'a Progress,
    faults: Vec<Fault>,
}

impl<'a> Checklist<'a> {
    pub(crate) fn new(progress: &'a Progress) -> Self {
        Self { progress, faults: Vec::new() }
    }

    /// Notes the result of a check, with what it found.
    pub(crate) fn note(&mut self, check: &'static str, result: Result<String, Fault>) {
        match result {
            Ok(found) => self.progress.note_check(Check::passed(check, found)),
            Err(fault) => {
                self.progress.note_check(Check::failed(check, &fault));
                self.faults.push(fault);
            }
        }
    }

    /// Notes the result of a check of one path. What may pass by itself is a warning if `others_work`: the transfer begins without it.
    pub(crate) fn note_path(&mut self, check: &'static str, result: Result<String, Fault>, others_work: bool) {
        match result {
            Err(fault) if others_work && fault.retry => {
                let text = format!("{}; the transfer uses its other paths until then", fault.message);
                self.progress.note_check(Check::warning(check, fault.reason, text));
            }
            result => self.note(check, result),
        }
    }

    /// Notes the result of a check whose value is needed later.
    pub(crate) fn take<T>(
        &mut self,
        check: &'static str,
        result: Result<T, Fault>,
        found: impl Fn(&T) -> String,
    ) -> Option<T> {
        self.note(check, result.as_ref().map(found).map_err(Fault::clone));
        result.ok()
    }

    /// A fault with everything that failed.
    pub(crate) fn end(self) -> Result<(), Fault> {
        Fault::all(self.faults).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_failed_check_until_the_checks_have_passed() {
        let full = Fault::new(Reason::DestinationFull, "no space");
        let failed = |progress: &Progress| progress.checks().iter().map(|check| check.check).collect::<Vec<_>>();
        let progress = Progress::new();
        note_failure(&progress, &Fault::new(Reason::PeerFailed, "the other end"));
        assert_eq!(failed(&progress), [""; 0]);
        note_failure(&progress, &full);
        note_failure(&progress, &Fault::new(Reason::AddressInUse, "later"));
        assert_eq!(failed(&progress), ["Space"]);
        let flowing = Progress::new();
        flowing.checks_passed();
        note_failure(&flowing, &full);
        assert_eq!(failed(&flowing), [""; 0], "the disk became full while data flowed");
    }

    #[test]
    fn every_check_is_run_and_all_failures_are_told_at_once() {
        let progress = Progress::new();
        let mut checklist = Checklist::new(&progress);
        checklist.note("Interface", Err(Fault::new(Reason::InterfaceDown, "data0 is down")));
        assert_eq!(checklist.take("Source", Ok(7), |files| format!("{files} files")), Some(7));
        checklist.note("CongestionControl", Err(Fault::new(Reason::CongestionControlUnavailable, "no vegas")));
        let fault = checklist.end().unwrap_err();
        assert_eq!(fault.reason, Reason::InterfaceDown);
        assert!(fault.message.contains("also CongestionControlUnavailable: no vegas"), "{fault}");
        let results: Vec<CheckResult> = progress.checks().iter().map(|check| check.result).collect();
        assert_eq!(results, [CheckResult::Failed, CheckResult::Passed, CheckResult::Failed]);
    }
}
