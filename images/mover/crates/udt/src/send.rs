//! What is to be sent: bytes until they are acknowledged, cut into packets as they leave.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::ranges::Ranges;

/// A packet that was sent: its place in the stream.
#[derive(Clone, Copy, Debug)]
struct Sent {
    offset: u64,
    bytes: u32,
    /// When it was sent again last.
    resent: Option<Duration>,
}

/// The buffer of one direction.
pub(crate) struct SendQueue {
    payload_bytes: usize,
    bytes: VecDeque<u8>,
    /// Place in the stream of the first byte that is kept, and of the first that was not sent.
    kept_from: u64,
    unsent_from: u64,
    /// Packets that were sent and not acknowledged, the first of this number.
    acked: u64,
    sent: VecDeque<Sent>,
    /// Those that are to be sent again.
    pub(crate) lost: Ranges<()>,
}

impl SendQueue {
    pub(crate) fn new(payload_bytes: usize) -> Self {
        Self {
            payload_bytes,
            bytes: VecDeque::new(),
            kept_from: 0,
            unsent_from: 0,
            acked: 0,
            sent: VecDeque::new(),
            lost: Ranges::default(),
        }
    }

    /// The first packet that is not acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// The next new packet.
    pub(crate) fn next(&self) -> u64 {
        self.acked + self.sent.len() as u64
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.unsent_from - self.kept_from
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.bytes.len() as u64 - self.in_flight_bytes()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Makes a packet of the next bytes; its number and how many bytes.
    pub(crate) fn take_new(&mut self) -> Option<(u64, usize)> {
        let bytes = (self.unsent_bytes() as usize).min(self.payload_bytes);
        if bytes == 0 {
            return None;
        }
        let number = self.next();
        self.sent.push_back(Sent { offset: self.unsent_from, bytes: bytes as u32, resent: None });
        self.unsent_from += bytes as u64;
        Some((number, bytes))
    }

    /// Appends a packet's bytes; how many. Nothing if it was acknowledged.
    pub(crate) fn copy(&self, number: u64, out: &mut Vec<u8>) -> Option<usize> {
        let sent = self.sent.get(self.place(number)?)?;
        let start = (sent.offset - self.kept_from) as usize;
        let end = start + sent.bytes as usize;
        let (front, back) = self.bytes.as_slices();
        let middle = front.len();
        out.extend_from_slice(&front[start.min(middle)..end.min(middle)]);
        out.extend_from_slice(&back[start.max(middle) - middle..end.max(middle) - middle]);
        Some(sent.bytes as usize)
    }

    /// Takes the next packet that is to be sent again.
    pub(crate) fn take_lost(&mut self, now: Duration) -> Option<u64> {
        let number = self.lost.pop_first()?;
        if let Some(sent) = self.place(number).and_then(|place| self.sent.get_mut(place)) {
            sent.resent = Some(now);
        }
        Some(number)
    }

    /// Packets of `range` were reported lost. A report knows nothing of what was sent again after `since`. Returns the first packet that it
    /// holds for, and how many were not known to be lost.
    pub(crate) fn report_lost(&mut self, range: Range<u64>, since: Duration) -> Option<(u64, u64)> {
        let (mut first, mut lost) = (None, 0);
        let mut at = range.start.max(self.acked);
        let end = range.end.min(self.next());
        while at < end {
            let is_told =
                |number: &u64| self.sent[(number - self.acked) as usize].resent.is_none_or(|resent| resent <= since);
            let told = at..(at..end).find(|number| !is_told(number)).unwrap_or(end);
            at = (told.end..end).find(is_told).unwrap_or(end);
            if !told.is_empty() {
                first.get_or_insert(told.start);
                lost += self.lost.insert(told, ());
            }
        }
        first.map(|first| (first, lost))
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.acked)?).ok()
    }

    /// Everything before `number` has come; how many packets and bytes that are new.
    pub(crate) fn acknowledge(&mut self, number: u64) -> (u64, u64) {
        let packets = number.saturating_sub(self.acked).min(self.sent.len() as u64);
        let bytes: u64 = self.sent.drain(..packets as usize).map(|sent| u64::from(sent.bytes)).sum();
        self.bytes.drain(..bytes as usize);
        self.kept_from += bytes;
        self.acked += packets;
        self.lost.remove_below(self.acked);
        (packets, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_until_they_are_acknowledged() {
        let mut buffer = SendQueue::new(4);
        buffer.push(b"abcdefghij");
        assert_eq!([buffer.take_new(), buffer.take_new()], [Some((0, 4)), Some((1, 4))]);
        assert_eq!((buffer.in_flight_bytes(), buffer.unsent_bytes()), (8, 2));
        assert_eq!(buffer.acknowledge(1), (1, 4));
        buffer.push(b"klmnop");
        let mut out = Vec::new();
        assert_eq!((buffer.copy(0, &mut out), buffer.copy(1, &mut out)), (None, Some(4)));
        assert_eq!(out, b"efgh");
        assert_eq!([buffer.take_new(), buffer.take_new(), buffer.take_new()], [Some((2, 4)), Some((3, 4)), None]);
        assert_eq!(buffer.copy(3, &mut out), Some(4));
        assert_eq!(out, b"efghmnop");
        assert_eq!(buffer.acknowledge(99), (3, 12));
        assert_eq!((buffer.kept_bytes(), buffer.acked(), buffer.next()), (0, 4, 4));
    }

    #[test]
    fn a_report_that_crosses_what_was_sent_again_says_nothing_of_it() {
        let (mut buffer, ms) = (SendQueue::new(1), Duration::from_millis);
        buffer.push(b"abcdefgh");
        (0..8).for_each(|_| assert!(buffer.take_new().is_some()));
        buffer.acknowledge(1);
        assert_eq!(buffer.report_lost(0..4, ms(0)), Some((1, 3)));
        assert_eq!([buffer.take_lost(ms(10)), buffer.take_lost(ms(50))], [Some(1), Some(2)]);
        assert_eq!(buffer.report_lost(1..6, ms(20)), Some((1, 3)), "1, 4 and 5: 3 is known");
        assert_eq!(buffer.report_lost(2..3, ms(49)), None);
        assert_eq!(buffer.report_lost(2..9, ms(50)), Some((2, 3)), "2, 6 and 7");
        assert_eq!(std::iter::from_fn(|| buffer.take_lost(ms(60))).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    }
}
