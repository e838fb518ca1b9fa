//! The bandwidth cap of a transfer. It counts bytes on the network: IP packets of the data and control connections, with TCP
//! headers, TLS and retransmissions; link-layer headers are the link's business.
//!
//! Two mechanisms hold it together. The `Gate` admits what streams write, exactly at the cap whatever the number of streams. The
//! kernel paces every socket (`SO_MAX_PACING_RATE`) at its share, so that what waits in buffers cannot leave in a burst after the
//! path was held up; shares follow what each stream can use, and add up to the cap. What the kernel falls short of its rate is made
//! up for by a loop (`allowance`) over what left in the last second.

mod allowance;
mod bucket;
pub(crate) mod file;
pub(crate) mod gate;
mod meter;
mod share;

use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fairlead_protocol::limits::{QUIET_CREDIT, QUIET_PARTS};
use fairlead_protocol::liveness::Evidence;

use super::engine::{DataLink, LinkState};
use crate::progress::{Bandwidth, Progress, Rtt, Wire};
use crate::threads::lock;
use gate::Gate;
use meter::{Meter, WireCount};
use share::{divide, Usage};

/// Time between two samples of the sockets under a cap.
const LOOK: Duration = Duration::from_millis(20);
/// Such times after which the cap is divided anew; without a cap the sockets are sampled no more often.
const LOOKS_PER_TICK: u64 = 5;
/// Ticks over which a stream's use of its share is smoothed: a few pieces must fit in, also at small caps.
const SMOOTHING: u64 = 16;
/// The same when it grows: a stream that was idle gets its share back soon.
const QUICK_SMOOTHING: u64 = 4;
/// Least rate that the kernel is given, a packet in 80 ms: at less, a stream would rest for seconds after one, whatever its share
/// became meanwhile. The gate holds the sum of such streams.
const LEAST_KERNEL_BPS: u64 = 150_000;
/// A socket's rate is set again when it moved by more than this part.
const CHANGE_PER_MILLE: u64 = 4;
/// Unsent bytes of a stream, as time at its share: short queues, so that changes take effect soon.
const QUEUE: Duration = Duration::from_millis(50);
const LEAST_QUEUE_BYTES: u64 = 16 << 10;
/// A rate above the cap by more than this part exceeds it.
const TOLERANCE_PER_MILLE: u64 = 20;

/// Holds the sum of a transfer's sockets to the cap.
pub(crate) struct Pacer {
    gate: Arc<Gate>,
    progress: Arc<Progress>,
    state: Mutex<State>,
}

struct State {
    cap_bps: Option<u64>,
    capped_at: Duration,
    /// Thousandths of its share that the kernel may send of each socket.
    allowance_per_mille: u64,
    members: Vec<Member>,
    next_id: u64,
    wire_bytes: u64,
    wire: Wire,
    meter: Meter,
    judged_at: Duration,
}

struct Member {
    id: u64,
    link: Arc<dyn DataLink>,
    gated: bool,
    count: WireCount,
    /// Bytes on the network per thousand bytes of payload.
    overhead_per_mille: u64,
    /// On the network since the cap was last divided.
    moved_bytes: u64,
    ticks: u64,
    /// In bits per second on the network.
    share_bps: u64,
    used_bps: u64,
    /// The rate that the kernel was given last, in bits per second of payload, and the thousandths of the share that this was.
    kernel_bps: Option<u64>,
    allowance_per_mille: u64,
}

/// A socket's part in the pacing; ends when dropped.
pub(crate) struct Membership {
    pacer: Arc<Pacer>,
    id: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.pacer.leave(self.id);
    }
}

impl Pacer {
    /// Starts without a cap and without sockets.
    pub(crate) fn start(progress: &Arc<Progress>) -> io::Result<Arc<Self>> {
        let state = State {
            cap_bps: None,
            capped_at: Duration::ZERO,
            allowance_per_mille: allowance::LEAST_PER_MILLE,
            members: Vec::new(),
            next_id: 0,
            wire_bytes: 0,
            wire: Wire::default(),
            meter: Meter::default(),
            judged_at: progress.clock.now(),
        };
        let pacer =
            Arc::new(Self { gate: Arc::new(Gate::new()), progress: Arc::clone(progress), state: Mutex::new(state) });
        let weak = Arc::downgrade(&pacer);
        std::thread::Builder::new().name("pacer".into()).spawn(move || run(&weak))?;
        Ok(pacer)
    }

