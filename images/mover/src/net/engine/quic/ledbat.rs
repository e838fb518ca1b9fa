//! Congestion controls that give way to everybody: LEDBAT (RFC 6817) and LEDBAT++ [Balasubramanian 2025]. Both go by the delay that
//! the path's queue adds, here by round-trip times as in LEDBAT++: those who fill queues push them back, and a path without them is
//! theirs.
//!
//! By the draft alone LEDBAT++ would come back to a path that others have left by a third of a packet in a round trip, which takes
//! minutes. So a slow-down may return to the largest window that the flow has had, instead of to its last one, until the queue shows
//! as in slow start: beside others that ends at once, and is tried ever more rarely.

use std::any::Any;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerMetrics};
use quinn_proto::RttEstimator;

/// Fewest packets under way, and those of the first round trip (RFC 6817, section 2.4.2).
const LEAST_PACKETS: f64 = 2.0;
/// The least delay of so many acknowledgements counts as the present one, and of all in the time of the path's own delay: a host that
/// is busy for less holds some back, which is no queue of the path (RFC 6817, section 2.4.2: none older than a round trip).
const RECENT: usize = 4;
/// The path's own delay is the least of so many minutes.
const BASE_MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// The most by which LEDBAT++'s gain is divided.
const LEAST_GAIN_DIVISOR: f64 = 16.0;
/// The part of the target at which slow start ends.
const SLOW_START_UNTIL: f64 = 0.75;
/// Round trips between slow start's end and the first slow-down, and those that a slow-down holds the window at its least.
const SLOW_DOWN_ROUND_TRIPS: u32 = 2;
/// Time between slow-downs, in times of what the last one took.
const SLOW_DOWN_PAUSE: u32 = 9;

/// Time between two returns to the largest window: at first, and at most after returns in vain.
const LEAST_SEARCH_PAUSE: Duration = Duration::from_secs(1);
const MOST_SEARCH_PAUSE: Duration = Duration::from_secs(5);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// RFC 6817, with a gain of 1.
    Ledbat,
    /// With a gain by the path's own delay, multiplicative decrease, and slow-downs in which the queue drains.
    PlusPlus,
}

impl Variant {
    /// The queueing delay that is aimed at.
    fn target(self) -> Duration {
        match self {
            Self::Ledbat => Duration::from_millis(100),
            Self::PlusPlus => Duration::from_millis(60),
        }
    }

    fn gain(self, base: Duration) -> f64 {
        match self {
            Self::Ledbat => 1.0,
            Self::PlusPlus => dynamic_gain(self.target(), base),
        }
    }

    /// The window in bytes after so many were acknowledged while the queue took `queueing`.
    fn window_after(self, window: f64, acked: f64, packet: f64, queueing: Duration, gain: f64) -> f64 {
        let queueing_targets = queueing.as_secs_f64() / self.target().as_secs_f64();
        match self {
            Self::Ledbat => ledbat_window(window, acked, packet, queueing_targets, gain),
            Self::PlusPlus => plus_plus_window(window, acked, packet, queueing_targets, gain),
        }
    }
}

/// [Balasubramanian 2025, section 4.2]
fn dynamic_gain(target: Duration, base: Duration) -> f64 {
    let divisor = (2.0 * target.as_secs_f64() / base.as_secs_f64().max(1e-9)).ceil();
    1.0 / divisor.clamp(1.0, LEAST_GAIN_DIVISOR)
}

/// RFC 6817, section 2.4.2: in proportion to what the delay lacks of the target, or exceeds it by.
fn ledbat_window(window: f64, acked: f64, packet: f64, queueing_targets: f64, gain: f64) -> f64 {
    window + gain * (1.0 - queueing_targets) * acked * packet / window
}

/// [Balasubramanian 2025, section 4.3]: `gain` packets in a round trip up to the target; above it less by the window's part that the
/// delay exceeds it by, and by half of the window at most.
fn plus_plus_window(window: f64, acked: f64, packet: f64, queueing_targets: f64, gain: f64) -> f64 {
    let over = (queueing_targets - 1.0).max(0.0);
    let of_a_round_trip = (gain * packet - window * over).max(-window / 2.0);
    window + of_a_round_trip * (acked / window).min(1.0)
}

