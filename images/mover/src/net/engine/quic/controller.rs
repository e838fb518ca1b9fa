//! The congestion control of a connection: one of quinn's, exchanged for another while data flow. What it sees of the connection
//! is shared with whoever watches.

use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig};
use quinn_proto::RttEstimator;

use super::ledbat::{Ledbat, Variant};
use crate::fault_injection::panic_point;

/// No limit on the rate.
pub(super) const UNLIMITED: u64 = u64::MAX;
/// Packets that a limited rate always lets fly: shorter times than a timer's are not worth pacing.
const LEAST_PACKETS: u64 = 10;
/// Time at the limit by which the window exceeds limit x RTT, for acknowledgements that come in bunches.
const SLACK: Duration = Duration::from_millis(10);
/// Shortest time over which a delivery rate is measured.
const SPAN: Duration = Duration::from_millis(10);

/// A congestion control that can be chosen. Names are the kernel's for the same algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RFC 9438.
    Cubic,
    /// RFC 9002, section 7: NewReno.
    Reno,
    /// RFC 6817.
    Ledbat,
    /// [Balasubramanian 2025].
    LedbatPlusPlus,
    /// quinn's, of BBR's first version, which quinn calls experimental.
    Bbr,
}

const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Cubic, Algorithm::Reno, Algorithm::Ledbat, Algorithm::LedbatPlusPlus, Algorithm::Bbr];

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Ledbat => "ledbat",
            Self::LedbatPlusPlus => "ledbat++",
            Self::Bbr => "bbr",
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        ALGORITHMS.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Those to choose from. BBR is not among them: it leaves CUBIC next to nothing, and is slower than the kernel's
    /// (docs/explanation/transports.md).
    pub(super) fn names() -> Vec<String> {
        let offered = ALGORITHMS.iter().filter(|algorithm| **algorithm != Self::Bbr);
        offered.map(|algorithm| algorithm.name().to_owned()).collect()
    }

    fn start(self, now: Instant, mtu: u16, window: Option<u64>) -> Box<dyn Controller> {
        macro_rules! of_quinn {
            ($config:ty) => {{
                let mut config = <$config>::default();
                if let Some(window) = window {
                    config.initial_window(window);
                }
                Arc::new(config).build(now, mtu)
            }};
        }
        match self {
            Self::Cubic => of_quinn!(CubicConfig),
            Self::Reno => of_quinn!(NewRenoConfig),
            Self::Ledbat => Box::new(Ledbat::new(Variant::Ledbat, now, mtu, window)),
            Self::LedbatPlusPlus => Box::new(Ledbat::new(Variant::PlusPlus, now, mtu, window)),
            Self::Bbr => of_quinn!(BbrConfig),
        }
    }

    /// What a loss leaves of a window, in thousandths.
    fn kept_per_mille(self) -> u64 {
        match self {
            Self::Cubic => 700,
            Self::Reno | Self::Ledbat | Self::LedbatPlusPlus => 500,
            Self::Bbr => 1000,
        }
    }

    /// Whether it leaves the path to everybody else.
    pub(super) fn gives_way(self) -> bool {
        matches!(self, Self::Ledbat | Self::LedbatPlusPlus)
    }
}

/// What a connection's controller is told and tells.
#[derive(Debug)]
pub(super) struct Steering {
    started: Instant,
    wanted: AtomicU8,
    in_force: AtomicU8,
    /// Bytes per second.
    limit: AtomicU64,
    acked_bytes: AtomicU64,
    in_flight_bytes: AtomicU64,
    /// When something was acknowledged, or began to be under way, in microseconds since the start.
    heard_us: AtomicU64,
    /// Since when something is under way without a break, likewise; and for how long it was before.
    busy_from_us: AtomicU64,
    busy_us: AtomicU64,
    delivery_rate: AtomicU64,
    window_bytes: AtomicU64,
}