    /// What data streams write through.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate)
    }

    /// Caps the sum of all sockets, or lifts the cap.
    pub(crate) fn set_cap(&self, cap_bps: Option<u64>) {
        self.gate.set_cap(cap_bps);
        let mut state = lock(&self.state);
        state.cap_bps = cap_bps;
        (state.capped_at, state.allowance_per_mille) = (self.progress.clock.now(), allowance::LEAST_PER_MILLE);
        state.members.iter_mut().for_each(|member| member.ticks = 0);
        state.apply();
        self.report(&state);
        tracing::info!(?cap_bps, sockets = state.members.len(), "bandwidth cap");
    }

    /// How much of a new quiet period the transfer has left: its credit and a tenth of its time, less what it was quiet already.
    pub(crate) fn quiet_allowed(&self) -> Duration {
        let clock = &self.progress.clock;
        (QUIET_CREDIT + clock.now() / QUIET_PARTS).saturating_sub(clock.quiet_total())
    }

    /// Holds all data back for so long, from now; zero ends a quiet period. What the kernel has taken already still leaves.
    pub(crate) fn set_quiet(&self, time: Duration) {
        self.gate.set_quiet(time);
        self.progress.clock.hold(time);
        tracing::info!(quiet_for_ms = time.as_millis() as u64, "quiet period");
    }

    /// Takes a connection in. `gated`: its bytes pass the gate, as those of data streams do.
    pub(crate) fn join(self: &Arc<Self>, link: Arc<dyn DataLink>, gated: bool) -> io::Result<Membership> {
        let mut state = lock(&self.state);
        let id = state.next_id;
        state.next_id += 1;
        let mut count = WireCount::default();
        // The handshake is over, and passed no gate.
        let seen = link.state()?;
        let handshake = count.update(&seen);
        state.wire_bytes += handshake.wire_bytes;
        let member = Member {
            id,
            link,
            gated,
            count,
            overhead_per_mille: count.per_mille(&seen),
            moved_bytes: 0,
            ticks: 0,
            share_bps: 0,
            used_bps: 0,
            kernel_bps: None,
            allowance_per_mille: state.allowance_per_mille,
        };
        state.members.push(member);
        state.apply();
        drop(state);
        self.gate.charge(handshake.wire_bytes);
        Ok(Membership { pacer: Arc::clone(self), id })
    }

    /// Adds what the data streams count.
    pub(crate) fn evidence(&self, evidence: Evidence) -> Evidence {
        let mut seen = Evidence { streams: 0, closed_windows: 0, unacknowledged: 0, ..evidence };
        for member in lock(&self.state).members.iter().filter(|member| member.gated) {
            let Ok(LinkState { sends_again, window_closed, .. }) = member.link.state() else { continue };
            seen.streams += 1;
            seen.unacknowledged += u32::from(sends_again);
            seen.closed_windows += u32::from(window_closed);
        }
        seen
    }

    fn leave(&self, id: u64) {
        let mut state = lock(&self.state);
        let Some(at) = state.members.iter().position(|member| member.id == id) else { return };
        let mut member = state.members.remove(at);
        if let Ok(seen) = member.link.state() {
            let moved = member.count.update(&seen);
            state.wire_bytes += moved.wire_bytes;
            state.wire.retransmitted_bytes += moved.retransmitted_bytes;
        }
        // What its buffer still holds leaves at the share it had.
        state.apply();
    }

    /// Looks at every socket and lets the kernel make up for what it fell short of. `divides`: also divides the cap anew.
    fn look(&self, divides: bool) {
        let now = self.progress.clock.now();
        let mut state = lock(&self.state);
        let outside = state.count();
        let wire_bytes = state.wire_bytes;
        state.meter.sample(now, wire_bytes);
        let State { cap_bps, capped_at, .. } = *state;
        if let Some(cap_bps) = cap_bps {
            state.allowance_per_mille = allowance::per_mille(cap_bps, state.meter.samples(capped_at));
        }
        let mut per_mille = None;
        if divides {
            state.note_excess(now);
            per_mille = state.judge(now, !self.gate.quiet_left().is_zero());
            state.apply();
            self.report(&state);
        } else {
            state.pace();
        }
        drop(state);
        if let Some(per_mille) = per_mille {
            self.gate.set_per_mille(per_mille);
        }
        if cap_bps.is_some() && outside > 0 {
            self.gate.charge(outside);
        }
    }

    fn report(&self, state: &State) {
        self.progress.set_bandwidth(Bandwidth {
            asked_bps: state.cap_bps,
            in_force_bps: state.cap_bps.map(|cap_bps| state.kernel_sum().map_or(cap_bps, |sum| sum.min(cap_bps))),
            measured_bps: state.meter.rate_bps(),
            wire_bytes: state.wire_bytes,
        });
        self.progress.set_wire(state.wire);
    }
}

