//! Rate policies: at which interval packets leave, and how many may be under way. The connection holds every one of them to the limit it
//! was given.

mod native;
mod reported;
mod target;

use std::time::Duration;

use crate::SYN;

pub use native::increase_packets;

/// There is a queue where the round-trip time exceeds the least one by this part of it, and by a `SYN` at least.
const QUEUE_PART: u32 = 8;
/// Packets over which losses are counted at least: of fewer, one is a large part.
const LEAST_COUNTED: u64 = 400;
/// Packets that may be under way before anything is known (draft, section 4).
const FIRST_WINDOW: f64 = 16.0;

/// A rate policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatePolicy {
    /// UDT's own (draft, section 4).
    Udt,
    /// A fixed rate, as Tsunami has it: the limit, or without one what the link is found to carry. Loss lowers it only above a bound.
    Fixed,
    /// What the receiver reports that it takes, as with PA-UDP.
    Reported,
    /// As fixed, and new data go before what was lost, which is filled in at the end of each blast, as with RBUDP. A blast lasts for half
    /// of the receiver's room, and for a second or four round trips at most.
    Blast,
}

impl RatePolicy {
    /// All of them, the usual one first.
    pub const ALL: [Self; 4] = [Self::Udt, Self::Fixed, Self::Reported, Self::Blast];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udt => "udt",
            Self::Fixed => "fixed",
            Self::Reported => "reported",
            Self::Blast => "blast",
        }
    }

    /// The policy of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    fn start(self, seed: u64) -> Box<dyn RateRules> {
        match self {
            Self::Udt => Box::new(native::Native::new(seed)),
            Self::Reported => Box::<reported::Reported>::default(),
            Self::Fixed | Self::Blast => Box::<target::Target>::default(),
        }
    }
}

/// What a policy sees of the connection. Packets are counted from its start, rates are in packets per second and 0 if not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) now: Duration,
    pub(crate) rtt: Duration,
    /// The shortest one so far.
    pub(crate) least_rtt: Duration,
    /// Whether the round-trip time was measured.
    pub(crate) is_measured: bool,
    pub(crate) arrival_rate: f64,
    pub(crate) capacity: f64,
    /// Of a full packet, with the headers of IP and UDP.
    pub(crate) packet_bytes: f64,
    /// The next new packet.
    pub(crate) next: u64,
    /// Packets that are not acknowledged.
    pub(crate) in_flight: u64,
    /// Packets sent, and those reported lost.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// What the receiver has room for, and all the room that it had.
    pub(crate) free: f64,
    pub(crate) room: f64,
    /// Nothing without a limit.
    pub(crate) limit: Option<f64>,
}

impl Seen {
    /// Whether packets wait somewhere on the path.
    fn has_queue(&self) -> bool {
        self.is_measured && self.rtt > self.least_rtt + SYN.max(self.least_rtt / QUEUE_PART)
    }
}

/// What a policy decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Seconds between packets; 0 for none.
    pub(crate) interval: f64,
    /// Packets that may be under way.
    pub(crate) window: f64,
    /// The window doubles in each round trip until packets wait, or too many are lost.
    slow_start: bool,
}

impl Pace {
    /// Ends the slow start with the rate that it reached (draft, section 4), and not below the one that it began with: the first report may
    /// be of packets that came seconds apart because an end stood still.
    fn end_slow_start(&mut self, seen: &Seen) {
        self.slow_start = false;
        let round_trip = (seen.rtt + SYN).as_secs_f64();
        let by_window = round_trip / self.window;
        let reached = if seen.arrival_rate > 0.0 { 1.0 / seen.arrival_rate } else { by_window };
        self.interval = reached.min(round_trip / FIRST_WINDOW);
    }
}

/// Packets sent in the last one to two spans of a round trip and `LEAST_COUNTED` packets, and those reported lost in that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecentLosses {
    sent: u64,
    lost: u64,
}

/// Counts packets by such spans.
#[derive(Clone, Copy, Debug, Default)]
struct LossSpans {
    ends: Duration,
    /// Packets sent and lost when the one before this one began, and when this one did.
    before: (u64, u64),
    began: (u64, u64),
}

impl LossSpans {
    /// Begins another span when one is over.
    fn follow(&mut self, seen: &Seen) {
        if seen.now >= self.ends && seen.sent >= self.began.0 + LEAST_COUNTED {
            *self = Self { ends: seen.now + seen.rtt.max(SYN), before: self.began, began: (seen.sent, seen.lost) };
        }
    }

    fn losses(&self, seen: &Seen) -> RecentLosses {
        RecentLosses { sent: seen.sent - self.before.0, lost: seen.lost - self.before.1 }
    }
}