impl Steering {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            started: Instant::now(),
            wanted: AtomicU8::new(algorithm as u8),
            in_force: AtomicU8::new(algorithm as u8),
            limit: AtomicU64::new(UNLIMITED),
            acked_bytes: AtomicU64::new(0),
            in_flight_bytes: AtomicU64::new(0),
            heard_us: AtomicU64::new(0),
            busy_from_us: AtomicU64::new(0),
            busy_us: AtomicU64::new(0),
            delivery_rate: AtomicU64::new(0),
            window_bytes: AtomicU64::new(0),
        }
    }

    /// Another algorithm from the next packet or acknowledgement on.
    pub(super) fn switch(&self, algorithm: Algorithm) {
        self.wanted.store(algorithm as u8, Ordering::Relaxed);
    }

    pub(super) fn in_force(&self) -> Algorithm {
        algorithm(&self.in_force)
    }

    /// Bytes per second; `UNLIMITED` lifts the limit.
    pub(super) fn set_limit(&self, bytes_per_second: u64) {
        self.limit.store(bytes_per_second, Ordering::Relaxed);
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn acked_bytes(&self) -> u64 {
        self.acked_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn delivery_rate(&self) -> u64 {
        self.delivery_rate.load(Ordering::Relaxed)
    }

    /// For how long nothing that is under way was acknowledged.
    pub(super) fn silence(&self) -> Duration {
        if self.in_flight_bytes() == 0 {
            return Duration::ZERO;
        }
        self.started.elapsed().saturating_sub(Duration::from_micros(self.heard_us.load(Ordering::Relaxed)))
    }

    /// For how long something was under way so far.
    pub(super) fn busy(&self) -> Duration {
        let before = Duration::from_micros(self.busy_us.load(Ordering::Relaxed));
        if self.in_flight_bytes() == 0 {
            return before;
        }
        before + self.started.elapsed().saturating_sub(Duration::from_micros(self.busy_from_us.load(Ordering::Relaxed)))
    }

    fn since_start_us(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_micros() as u64
    }

    fn hear(&self, now: Instant) {
        self.heard_us.store(self.since_start_us(now), Ordering::Relaxed);
    }

    fn sent(&self, now: Instant, bytes: u64) {
        if self.in_flight_bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.hear(now);
            self.busy_from_us.store(self.since_start_us(now), Ordering::Relaxed);
        }
    }

    fn under_way(&self, now: Instant, bytes: u64) {
        if bytes == 0 && self.in_flight_bytes() > 0 {
            let since = self.since_start_us(now).saturating_sub(self.busy_from_us.load(Ordering::Relaxed));
            self.busy_us.fetch_add(since, Ordering::Relaxed);
        }
        self.in_flight_bytes.store(bytes, Ordering::Relaxed);
    }
}

fn algorithm(place: &AtomicU8) -> Algorithm {
    let at = usize::from(place.load(Ordering::Relaxed));
    ALGORITHMS[at.min(ALGORITHMS.len() - 1)]
}

/// Makes the controller of a connection.
pub(super) struct SteeredFactory(pub(super) Arc<Steering>);

impl ControllerFactory for SteeredFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let steering = Arc::clone(&self.0);
        let inner = steering.in_force().start(now, current_mtu, None);
        let least = u64::from(current_mtu) * LEAST_PACKETS;
        let mut steered =
            Steered { steering, inner, mtu: current_mtu, lost: false, rtt: Duration::ZERO, measured: (now, 0), least };
        steered.publish();
        Box::new(steered)
    }
}

/// Hands everything to the controller in force.
struct Steered {
    steering: Arc<Steering>,
    inner: Box<dyn Controller>,
    mtu: u16,
    /// The window has met its first loss: slow start is over.
    lost: bool,
    rtt: Duration,
    /// When the delivery rate was measured last, and the bytes acknowledged then.
    measured: (Instant, u64),
    least: u64,
}

impl Steered {
    /// Changes the controller if another one is wanted. The window stays; once slow start is over, the new one does not begin with it.
    fn follow(&mut self, now: Instant) {
        let (wanted, present) = (algorithm(&self.steering.wanted), self.steering.in_force());
        if wanted == present {
            return;
        }
        // That of a slow-down is none to go on with.
        let lasting = self.inner.metrics().ssthresh.filter(|_| present.gives_way());
        let window = lasting.unwrap_or_else(|| self.inner.window());
        if self.lost {
            // A window that a loss brings to the present one: that loss also sets where slow start ends.
            self.inner = wanted.start(now, self.mtu, Some(window * 1000 / wanted.kept_per_mille()));
            self.inner.on_congestion_event(now, now + Duration::from_nanos(1), false, 0);
        } else {
            self.inner = wanted.start(now, self.mtu, Some(window));
        }
        self.steering.in_force.store(wanted as u8, Ordering::Relaxed);
    }

    fn publish(&mut self) {
        self.steering.window_bytes.store(self.window(), Ordering::Relaxed);
    }
}

