//! Why a transfer ended without success, and whether trying again may help.

use serde::{Deserialize, Serialize};

use crate::limits::FAULT_MESSAGE_BYTES;

/// The closed list of reasons in a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Reason {
    Verified,
    SourceMissing,
    SourceNotDirectory,
    SourceEmpty,
    SourceUnreadable,
    SourceChanged,
    DestinationExists,
    DestinationFull,
    DestinationUnwritable,
    NameNotAllowed,
    CongestionControlUnavailable,
    InterfaceNotFound,
    InterfaceDown,
    RouteMissing,
    AddressInUse,
    CredentialsInvalid,
    ClocksDiffer,
    PathMtuTooSmall,
    EchoUnreachable,
    ProtocolUnavailable,
    PreflightPassed,
    PeerUnreachable,
    PeerRejected,
    PeerLost,
    PeerFailed,
    ChecksumMismatch,
    Stalled,
    Superseded,
    ResendBudgetExceeded,
    StoppedBySignal,
    ProtocolError,
    InternalError,
    Cleaned,
}

impl Reason {
    /// Whether another attempt may succeed when nobody changes anything.
    pub fn retry(self) -> bool {
        matches!(
            self,
            Self::SourceChanged
                | Self::AddressInUse
                | Self::InterfaceDown
                | Self::RouteMissing
                | Self::ClocksDiffer
                | Self::EchoUnreachable
                | Self::PeerUnreachable
                | Self::PeerRejected
                | Self::PeerLost
                | Self::ChecksumMismatch
                | Self::Stalled
                | Self::StoppedBySignal
                | Self::InternalError
        )
    }

    /// The name on the wire and in the verdict.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// How much a reason explains: of several faults of one transfer the highest is reported.
    fn rank(self) -> u8 {
        match self {
            Self::StoppedBySignal => 4,
            Self::PeerFailed => 2,
            Self::Stalled | Self::PeerLost | Self::PeerUnreachable => 1,
            _ => 3,
        }
    }
}

/// A reason with the message for a person: what happened, to which file or flag, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", reason.name())]
pub struct Fault {
    /// One of the closed list.
    pub reason: Reason,
    /// What happened and the remedy.
    pub message: String,
    /// Whether another attempt may succeed.
    pub retry: bool,
}

impl Fault {
    /// A fault with the reason's usual answer on retries; an overlong message is cut.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: cut(message.into(), FAULT_MESSAGE_BYTES), retry: reason.retry() }
    }

    /// The peer broke the protocol.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(Reason::ProtocolError, message)
    }

    /// This end called the session in a state that the call does not belong to.
    pub(crate) fn out_of_turn(call: &str) -> Self {
        Self::new(Reason::InternalError, format!("{call} was called out of turn"))
    }

    /// Several faults of one end as one: the first one's reason, and the messages of all. A retry helps only if it helps each.
    /// Nothing without any.
    pub fn all(faults: Vec<Self>) -> Option<Self> {
        let retry = faults.iter().all(|fault| fault.retry);
        let mut faults = faults.into_iter();
        let first = faults.next()?;
        let message = faults.fold(first.message, |message, also| format!("{message}; also {also}"));
        Some(Self { retry, ..Self::new(first.reason, message) })
    }

    /// Of two faults the one that explains more; the earlier one when they explain as much.
    pub fn more_telling(self, later: Self) -> Self {
        if later.reason.rank() > self.reason.rank() {
            later
        } else {
            self
        }
    }

    /// What this end reports when the peer failed with `reason`.
    pub fn from_peer(peer: &str, reason: &str, message: &str, retry: bool) -> Self {
        let text = format!("the {peer} failed: {}: {}", printable(reason), printable(message));
        Self { retry, ..Self::new(Reason::PeerFailed, text) }
    }
}

/// A name of any bytes as people can read it: invalid UTF-8 and control characters are escaped.
pub fn show(name: &[u8]) -> String {
    let shown = String::from_utf8_lossy(name);
    format!("\"{}\"", shown.chars().flat_map(char::escape_debug).collect::<String>())
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// `text` in at most `most` bytes, cut at a character.
pub fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most - 3).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_telling_of_two_faults_is_kept() {
        let lost = || Fault::new(Reason::PeerLost, "gone");
        let full = || Fault::new(Reason::DestinationFull, "full");
        let peer = || Fault::from_peer("receiver", "DestinationFull", "full", false);
        assert_eq!(lost().more_telling(full()).reason, Reason::DestinationFull);
        assert_eq!(full().more_telling(lost()).reason, Reason::DestinationFull);
        assert_eq!(lost().more_telling(peer()).reason, Reason::PeerFailed);
        assert_eq!(peer().more_telling(lost()).reason, Reason::PeerFailed);
    }

    #[test]
    fn several_faults_become_one_with_all_their_messages() {
        assert_eq!(Fault::all(Vec::new()), None);
        let down = || Fault::new(Reason::InterfaceDown, "data0 is down");
        assert_eq!(Fault::all(vec![down()]), Some(down()));
        let both = Fault::all(vec![down(), Fault::new(Reason::SourceEmpty, "nothing to send")]).unwrap();
        assert_eq!((both.reason, both.retry), (Reason::InterfaceDown, false));
        assert_eq!(both.message, "data0 is down; also SourceEmpty: nothing to send");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let fault = Fault::new(Reason::InternalError, "ä".repeat(4000));
        assert!(fault.message.len() <= FAULT_MESSAGE_BYTES);
        assert!(fault.message.ends_with('…'));
    }

    #[test]
    fn a_name_of_any_bytes_can_be_shown() {
        assert_eq!(show(b"a\nb\xff\""), "\"a\\nb\u{fffd}\\\"\"");
    }
}