/// The least delay of each of the last minutes.
#[derive(Clone, Debug)]
struct BaseDelay {
    minutes: VecDeque<Duration>,
    /// When the latest minute began.
    began: Instant,
}

impl BaseDelay {
    fn new(now: Instant) -> Self {
        Self { minutes: VecDeque::with_capacity(BASE_MINUTES), began: now }
    }

    fn note(&mut self, now: Instant, delay: Duration) {
        let is_new = now.saturating_duration_since(self.began) >= MINUTE;
        if is_new {
            self.began = now;
        }
        match self.minutes.back_mut() {
            Some(least) if !is_new => *least = delay.min(*least),
            _ => {
                self.minutes.truncate(BASE_MINUTES);
                if self.minutes.len() == BASE_MINUTES {
                    self.minutes.pop_front();
                }
                self.minutes.push_back(delay);
            }
        }
    }

    fn least(&self) -> Duration {
        self.minutes.iter().min().copied().unwrap_or_default()
    }
}

/// The least delay of the latest acknowledgements.
#[derive(Clone, Debug, Default)]
struct PresentDelay {
    last: VecDeque<Duration>,
    /// Those that no later one is below, oldest first.
    least: VecDeque<(Instant, Duration)>,
}

impl PresentDelay {
    fn note(&mut self, now: Instant, delay: Duration, span: Duration) {
        if self.last.len() == RECENT {
            self.last.pop_front();
        }
        self.last.push_back(delay);
        while self.least.back().is_some_and(|(_, other)| *other >= delay) {
            self.least.pop_back();
        }
        self.least.push_back((now, delay));
        while self.least.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > span) {
            self.least.pop_front();
        }
    }

    fn least(&self) -> Duration {
        let timely = self.least.front().map(|(_, delay)| *delay);
        self.last.iter().copied().chain(timely).min().unwrap_or_default()
    }
}

/// What a flow is at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The first rise, until the queue shows.
    SlowStart,
    /// By the delay.
    Steady,
    /// A slow-down's first part: the queue drains, and the path's own delay shows. The end is known from the first acknowledgement on.
    Frozen { began: Instant, until: Option<Instant>, window: f64 },
    /// Its second part: back to the window from before, or on to the largest one while no queue shows.
    Returning { began: Instant, window: f64, goal: f64 },
}

/// What one acknowledgement has told so far.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledgement {
    delay: Option<Duration>,
    bytes: u64,
    /// There was nothing more to send.
    limited: bool,
}

/// A flow. Its clock is whoever calls it.
#[derive(Clone, Debug)]
pub(super) struct Ledbat {
    variant: Variant,
    packet: f64,
    window: f64,
    phase: Phase,
    base: Option<BaseDelay>,
    recent: PresentDelay,
    acknowledgement: Acknowledgement,
    /// Losses of what was sent before are of one event, which has been answered.
    answered: Option<Instant>,
    slow_down_at: Option<Instant>,
    /// The largest window that the flow has had before a slow-down.
    largest: f64,
    /// When the largest window is tried again, and the pause before the time after that.
    search_at: Option<Instant>,
    search_pause: Duration,
}

impl Ledbat {
    /// A flow that begins; with a window one that takes another control's place. LEDBAT++ looks at the path before it uses that window.
    pub(super) fn new(variant: Variant, now: Instant, packet_bytes: u16, window: Option<u64>) -> Self {
        let packet = f64::from(packet_bytes);
        let least = LEAST_PACKETS * packet;
        let taken = window.map(|window| (window as f64).max(least));
        let (window, phase) = match (variant, taken) {
            (_, None) => (least, Phase::SlowStart),
            (Variant::Ledbat, Some(window)) => (window, Phase::Steady),
            (Variant::PlusPlus, Some(window)) => (least, Phase::Frozen { began: now, until: None, window }),
        };
        Self {
            variant,
            packet,
            window,
            phase,
            base: None,
            recent: PresentDelay::default(),
            acknowledgement: Acknowledgement::default(),
            answered: None,
            slow_down_at: None,
            largest: 0.0,
            search_at: None,
            search_pause: LEAST_SEARCH_PAUSE,
        }
    }