impl Controller for Steered {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        panic_point("DATAGRAMS");
        self.follow(now);
        self.steering.sent(now, bytes);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.rtt = rtt.get();
        let acked = self.steering.acked_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.steering.hear(now);
        let span = now.saturating_duration_since(self.measured.0);
        if span >= SPAN.max(self.rtt) {
            let rate = u128::from(acked - self.measured.1) * 1_000_000_000 / span.as_nanos();
            self.steering.delivery_rate.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.measured = (now, acked);
        }
        // A limit is no lack of data, but neither may the window grow far beyond what it lets through.
        let held = self.steering.limit() != UNLIMITED && self.inner.window() > self.window();
        self.inner.on_ack(now, sent, bytes, app_limited || held, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.follow(now);
        self.steering.under_way(now, in_flight);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        self.publish();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.lost = true;
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.publish();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.least = u64::from(new_mtu) * LEAST_PACKETS;
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let limit = self.steering.limit();
        let window = self.inner.window();
        if limit == UNLIMITED {
            return window;
        }
        let most = u128::from(limit) * (self.rtt + SLACK).as_nanos() / 1_000_000_000;
        window.min(u64::try_from(most).unwrap_or(u64::MAX).max(self.least))
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { steering: Arc::clone(&self.steering), inner: self.inner.clone_box(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1200;

    fn steered(algorithm: Algorithm) -> (Arc<Steering>, Box<dyn Controller>, Instant) {
        let (steering, now) = (Arc::new(Steering::new(algorithm)), Instant::now());
        let controller = Arc::new(SteeredFactory(Arc::clone(&steering))).build(now, MTU);
        (steering, controller, now)
    }

    #[test]
    fn a_name_is_that_of_its_algorithm_and_no_other_is_known() {
        for algorithm in ALGORITHMS {
            assert_eq!(Algorithm::of(algorithm.name()), Some(algorithm));
            assert_eq!(Steering::new(algorithm).in_force(), algorithm);
        }
        assert_eq!((Algorithm::of("vegas"), Algorithm::of("")), (None, None));
        assert_eq!(Algorithm::names(), ["cubic", "reno", "ledbat", "ledbat++"], "BBR is for those who name it");
    }

    #[test]
    fn a_switch_keeps_the_window_and_is_read_back_once_it_is_made() {
        for (from, to) in ALGORITHMS.into_iter().flat_map(|from| ALGORITHMS.map(|to| (from, to))) {
            for after_loss in [false, true] {
                let (steering, mut controller, now) = steered(from);
                if after_loss {
                    controller.on_congestion_event(now, now + Duration::from_millis(1), false, 1200);
                }
                let window = controller.window();
                steering.switch(to);
                assert_eq!(steering.in_force(), from, "not before the connection moves");
                controller.on_sent(now + Duration::from_millis(2), 1200, 7);
                assert_eq!(steering.in_force(), to);
                // LEDBAT++ first looks at the path, with the window in mind.
                let looks = to == Algorithm::LedbatPlusPlus && from != to;
                let kept = if looks { controller.metrics().ssthresh.unwrap() } else { controller.window() };
                assert!(kept.abs_diff(window) <= u64::from(MTU) * 2, "{from:?} {to:?}: {kept} {window}");
                assert!(!looks || controller.window() <= u64::from(MTU) * 2 + 1);
            }
        }
    }

    #[test]
    fn a_switch_in_a_slow_down_goes_on_with_the_window_from_before_it() {
        let (steering, mut controller, now) = steered(Algorithm::Cubic);
        let window = controller.window();
        for (to, after) in [(Algorithm::LedbatPlusPlus, 2 * u64::from(MTU) + 1), (Algorithm::Cubic, window)] {
            steering.switch(to);
            controller.on_sent(now, 1200, 1);
            assert_eq!(controller.window(), after);
        }
    }

    #[test]
    fn a_limit_bounds_what_is_under_way_and_lifting_it_restores_the_window() {
        let (steering, controller, _) = steered(Algorithm::Cubic);
        let window = controller.window();
        assert_eq!(window, 12_000);
        steering.set_limit(100_000);
        assert_eq!(controller.window(), u64::from(MTU) * LEAST_PACKETS);
        steering.set_limit(UNLIMITED);
        assert_eq!(controller.window(), window);
    }

    #[test]
    fn what_is_under_way_and_unheard_of_is_silence() {
        let (steering, mut controller, now) = steered(Algorithm::Reno);
        assert_eq!(steering.silence(), Duration::ZERO);
        controller.on_sent(now, 5000, 1);
        assert_eq!(steering.in_flight_bytes(), 5000);
        controller.on_end_acks(now, 0, false, Some(1));
        assert_eq!((steering.in_flight_bytes(), steering.silence()), (0, Duration::ZERO));
    }

    #[test]
    fn the_time_in_which_something_is_under_way_adds_up() {
        let (steering, mut controller, now) = steered(Algorithm::Cubic);
        let at = |ms| now + Duration::from_millis(ms);
        for (from, until) in [(0, 30), (100, 150)] {
            controller.on_sent(at(from), 1200, 1);
            controller.on_sent(at(from + 10), 1200, 2);
            controller.on_end_acks(at(from + 20), 1200, false, Some(1));
            controller.on_end_acks(at(until), 0, false, Some(2));
            controller.on_end_acks(at(until + 5), 0, false, None);
        }
        assert_eq!(steering.busy().as_millis(), 80);
    }
}