/// How a policy decides.
trait RateRules: Send {
    /// Whether losses say nothing of the path's load. They then change nothing.
    fn is_noise(&self, _seen: &Seen, _recent: RecentLosses) -> bool {
        false
    }

    /// After an acknowledgement, at most once in a `SYN`, when the slow start is over.
    fn on_ack(&mut self, seen: &Seen, pace: &mut Pace);

    /// Packets were reported lost, the first of them `first`, when the slow start is over.
    fn on_loss(&mut self, seen: &Seen, first: u64, recent: RecentLosses, pace: &mut Pace);

    /// Whether the rate is known without a slow start.
    fn needs_no_start(&self, _seen: &Seen) -> bool {
        false
    }
}

/// The policy in force with what it decided.
pub(crate) struct RateControl {
    policy: RatePolicy,
    seed: u64,
    rules: Box<dyn RateRules>,
    pace: Pace,
    adjusted: Duration,
    loss_spans: LossSpans,
    /// The first packet behind the slow start. Losses before it have ended that, and say nothing of the rate since.
    begins: u64,
}

impl RateControl {
    pub(crate) fn new(policy: RatePolicy, seed: u64) -> Self {
        let pace = Pace { interval: 0.0, window: FIRST_WINDOW, slow_start: true };
        let loss_spans = LossSpans::default();
        Self { policy, seed, rules: policy.start(seed), pace, adjusted: Duration::ZERO, loss_spans, begins: 0 }
    }

    pub(crate) fn policy(&self) -> RatePolicy {
        self.policy
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Goes on with another policy from the present rate.
    pub(crate) fn switch(&mut self, policy: RatePolicy) {
        if policy != self.policy {
            (self.policy, self.rules) = (policy, policy.start(self.seed));
        }
    }

    /// Whether the rate still doubles in each round trip.
    pub(crate) fn is_starting(&self) -> bool {
        self.pace.slow_start
    }

    /// Whether new data go before what was lost.
    pub(crate) fn fills_last(&self) -> bool {
        self.policy == RatePolicy::Blast
    }

    /// So many packets were acknowledged.
    pub(crate) fn on_ack(&mut self, seen: &Seen, acked: u64) {
        self.loss_spans.follow(seen);
        if self.pace.slow_start && self.rules.needs_no_start(seen) {
            self.pace.slow_start = false;
        }
        if self.pace.slow_start {
            // A window that is not used says nothing of the path.
            let is_used = self.pace.window < 2.0 * (seen.in_flight + acked) as f64;
            if is_used {
                self.pace.window += acked as f64;
            }
            // Twice the window in a round trip: what is acknowledged in bunches does not leave in bursts.
            let twice = if seen.is_measured { seen.rtt.as_secs_f64() / self.pace.window / 2.0 } else { 0.0 };
            // Nothing is won beyond what the link could carry.
            let by_capacity = if seen.capacity > 0.0 { 1.0 / seen.capacity } else { 0.0 };
            self.pace.interval = twice.max(by_capacity);
            let is_reached = !is_used && twice < by_capacity;
            if is_reached || self.pace.window >= seen.room || seen.has_queue() {
                self.end_slow_start(seen);
            }
            return;
        }
        if seen.now < self.adjusted + SYN {
            return;
        }
        self.adjusted = seen.now;
        self.rules.on_ack(seen, &mut self.pace);
        self.bound(seen);
    }

    pub(crate) fn on_loss(&mut self, seen: &Seen, first: u64) {
        let recent = self.loss_spans.losses(seen);
        if self.rules.is_noise(seen, recent) {
            return;
        }
        if self.pace.slow_start {
            self.end_slow_start(seen);
        } else if first >= self.begins {
            self.rules.on_loss(seen, first, recent, &mut self.pace);
        }
        self.bound(seen);
    }

    fn end_slow_start(&mut self, seen: &Seen) {
        self.pace.end_slow_start(seen);
        self.begins = seen.next;
    }

    /// The limit is kept by the connection. A policy that is held back must not go far beyond it meanwhile.
    fn bound(&mut self, seen: &Seen) {
        if let Some(limit) = seen.limit.filter(|limit| *limit > 0.0) {
            self.pace.interval = self.pace.interval.max(1.0 / limit);
        }
        self.pace.window = self.pace.window.max(FIRST_WINDOW);
    }
}

/// What was lost since the last look, as a part of what was sent.
#[derive(Clone, Copy, Debug, Default)]
struct LossMeter {
    until: Duration,
    sent: u64,
    lost: u64,
}

impl LossMeter {
    /// Once in a round trip, and not more than once in a `SYN`.
    fn look(&mut self, seen: &Seen) -> Option<f64> {
        if seen.now < self.until || seen.sent == self.sent {
            return None;
        }
        let part = (seen.lost - self.lost) as f64 / (seen.sent - self.sent) as f64;
        *self = Self { until: seen.now + seen.rtt.max(SYN), sent: seen.sent, lost: seen.lost };
        Some(part.min(1.0))
    }
}

#[cfg(test)]
pub(crate) const SEEN: Seen = Seen {
    now: Duration::from_secs(1),
    rtt: Duration::from_millis(90),
    least_rtt: Duration::from_millis(90),
    is_measured: true,
    arrival_rate: 1_000.0,
    capacity: 10_000.0,
    packet_bytes: 1500.0,
    next: 1000,
    in_flight: 1000,
    sent: 1000,
    lost: 0,
    free: 8192.0,
    room: 8192.0,
    limit: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for policy in RatePolicy::ALL {
            assert_eq!(RatePolicy::of(policy.name()), Some(policy));
        }
        assert_eq!(RatePolicy::of("cubic"), None);
    }