    fn least_window(&self) -> f64 {
        LEAST_PACKETS * self.packet
    }

    /// A packet arrived, `delay` after it was sent. `least` is the least round-trip time that the connection knows.
    fn acknowledged(&mut self, now: Instant, delay: Duration, bytes: u64, limited: bool, least: Duration) {
        if self.base.is_none() {
            let mut base = BaseDelay::new(now);
            base.note(now, least);
            self.base = Some(base);
        }
        let so_far = &mut self.acknowledgement;
        // Of packets that are acknowledged together the others have waited for the last one.
        so_far.delay = Some(so_far.delay.map_or(delay, |least| least.min(delay)));
        so_far.bytes += bytes;
        so_far.limited |= limited;
    }

    /// The acknowledgement is complete.
    fn end_acknowledgement(&mut self, now: Instant) {
        let Acknowledgement { delay, bytes, limited } = std::mem::take(&mut self.acknowledgement);
        let (Some(delay), Some(base)) = (delay, &mut self.base) else { return };
        base.note(now, delay);
        self.recent.note(now, delay, base.least());
        let (base, present) = (base.least(), self.recent.least());
        let queueing = present.saturating_sub(base);
        let (gain, acked) = (self.variant.gain(base), bytes as f64);
        let shows = queueing > self.variant.target().mul_f64(SLOW_START_UNTIL);
        match self.phase {
            Phase::SlowStart if shows => self.leave_slow_start(now),
            Phase::SlowStart if !limited => self.window += gain * acked,
            Phase::SlowStart => {}
            Phase::Steady if self.slow_down_at.is_some_and(|at| now >= at) => {
                let until = Some(now + present * SLOW_DOWN_ROUND_TRIPS);
                self.phase = Phase::Frozen { began: now, until, window: self.window };
                self.largest = self.largest.max(self.window);
                (self.window, self.slow_down_at) = (self.least_window(), None);
            }
            Phase::Steady => {
                let after = self.variant.window_after(self.window, acked, self.packet, queueing, gain);
                if after < self.window || !limited {
                    self.window = after.max(self.least_window());
                }
            }
            Phase::Frozen { began, until: None, window } => {
                let until = Some(now + present * SLOW_DOWN_ROUND_TRIPS);
                self.phase = Phase::Frozen { began, until, window };
            }
            Phase::Frozen { began, until: Some(until), window } => {
                if now >= until {
                    let searches = self.search_at.is_none_or(|at| now >= at);
                    let goal = if searches { self.largest.max(window) } else { window };
                    self.phase = Phase::Returning { began, window, goal };
                }
            }
            Phase::Returning { began, window, goal } if shows && goal > window => {
                self.search_in_vain(now);
                self.phase = Phase::Returning { began, window, goal: window };
                if self.window >= window {
                    self.window = window;
                    self.end_slow_down(now, began);
                }
            }
            // What is not used is not returned to; from here on it goes by the delay again.
            Phase::Returning { began, .. } if shows && limited => self.end_slow_down(now, began),
            Phase::Returning { began, window, goal } => {
                if !limited {
                    self.window = (self.window + gain * acked).min(goal);
                }
                if self.window >= goal {
                    if goal > window {
                        (self.search_at, self.search_pause) = (None, LEAST_SEARCH_PAUSE);
                    }
                    self.end_slow_down(now, began);
                }
            }
        }
    }

    fn leave_slow_start(&mut self, now: Instant) {
        self.phase = Phase::Steady;
        if self.variant == Variant::PlusPlus {
            self.slow_down_at = Some(now + self.recent.least() * SLOW_DOWN_ROUND_TRIPS);
        }
    }

    fn end_slow_down(&mut self, now: Instant, began: Instant) {
        self.phase = Phase::Steady;
        self.slow_down_at = Some(now + now.saturating_duration_since(began) * SLOW_DOWN_PAUSE);
    }

