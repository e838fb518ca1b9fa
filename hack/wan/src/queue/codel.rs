//! CoDel: drops at the head of a queue when packets have waited too long for too long (RFC 8289).

use super::fifo::{Fifo, QueuedPacket};
use super::Pulled;

/// CoDel's two times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoDelParameters {
    /// A wait below this is no standing queue.
    pub target_ns: u64,
    /// So long must the wait stay above the target: the longest usual round-trip time.
    pub interval_ns: u64,
}

impl Default for CoDelParameters {
    /// RFC 8289, sections 4.3 and 4.4.
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000 }
    }
}

/// What CoDel says of the packet at the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoDelVerdict {
    /// Send it.
    Pass,
    /// Drop it, and judge the next.
    Drop,
}

/// The packet at the head of a queue, at the moment when the link is free for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtHead {
    /// How long it has waited, in nanoseconds.
    pub sojourn_ns: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes behind it in its queue.
    pub behind_bytes: u64,
}

/// The state of one queue's control loop: the pseudocode of RFC 8289, section 5, turned about so that each packet gets its verdict.
#[derive(Debug, Clone, Default)]
pub struct CoDel {
    parameters: CoDelParameters,
    // If the wait is still above the target then, dropping is in order.
    first_above_ns: Option<u64>,
    dropping: bool,
    // A packet was dropped while dropping, and the time of the next drop is yet to be set.
    unscheduled: bool,
    drop_next_ns: u64,
    count: u32,
    last_count: u32,
    largest_bytes: u64,
}

impl CoDel {
    /// A control loop that has seen nothing.
    pub fn new(parameters: CoDelParameters) -> Self {
        Self { parameters, ..Self::default() }
    }

    /// Judges the packet at the head at `now_ns`.
    pub fn judge(&mut self, now_ns: u64, head: AtHead) -> CoDelVerdict {
        let may_drop = self.may_drop(now_ns, head);
        if !self.dropping {
            return if may_drop { self.begin(now_ns) } else { CoDelVerdict::Pass };
        }
        let unscheduled = std::mem::take(&mut self.unscheduled);
        if !may_drop {
            self.dropping = false;
            return CoDelVerdict::Pass;
        }
        if unscheduled {
            self.drop_next_ns = control_law(self.drop_next_ns, self.parameters.interval_ns, self.count);
        }
        if now_ns < self.drop_next_ns {
            return CoDelVerdict::Pass;
        }
        self.count = self.count.saturating_add(1);
        self.unscheduled = true;
        CoDelVerdict::Drop
    }

    /// Says that the link was free and the queue empty.
    pub fn emptied(&mut self) {
        self.first_above_ns = None;
        self.dropping = false;
        self.unscheduled = false;
    }

    fn may_drop(&mut self, now_ns: u64, head: AtHead) -> bool {
        self.largest_bytes = self.largest_bytes.max(head.size_bytes);
        // With a packet's worth behind it at most, a slow link is not to run dry.
        if head.sojourn_ns < self.parameters.target_ns || head.behind_bytes <= self.largest_bytes {
            self.first_above_ns = None;
            return false;
        }
        match self.first_above_ns {
            Some(first_above_ns) => now_ns >= first_above_ns,
            None => {
                self.first_above_ns = Some(now_ns + self.parameters.interval_ns);
                false
            }
        }
    }

    fn begin(&mut self, now_ns: u64) -> CoDelVerdict {
        self.dropping = true;
        // Soon after the last time: the rate of drops that was enough then is where to begin.
        let recent = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.parameters.interval_ns;
        let before = self.count.saturating_sub(self.last_count);
        self.count = if before > 1 && recent { before } else { 1 };
        self.last_count = self.count;
        self.drop_next_ns = control_law(now_ns, self.parameters.interval_ns, self.count);
        CoDelVerdict::Drop
    }
}

/// When to drop next after a drop due at `from_ns`, the `count`-th in a row: the interval is divided by √count (RFC 8289, section 5).
pub fn control_law(from_ns: u64, interval_ns: u64, count: u32) -> u64 {
    from_ns + (interval_ns as f64 / f64::from(count.max(1)).sqrt()) as u64
}

/// A queue under CoDel.
pub(crate) struct CoDelQueue<P> {
    pub(crate) packets: Fifo<P>,
    codel: CoDel,
}

impl<P> CoDelQueue<P> {
    pub(crate) fn new(parameters: CoDelParameters) -> Self {
        Self { packets: Fifo::default(), codel: CoDel::new(parameters) }
    }

    pub(crate) fn pull(&mut self, now_ns: u64) -> Pulled<QueuedPacket<P>> {
        let Some(head) = self.packets.pop() else {
            self.codel.emptied();
            return Pulled::Empty;
        };
        let seen = AtHead {
            sojourn_ns: now_ns.saturating_sub(head.queued_ns),
            size_bytes: head.size_bytes as u64,
            behind_bytes: self.packets.bytes(),
        };
        match self.codel.judge(now_ns, seen) {
            CoDelVerdict::Pass => Pulled::Sent(head),
            CoDelVerdict::Drop => Pulled::Dropped(head),
        }
    }
}