    #[test]
    fn the_window_doubles_until_something_is_lost_and_the_rate_is_then_what_arrives() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        for expected in [32.0, 64.0, 128.0] {
            control.on_ack(&SEEN, control.pace().window as u64);
            assert_eq!(control.pace().window, expected);
        }
        control.on_loss(&Seen { lost: 100, ..SEEN }, 5);
        assert_eq!(control.pace().interval, 0.001);
    }

    #[test]
    fn losses_count_against_two_spans_at_most_however_long_nothing_was_lost() {
        let (mut loss_spans, mut seen) = (LossSpans::default(), Seen { sent: 0, ..SEEN });
        for _ in 0..100 {
            seen = Seen { now: seen.now + seen.rtt, sent: seen.sent + 1000, ..seen };
            loss_spans.follow(&seen);
        }
        let seen = Seen { sent: seen.sent + 500, lost: seen.lost + 10, ..seen };
        assert_eq!(loss_spans.losses(&seen), RecentLosses { sent: 1500, lost: 10 });
    }

    #[test]
    fn losses_of_the_slow_start_end_it_and_cost_nothing_more() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        let lossy = Seen { lost: 100, ..SEEN };
        for first in [5, 6, 999] {
            control.on_loss(&lossy, first);
            assert_eq!(control.pace().interval, 0.001);
        }
        control.on_loss(&lossy, 1000);
        assert!(control.pace().interval > 0.001);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        for _ in 0..100 {
            control.on_ack(&Seen { in_flight: 90, ..SEEN }, 10);
        }
        assert!((200.0..210.0).contains(&control.pace().window), "{:?}", control.pace());
    }

    #[test]
    fn the_slow_start_is_no_faster_than_pairs_show_and_ends_where_they_hold_it_back() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        for _ in 0..7 {
            control.on_ack(&SEEN, control.pace().window as u64);
        }
        assert_eq!((control.pace().window, control.pace().interval), (2048.0, 1.0 / SEEN.capacity));
        control.on_ack(&Seen { in_flight: 900, ..SEEN }, 10);
        assert_eq!((control.is_starting(), control.pace().interval), (false, 1.0 / SEEN.arrival_rate));
    }

    #[test]
    fn a_queue_ends_the_slow_start() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        control.on_ack(&Seen { rtt: SEEN.least_rtt * 2, ..SEEN }, 16);
        assert_eq!(control.pace().interval, 1.0 / SEEN.arrival_rate);
    }

    #[test]
    fn a_first_report_of_next_to_nothing_does_not_end_the_slow_start_below_where_it_began() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        control.on_loss(&Seen { lost: 100, arrival_rate: 2.0, ..SEEN }, 5);
        assert_eq!(control.pace().interval, (SEEN.rtt + SYN).as_secs_f64() / FIRST_WINDOW);
    }

    #[test]
    fn the_slow_start_goes_on_over_a_loss_that_is_noise() {
        let mut control = RateControl::new(RatePolicy::Udt, 1);
        control.on_ack(&SEEN, 16);
        control.on_loss(&Seen { sent: 2000, lost: 3, ..SEEN }, 5);
        control.on_ack(&SEEN, 32);
        assert_eq!(control.pace().window, 64.0);
    }

    #[test]
    fn no_policy_goes_beyond_its_limit() {
        for policy in RatePolicy::ALL {
            let mut control = RateControl::new(policy, 1);
            let mut seen = Seen { limit: Some(500.0), ..SEEN };
            control.on_loss(&Seen { lost: 100, ..seen }, 5);
            for round in 1..500 {
                seen = Seen { now: SEEN.now + SYN * round, sent: SEEN.sent + 10 * u64::from(round), ..seen };
                control.on_ack(&seen, 10);
                assert!(control.pace().interval >= 0.002, "{policy:?}");
            }
            assert!(control.pace().interval < 0.0021, "{policy:?} reaches it: {:?}", control.pace());
        }
    }
}