    fn search_in_vain(&mut self, now: Instant) {
        self.search_at = Some(now + self.search_pause);
        self.search_pause = (2 * self.search_pause).min(MOST_SEARCH_PAUSE);
    }

    /// A packet that was sent then is lost: half of the window stays, once a round trip. If everything is lost, the path is felt for
    /// anew.
    fn lost(&mut self, now: Instant, sent: Instant, everything: bool) {
        if self.answered.is_some_and(|at| sent <= at) {
            return;
        }
        self.answered = Some(now);
        let least = self.least_window();
        let half = |window: f64| (window / 2.0).max(least);
        match self.phase {
            Phase::Frozen { began, until, window } => {
                self.phase = Phase::Frozen { began, until, window: half(window) };
                return;
            }
            Phase::SlowStart => self.leave_slow_start(now),
            Phase::Returning { began, window, goal } => {
                if goal > window {
                    self.search_in_vain(now);
                    // What the search has added is given back whole.
                    self.window = self.window.min(window);
                }
                self.end_slow_down(now, began);
            }
            Phase::Steady => {}
        }
        self.window = half(self.window);
        if everything {
            self.phase = Phase::Returning { began: now, window: self.window, goal: self.window };
            (self.window, self.slow_down_at) = (least, None);
        }
    }

    /// The window that a slow-down goes back to, or the present one.
    fn lasting_window(&self) -> f64 {
        match self.phase {
            Phase::Frozen { window, .. } | Phase::Returning { window, .. } => window.max(self.window),
            Phase::SlowStart | Phase::Steady => self.window,
        }
    }
}

