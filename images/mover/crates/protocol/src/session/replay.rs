//! Control messages that outlive their connection: each end counts what it received, and keeps what it sent until the other has
//! received it. A connection that takes the place of a broken one begins with both counts, and goes on from there.

use std::collections::VecDeque;

use crate::fault::{Fault, Reason};
use crate::limits::KEPT_BYTES;

/// One end's messages, encoded as frames.
#[derive(Debug, Default)]
pub struct MessageReplay {
    /// Whether messages are kept once they are sent; otherwise the session ends with its connection.
    keeps: bool,
    /// Messages that the other end may not have, the oldest first, and how many came before them.
    frames: VecDeque<Vec<u8>>,
    passed: u64,
    /// How many of them went out on this connection.
    sent: usize,
    sent_bytes: usize,
    unsent_bytes: usize,
    received: u64,
}

impl MessageReplay {
    /// Of a session that goes on over other connections if it `keeps` its messages.
    pub fn new(keeps: bool) -> Self {
        Self { keeps, ..Self::default() }
    }

    /// Adds a message.
    pub fn push(&mut self, frame: Vec<u8>) {
        self.unsent_bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// The next message for the connection.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        let frame = if self.keeps {
            let frame = self.frames.get(self.sent)?.clone();
            self.sent += 1;
            self.sent_bytes += frame.len();
            frame
        } else {
            self.passed += 1;
            self.frames.pop_front()?
        };
        self.unsent_bytes -= frame.len();
        while self.sent_bytes > KEPT_BYTES {
            self.pass();
        }
        Some(frame)
    }

    /// Whether every message went out on this connection.
    pub fn is_sent(&self) -> bool {
        self.sent == self.frames.len()
    }

    /// Bytes of messages that did not go out on this connection.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    /// Counts a message of the other end.
    pub fn count_received(&mut self) {
        self.received += 1;
    }

    /// Messages of the other end that were received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The other end received so many messages, which need not be kept. A fault if they were never sent.
    pub fn acknowledged(&mut self, received: u64) -> Result<(), Fault> {
        if received > self.passed + self.sent as u64 {
            return Err(Fault::protocol("the peer received more messages than were sent"));
        }
        while self.keeps && self.passed < received {
            self.pass();
        }
        Ok(())
    }

    /// Another connection begins; the other end received so many messages. A fault if some of the others are not kept.
    pub fn resume(&mut self, received: u64) -> Result<(), Fault> {
        if received < self.passed {
            return Err(Fault::new(Reason::PeerLost, "messages to the peer were lost with a connection"));
        }
        self.acknowledged(received)?;
        self.unsent_bytes += std::mem::take(&mut self.sent_bytes);
        self.sent = 0;
        Ok(())
    }

    fn pass(&mut self) {
        let Some(frame) = self.frames.pop_front() else { return };
        self.passed += 1;
        self.sent -= 1;
        self.sent_bytes -= frame.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(number: u64) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    #[test]
    fn messages_that_the_peer_lacks_go_out_again_and_no_others() {
        let mut replay = MessageReplay::new(true);
        (0..5).for_each(|number| replay.push(frame(number)));
        let sent: Vec<_> = std::iter::from_fn(|| replay.next_frame()).take(4).collect();
        assert_eq!(sent, (0..4).map(frame).collect::<Vec<_>>());
        assert_eq!(replay.unsent_bytes(), 8);
        replay.acknowledged(2).unwrap();
        replay.resume(3).unwrap();
        assert_eq!((replay.unsent_bytes(), replay.is_sent()), (16, false));
        assert_eq!(std::iter::from_fn(|| replay.next_frame()).collect::<Vec<_>>(), [frame(3), frame(4)]);
        assert!(replay.is_sent());
    }

    #[test]
    fn a_peer_that_received_what_was_never_sent_or_lacks_what_is_gone_is_refused() {
        let mut replay = MessageReplay::new(true);
        (0..3).for_each(|number| replay.push(frame(number)));
        replay.next_frame();
        assert_eq!(replay.acknowledged(2).unwrap_err().reason, Reason::ProtocolError);
        replay.acknowledged(1).unwrap();
        assert_eq!(replay.resume(0).unwrap_err().reason, Reason::PeerLost);
    }

    #[test]
    fn a_session_of_one_connection_keeps_nothing_it_has_sent() {
        let mut replay = MessageReplay::new(false);
        (0..3).for_each(|number| replay.push(frame(number)));
        assert_eq!(replay.next_frame(), Some(frame(0)));
        assert_eq!((replay.unsent_bytes(), replay.frames.len()), (16, 2));
        replay.acknowledged(1).unwrap();
        assert!(replay.resume(0).is_err());
    }

    #[test]
    fn what_a_peer_never_confirms_is_kept_up_to_a_bound() {
        let mut replay = MessageReplay::new(true);
        for _ in 0..70 {
            replay.push(vec![0; 1 << 20]);
            replay.next_frame();
        }
        assert_eq!(replay.sent_bytes, KEPT_BYTES);
        assert!(replay.resume(5).is_err());
    }

    proptest! {
        #[test]
        fn every_message_arrives_once_and_in_order_whatever_connections_break(
            steps in proptest::collection::vec((0u8..5, 0usize..6), 0..120),
        ) {
            let (mut left, mut right) = (MessageReplay::new(true), MessageReplay::new(true));
            let (mut wire, mut arrived, mut next) = (VecDeque::new(), Vec::new(), 0);
            let deliver = |wire: &mut VecDeque<Vec<u8>>, right: &mut MessageReplay, arrived: &mut Vec<Vec<u8>>| {
                if let Some(frame) = wire.pop_front() {
                    right.count_received();
                    arrived.push(frame);
                }
            };
            for (step, count) in steps {
                match step {
                    0 => for _ in 0..count { left.push(frame(next)); next += 1; },
                    1 => (0..count).for_each(|_| wire.extend(left.next_frame())),
                    2 => (0..count).for_each(|_| deliver(&mut wire, &mut right, &mut arrived)),
                    3 => left.acknowledged(right.received()).unwrap(),
                    _ => { wire.clear(); left.resume(right.received()).unwrap(); }
                }
            }
            wire.extend(std::iter::from_fn(|| left.next_frame()));
            while !wire.is_empty() { deliver(&mut wire, &mut right, &mut arrived); }
            prop_assert_eq!(arrived, (0..next).map(frame).collect::<Vec<_>>());
            prop_assert_eq!(left.unsent_bytes(), 0);
        }
    }
}
