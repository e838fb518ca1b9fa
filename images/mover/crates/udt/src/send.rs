//! What is to be sent: bytes until they are acknowledged, cut into packets as they leave.

use std::collections::VecDeque;

use crate::ranges::Ranges;

/// A packet that was sent: its place in the stream.
#[derive(Clone, Copy, Debug)]
struct Sent {
    offset: u64,
    bytes: u32,
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
    /// Those reported lost.
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
        self.sent.push_back(Sent { offset: self.unsent_from, bytes: bytes as u32 });
        self.unsent_from += bytes as u64;
        Some((number, bytes))
    }

    /// Appends a packet's bytes; how many. Nothing if it was acknowledged.
    pub(crate) fn copy(&self, number: u64, out: &mut Vec<u8>) -> Option<usize> {
        let sent = self.sent.get(usize::try_from(number.checked_sub(self.acked)?).ok()?)?;
        let start = (sent.offset - self.kept_from) as usize;
        let end = start + sent.bytes as usize;
        let (front, back) = self.bytes.as_slices();
        let middle = front.len();
        out.extend_from_slice(&front[start.min(middle)..end.min(middle)]);
        out.extend_from_slice(&back[start.max(middle) - middle..end.max(middle) - middle]);
        Some(sent.bytes as usize)
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
}