impl Controller for Ledbat {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.acknowledged(now, now.saturating_duration_since(sent), bytes, app_limited, rtt.min());
    }

    fn on_end_acks(&mut self, now: Instant, _in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.end_acknowledgement(now);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, _lost_bytes: u64) {
        self.lost(now, sent, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet = f64::from(new_mtu);
        self.window = self.window.max(self.least_window());
    }

    fn window(&self) -> u64 {
        // A packet leaves while less than the window is under way with it.
        self.window as u64 + 1
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = Some(self.lasting_window() as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.least_window() as u64
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u16 = 1460;
    const BASE: Duration = Duration::from_millis(40);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A flow and its clock.
    struct Run {
        flow: Ledbat,
        now: Instant,
    }

    impl Run {
        fn new(variant: Variant, window: Option<u64>) -> Self {
            let now = Instant::now();
            Self { flow: Ledbat::new(variant, now, PACKET, window), now }
        }

        /// An acknowledgement of two packets of a full window.
        fn acknowledge(&mut self, queueing: Duration) {
            let (delay, bytes) = (BASE + queueing, 2.0 * f64::from(PACKET));
            self.now += delay.mul_f64(bytes / self.flow.window);
            self.flow.acknowledged(self.now, delay, bytes as u64, false, BASE);
            self.flow.end_acknowledgement(self.now);
        }

        /// Acknowledgements of what was under way at its beginning.
        fn round_trip(&mut self, queueing: Duration) {
            let ends_at = self.now + BASE + queueing - ms(1);
            while self.now < ends_at {
                self.acknowledge(queueing);
            }
        }

        fn steady(variant: Variant) -> Self {
            let mut run = Self::new(variant, None);
            (0..9).for_each(|_| run.round_trip(Duration::ZERO));
            run.until(ms(90), |phase| phase == Phase::Steady);
            assert_eq!(run.flow.phase, Phase::Steady);
            run
        }

        fn until(&mut self, queueing: Duration, is: impl Fn(Phase) -> bool) {
            for _ in 0..1_000_000 {
                if is(self.flow.phase) {
                    return;
                }
                self.acknowledge(queueing);
            }
            panic!("{:?}", self.flow);
        }
    }

    fn is_frozen(phase: Phase) -> bool {
        matches!(phase, Phase::Frozen { .. })
    }

    #[test]
    fn ledbat_follows_rfc_6817() {
        for (queueing_ms, after) in
            [(0, 14892.0), (25, 14819.0), (50, 14746.0), (100, 14600.0), (150, 14454.0), (200, 14308.0)]
        {
            let window =
                Variant::Ledbat.window_after(14600.0, 2920.0, 1460.0, ms(queueing_ms), Variant::Ledbat.gain(BASE));
            assert!((window - after).abs() < 1e-6, "{queueing_ms} ms: {window}");
        }
    }

    #[test]
    fn the_gain_of_ledbat_plus_plus_follows_the_paths_own_delay() {
        for (base_ms, divisor) in [(0, 16.0), (5, 16.0), (20, 6.0), (40, 3.0), (60, 2.0), (120, 1.0), (182, 1.0)] {
            let gain = Variant::PlusPlus.gain(ms(base_ms));
            assert!((gain - 1.0 / divisor).abs() < 1e-12, "{base_ms} ms: {gain}");
            assert!((Variant::Ledbat.gain(ms(base_ms)) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn ledbat_plus_plus_adds_its_gain_up_to_the_target_and_takes_away_a_part_of_the_window_above_it() {
        let window = 100.0 * 1460.0;
        for (queueing_ms, packets) in
            [(0, 0.5), (60, 0.5), (66, 0.5 - 10.0), (78, 0.5 - 30.0), (90, 0.5 - 50.0), (91, -50.0), (600, -50.0)]
        {
            let after = Variant::PlusPlus.window_after(window, window, 1460.0, ms(queueing_ms), 0.5);
            let change = (after - window) / 1460.0;
            let expected = if packets < -50.0 { -50.0 } else { packets };
            assert!((change - expected).abs() < 1e-6, "{queueing_ms} ms: {change}");
        }
        // An acknowledgement brings its part of a round trip's change, and no more than that for more than a window.
        let part = Variant::PlusPlus.window_after(window, window / 10.0, 1460.0, Duration::ZERO, 0.5) - window;
        assert!((part - 73.0).abs() < 1e-6, "{part}");
        let more = Variant::PlusPlus.window_after(window, 3.0 * window, 1460.0, Duration::ZERO, 0.5) - window;
        assert!((more - 730.0).abs() < 1e-6, "{more}");
    }

    #[test]
    fn a_loss_halves_the_window_once_a_round_trip_and_leaves_two_packets() {
        for variant in [Variant::Ledbat, Variant::PlusPlus] {
            let mut run = Run::steady(variant);
            run.flow.window = 14600.0;
            let (sent, now) = (run.now, run.now + BASE);
            run.flow.lost(now, sent, false);
            assert!((run.flow.window - 7300.0).abs() < 1e-6);
            run.flow.lost(now + ms(1), sent + ms(1), false);
            assert!((run.flow.window - 7300.0).abs() < 1e-6, "of the same event");
            run.flow.window = 3000.0;
            run.flow.lost(now + BASE, now + ms(2), false);
            assert!((run.flow.window - 2920.0).abs() < 1e-6);
        }
    }

    #[test]
    fn slow_start_grows_by_the_gain_and_ends_when_the_queue_shows() {
        for (variant, gain) in [(Variant::Ledbat, 1.0), (Variant::PlusPlus, 1.0 / 3.0)] {
            let mut run = Run::new(variant, None);
            assert_eq!(run.flow.window(), 2921);
            for _ in 0..10 {
                let before = run.flow.window;
                run.acknowledge(Duration::ZERO);
                assert!((run.flow.window - before - gain * 2920.0).abs() < 1e-6, "{variant:?}: {}", run.flow.window);
            }
            let under = variant.target().mul_f64(0.75);
            (0..10).for_each(|_| run.acknowledge(under));
            assert_eq!(run.flow.phase, Phase::SlowStart);
            // Once the lower ones are of an earlier round trip.
            (0..RECENT).for_each(|_| run.acknowledge(under + ms(1)));
            run.round_trip(under + ms(1));
            assert_eq!(run.flow.phase, Phase::Steady);
        }
    }

    #[test]
    fn the_first_slow_down_comes_two_round_trips_after_slow_start_and_the_others_nine_times_as_long_after_the_last() {
        let mut run = Run::steady(Variant::PlusPlus);
        let (left_at, acknowledgement) = (run.now, BASE + ms(90));
        run.until(ms(90), is_frozen);
        let round_trips = 2 * (BASE + ms(90));
        assert!(
            (round_trips..=round_trips + acknowledgement).contains(&(run.now - left_at)),
            "{:?}",
            run.now - left_at
        );
        let (window, began) = (run.flow.lasting_window(), run.now);
        assert!((run.flow.window - 2920.0).abs() < 1e-6 && window > 2920.0, "{window}");
        run.until(Duration::ZERO, |phase| !is_frozen(phase));
        // The delay is the least of the last ones, which are those of the queue that drains.
        let frozen = run.now - began;
        assert!((2 * BASE..=round_trips + BASE).contains(&frozen), "{frozen:?}");
        run.until(Duration::ZERO, |phase| phase == Phase::Steady);
        assert!((run.flow.window - window).abs() < 1e-6);
        let (took, ended) = (run.now - began, run.now);
        run.until(ms(30), is_frozen);
        let pause = run.now - ended;
        assert!((9 * took..=9 * took + acknowledgement).contains(&pause), "{pause:?} after {took:?}");
    }

    /// A flow that had a large window and was pushed back by others.
    fn pushed_back() -> (Run, f64) {
        let mut run = Run::steady(Variant::PlusPlus);
        run.until(ms(30), is_frozen);
        let largest = run.flow.largest;
        run.until(Duration::ZERO, |phase| phase == Phase::Steady);
        for _ in 0..60 {
            run.round_trip(ms(120));
        }
        assert!(run.flow.lasting_window() < largest / 2.0, "{:?}", run.flow);
        (run, largest)
    }

    #[test]
    fn a_path_that_others_have_left_is_taken_back_by_a_slow_down() {
        let (mut run, largest) = pushed_back();
        let began = run.now;
        while run.flow.window < largest {
            run.acknowledge(Duration::ZERO);
        }
        let took = run.now - began;
        assert!(took < MOST_SEARCH_PAUSE + Duration::from_secs(6), "{took:?}");
        assert_eq!(run.flow.search_pause, LEAST_SEARCH_PAUSE);
    }

    #[test]
    fn a_search_ends_where_the_queue_shows_or_a_packet_is_lost_and_the_next_one_waits_longer() {
        for lost in [false, true] {
            let (mut run, largest) = pushed_back();
            run.flow.search_pause = LEAST_SEARCH_PAUSE;
            run.until(Duration::ZERO, |phase| matches!(phase, Phase::Returning { window, goal, .. } if goal > window));
            let before = run.flow.lasting_window();
            assert!(before < largest, "{before} {largest}");
            if lost {
                run.flow.lost(run.now, run.now, false);
            } else {
                run.until(ms(50), |phase| phase == Phase::Steady);
            }
            assert!(run.flow.window <= before, "{} {before}", run.flow.window);
            assert_eq!((run.flow.phase, run.flow.search_pause), (Phase::Steady, 2 * LEAST_SEARCH_PAUSE));
            assert!(run.flow.search_at > Some(run.now - Duration::from_secs(1)));
        }
    }

    #[test]
    fn ledbat_has_no_slow_downs() {
        let mut run = Run::steady(Variant::Ledbat);
        (0..300).for_each(|_| run.round_trip(ms(100)));
        assert_eq!(run.flow.phase, Phase::Steady);
    }

    #[test]
    fn a_standing_queue_above_the_target_leaves_two_packets() {
        for variant in [Variant::Ledbat, Variant::PlusPlus] {
            let mut run = Run::steady(variant);
            run.flow.window = 300.0 * f64::from(PACKET);
            (0..400).for_each(|_| run.round_trip(ms(180)));
            assert!((run.flow.window - 2920.0).abs() < 1.0, "{variant:?}: {}", run.flow.window);
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut run = Run::new(Variant::PlusPlus, None);
        for phase in [Phase::SlowStart, Phase::Steady] {
            run.flow.phase = phase;
            let window = run.flow.window;
            for _ in 0..100 {
                run.now += BASE;
                run.flow.acknowledged(run.now, BASE, 2920, true, BASE);
                run.flow.end_acknowledgement(run.now);
            }
            assert!((run.flow.window - window).abs() < 1e-6);
        }
    }

    #[test]
    fn a_window_that_is_not_used_gives_way_to_delay_after_a_slow_down_too() {
        let mut run = Run::steady(Variant::PlusPlus);
        run.flow.window = 146_000.0;
        run.until(Duration::ZERO, |phase| matches!(phase, Phase::Returning { .. }));
        let mut limited = |queueing: Duration| {
            run.now += BASE;
            run.flow.acknowledged(run.now, BASE + queueing, 2920, true, BASE);
            run.flow.end_acknowledgement(run.now);
            (run.flow.phase, run.flow.window)
        };
        let (phase, window) = limited(Duration::ZERO);
        assert!(matches!(phase, Phase::Returning { .. }));
        let later: Vec<_> = (0..20).map(|_| limited(ms(110))).collect();
        assert!(later.iter().any(|(phase, _)| *phase == Phase::Steady), "{later:?}");
        assert!(later.last().unwrap().1 <= window.max(2920.0), "{later:?}");
    }

    #[test]
    fn ledbat_plus_plus_looks_at_the_path_before_it_uses_a_window_that_it_takes_over() {
        let mut run = Run::new(Variant::PlusPlus, Some(146_000));
        assert_eq!((run.flow.window(), run.flow.metrics().ssthresh), (2921, Some(146_000)));
        run.until(Duration::ZERO, |phase| phase == Phase::Steady);
        assert!((run.flow.window - 146_000.0).abs() < 1.0);
        assert_eq!(Run::new(Variant::Ledbat, Some(146_000)).flow.window(), 146_001);
    }

    #[test]
    fn when_everything_is_lost_the_path_is_felt_for_anew() {
        let mut run = Run::steady(Variant::PlusPlus);
        run.flow.window = 146_000.0;
        run.flow.lost(run.now + BASE, run.now, true);
        assert_eq!((run.flow.window(), run.flow.metrics().ssthresh), (2921, Some(73_000)));
        run.until(Duration::ZERO, |phase| phase == Phase::Steady);
        assert!((run.flow.window - 73_000.0).abs() < 1.0);
    }

    #[test]
    fn the_paths_own_delay_is_the_least_of_ten_minutes() {
        let began = Instant::now();
        let mut base = BaseDelay::new(began);
        base.note(began, ms(20));
        for minute in 1..=9 {
            base.note(began + MINUTE * minute, ms(50));
        }
        assert_eq!(base.least(), ms(20));
        base.note(began + MINUTE * 10, ms(60));
        assert_eq!(base.least(), ms(50));
        base.note(began + MINUTE * 10 + ms(5), ms(45));
        assert_eq!(base.least(), ms(45));
    }

    #[test]
    fn acknowledgements_that_waited_for_each_other_count_with_the_least_delay() {
        let mut run = Run::new(Variant::PlusPlus, None);
        for delay in [ms(300), ms(90), BASE] {
            run.flow.acknowledged(run.now, delay, 1460, false, BASE);
        }
        run.flow.end_acknowledgement(run.now);
        assert_eq!((run.flow.phase, run.flow.recent.least()), (Phase::SlowStart, BASE));
    }

    #[test]
    fn delays_of_a_busy_host_do_not_pass_for_a_queue_that_lasts_longer() {
        let (mut present, began) = (PresentDelay::default(), Instant::now());
        let mut at = |after_ms: u64, delay_ms: u64| {
            present.note(began + ms(after_ms), ms(delay_ms), BASE);
            present.least()
        };
        assert_eq!(at(0, 41), ms(41));
        for after_ms in 1..=40 {
            assert_eq!(at(after_ms, 150), ms(41), "{after_ms}");
        }
        assert_eq!(at(41, 150), ms(150));
        assert_eq!(at(42, 60), ms(60));
        // Where few come in a round trip, the last ones count.
        assert_eq!([at(200, 150), at(400, 140), at(600, 130)], [ms(60); 3]);
        assert_eq!(at(800, 135), ms(130));
    }
}