impl State {
    /// Reads the sockets' counters. Returns the bytes that did not pass the gate.
    fn count(&mut self) -> u64 {
        let mut outside = 0;
        let mut rtts = Vec::new();
        for member in &mut self.members {
            let Ok(seen) = member.link.state() else { continue };
            let moved = member.count.update(&seen);
            member.overhead_per_mille = member.count.per_mille(&seen);
            self.wire_bytes += moved.wire_bytes;
            self.wire.retransmitted_bytes += moved.retransmitted_bytes;
            if member.gated && seen.rtt_us > 0 {
                rtts.push((seen.rtt_us, seen.rtt_min_us));
            }
            member.moved_bytes += moved.wire_bytes;
            outside += if member.gated { moved.retransmitted_bytes } else { moved.wire_bytes };
        }
        let sum_us: u64 = rtts.iter().map(|(rtt_us, _)| u64::from(*rtt_us)).sum();
        self.wire.rtt = rtts.iter().map(|(_, least_us)| *least_us).min().map(|least_us| Rtt {
            mean_seconds: sum_us as f64 / rtts.len() as f64 / 1e6,
            minimum_seconds: f64::from(least_us) / 1e6,
        });
        outside
    }

    /// Adds the time since the last judgement where the rate was above a cap that has held for as long as the rate is measured over.
    fn note_excess(&mut self, now: Duration) {
        let Some(cap_bps) = self.cap_bps else { return };
        let has_held = now.saturating_sub(self.capped_at) > meter::WINDOW + LOOK;
        let most_bps = cap_bps.saturating_add(cap_bps / 1000 * TOLERANCE_PER_MILLE);
        if has_held && self.meter.rate_bps() > most_bps {
            self.wire.cap_exceeded += now.saturating_sub(self.judged_at);
        }
    }

    /// Judges what each stream makes of its share. Returns the overhead per thousand bytes written. A quiet period says nothing
    /// about what streams can use.
    fn judge(&mut self, now: Duration, quiet: bool) -> Option<u64> {
        let span = now.saturating_sub(self.judged_at);
        self.judged_at = now;
        for member in &mut self.members {
            let moved_bytes = std::mem::take(&mut member.moved_bytes);
            if quiet {
                continue;
            }
            let now_bps = (u128::from(moved_bytes) * 8_000_000_000).checked_div(span.as_nanos()).unwrap_or(0) as u64;
            let weight = if now_bps > member.used_bps { QUICK_SMOOTHING } else { SMOOTHING };
            member.used_bps = (member.used_bps.saturating_mul(weight - 1).saturating_add(now_bps)) / weight;
            member.ticks += 1;
        }
        let gated = || self.members.iter().filter(|member| member.gated);
        gated().map(|member| member.overhead_per_mille).sum::<u64>().checked_div(gated().count() as u64)
    }

    /// Divides the cap over the data streams and sets the sockets' rates. A control connection may use all of it: the gate makes up for it.
    fn apply(&mut self) {
        let usage: Vec<Usage> = self
            .members
            .iter()
            .filter(|member| member.gated)
            // What a stream can use of a share shows only after a while.
            .map(|member| Usage {
                share_bps: if member.ticks < SMOOTHING { 0 } else { member.share_bps },
                used_bps: member.used_bps,
            })
            .collect();
        if let Some(cap_bps) = self.cap_bps {
            let mut shares = divide(cap_bps, &usage).into_iter();
            for member in &mut self.members {
                let share = if member.gated { shares.next() } else { None };
                member.share_bps = share.unwrap_or(cap_bps);
            }
        }
        self.pace();
    }

    /// Tells the kernel the shares and what it may send beyond them.
    fn pace(&mut self) {
        let (capped, allowance_per_mille) = (self.cap_bps.is_some(), self.allowance_per_mille);
        self.members.iter_mut().for_each(|member| member.set(capped, allowance_per_mille));
    }

    /// Sum of the data sockets' rates as the kernel has them, without what it may send beyond the shares; nothing without streams.
    fn kernel_sum(&self) -> Option<u64> {
        let mut sum = None;
        for member in self.members.iter().filter(|member| member.gated) {
            let bytes = member.link.pacing_limit_bytes_per_second().ok()?;
            let wire =
                u128::from(bytes) * 8 * u128::from(member.overhead_per_mille) / u128::from(member.allowance_per_mille);
            sum = Some(u64::try_from(wire).unwrap_or(u64::MAX).saturating_add(sum.unwrap_or(0)));
        }
        sum
    }
}

impl Member {
    /// Tells the kernel the socket's share, or lifts the limit where there is no cap.
    fn set(&mut self, capped: bool, allowance_per_mille: u64) {
        let share_bps = capped.then_some(self.share_bps);
        let wanted = share_bps.map(|share| {
            let payload = u128::from(share.max(LEAST_KERNEL_BPS)) * u128::from(allowance_per_mille)
                / u128::from(self.overhead_per_mille.max(1));
            u64::try_from(payload).unwrap_or(u64::MAX)
        });
        let near = |was: u64, now: u64| was.abs_diff(now) <= now / 1000 * CHANGE_PER_MILLE;
        let same = match (self.kernel_bps, wanted) {
            (None, None) => true,
            (Some(was), Some(now)) => near(was, now),
            _ => false,
        };
        if same {
            return;
        }
        let queue_bytes = share_bps.map(|share| u128::from(share) * QUEUE.as_nanos() / 8_000_000_000);
        let queue_bytes = queue_bytes.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST_QUEUE_BYTES));
        match self.link.pace(wanted, queue_bytes) {
            Ok(()) => (self.kernel_bps, self.allowance_per_mille) = (wanted, allowance_per_mille),
            Err(error) => tracing::warn!(%error, "the pacing rate was not set"),
        }
    }
}

fn run(pacer: &Weak<Pacer>) {
    for looks in 0u64.. {
        let Some(alive) = pacer.upgrade() else { return };
        let divides = looks % LOOKS_PER_TICK == 0;
        if divides || lock(&alive.state).cap_bps.is_some() {
            alive.look(divides);
        }
        drop(alive);
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::engine::tcp::TcpLink;
    use std::net::{TcpListener, TcpStream};

    fn connections(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = |_| (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0);
        (0..count).map(pair).unzip()
    }

    #[test]
    fn streams_that_come_and_go_keep_the_sum_at_the_cap() {
        let progress = Arc::new(Progress::new());
        let pacer = Pacer::start(&progress).unwrap();
        pacer.set_cap(Some(100_000_000));
        let (sockets, _peers) = connections(4);
        let mut members: Vec<Membership> =
            sockets.iter().map(|socket| pacer.join(TcpLink::new(socket).unwrap(), true).unwrap()).collect();
        while members.len() > 1 {
            let asked: u64 =
                sockets[..members.len()].iter().map(|s| fairlead_sys::max_pacing_rate(s).unwrap() * 8).sum();
            let most = 100_000 * allowance::MOST_PER_MILLE + 4 * 8;
            assert!((90_000_000..=most).contains(&asked), "{asked} by {}", members.len());
            members.pop();
        }
        pacer.set_cap(None);
        assert_eq!(fairlead_sys::max_pacing_rate(&sockets[0]).unwrap(), u64::MAX);
        assert_eq!(lock(&pacer.state).members.len(), 1);
    }

    #[test]
    fn what_is_asked_and_what_is_in_force_are_reported() {
        let progress = Arc::new(Progress::new());
        let pacer = Pacer::start(&progress).unwrap();
        pacer.set_cap(Some(50_000_000));
        let (sockets, _peers) = connections(2);
        let _members: Vec<Membership> =
            sockets.iter().map(|socket| pacer.join(TcpLink::new(socket).unwrap(), true).unwrap()).collect();
        pacer.look(true);
        let told = progress.snapshot().bandwidth.unwrap();
        assert_eq!(told.asked_bps, Some(50_000_000));
        assert!(told.in_force_bps.is_some_and(|bps| (49_000_000..=50_000_000).contains(&bps)), "{told:?}");
        // What the kernel may make up for is no part of the cap.
        while lock(&pacer.state).allowance_per_mille < allowance::MOST_PER_MILLE {
            pacer.look(true);
        }
        let told = progress.snapshot().bandwidth.unwrap();
        assert!(told.in_force_bps.is_some_and(|bps| (49_000_000..=50_000_000).contains(&bps)), "{told:?}");
        // Somebody else changes one socket's limit: that one is reported, not what was asked. The pacer's own thread may set it again in between.
        let began = std::time::Instant::now();
        while progress.snapshot().bandwidth.unwrap().in_force_bps.is_none_or(|bps| bps >= 30_000_000) {
            assert!(began.elapsed() < Duration::from_secs(240), "never told");
            fairlead_sys::set_max_pacing_rate(&sockets[0], 1000).unwrap();
            pacer.look(true);
        }
    }
}
