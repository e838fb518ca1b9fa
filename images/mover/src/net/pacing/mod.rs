//! The bandwidth cap of a transfer. It counts bytes on the network: IP packets of the data and control connections, with TCP
//! headers, TLS and retransmissions; link-layer headers are the link's business.
//!
//! Two mechanisms hold it together. The `Gate` admits what streams write, exactly at the cap whatever the number of streams. The
//! kernel paces every socket (`SO_MAX_PACING_RATE`) at its share, so that what waits in buffers cannot leave in a burst after the
//! path was held up; shares follow what each stream can use, and add up to the cap. What the kernel falls short of its rate is made
//! up for by a loop (`allowance`) over what left in the last second.
//!
//! Each path may have a cap of its own, held in the same way: by a gate within that of the whole, and by shares within both.

mod allowance;
mod bucket;
pub(crate) mod file;
pub(crate) mod gate;
mod meter;
mod share;
mod tally;

use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use fairlead_protocol::index::PathIndex;
use fairlead_protocol::limits::{QUIET_CREDIT, QUIET_PARTS};
use fairlead_protocol::liveness::Evidence;

use super::engine::{DataLink, LinkState};
use crate::progress::{Bandwidth, Progress, Rtt, Wire};
use crate::threads::lock;
use gate::Gate;
use meter::WireCount;
use share::{divide_within, Usage};
use tally::Tally;

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

/// Holds the sum of a transfer's sockets to the cap, and that of each path to its own.
pub(crate) struct Pacer {
    gate: Arc<Gate>,
    /// Of each path, within `gate`.
    path_gates: Vec<Arc<Gate>>,
    progress: Arc<Progress>,
    state: Mutex<State>,
}

struct State {
    total: Tally,
    paths: Vec<Tally>,
    members: Vec<Member>,
    next_id: u64,
    wire: Wire,
    judged_at: Duration,
}

struct Member {
    id: u64,
    path: usize,
    link: Arc<dyn DataLink>,
    gated: bool,
    count: WireCount,
    /// Bytes on the network per thousand bytes of payload.
    overhead_per_mille: u64,
    /// On the network since the cap was last divided.
    moved_bytes: u64,
    ticks: u64,
    /// In bits per second on the network; nothing without a cap.
    share_bps: Option<u64>,
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
    /// Of a transfer with so many paths. Starts without a cap and without sockets.
    pub(crate) fn start(progress: &Arc<Progress>, paths: usize) -> io::Result<Arc<Self>> {
        let state = State {
            total: Tally::new(),
            paths: (0..paths).map(|_| Tally::new()).collect(),
            members: Vec::new(),
            next_id: 0,
            wire: Wire::default(),
            judged_at: progress.clock.now(),
        };
        let gate = Arc::new(Gate::new());
        let path_gates = (0..paths).map(|_| Arc::new(Gate::within(&gate))).collect();
        let pacer = Arc::new(Self { gate, path_gates, progress: Arc::clone(progress), state: Mutex::new(state) });
        let weak = Arc::downgrade(&pacer);
        std::thread::Builder::new().name("pacer".into()).spawn(move || run(&weak))?;
        Ok(pacer)
    }

    /// What data streams of a path write through.
    pub(crate) fn gate(&self, path: PathIndex) -> Arc<Gate> {
        Arc::clone(&self.path_gates[path.as_usize()])
    }

    /// Caps the sum of all sockets, or lifts the cap.
    pub(crate) fn set_cap(&self, cap_bps: Option<u64>) {
        self.gate.set_cap(cap_bps);
        let mut state = lock(&self.state);
        state.total.set_cap(cap_bps, self.progress.clock.now());
        state.members.iter_mut().for_each(|member| member.ticks = 0);
        state.apply();
        self.report(&state);
        tracing::info!(?cap_bps, sockets = state.members.len(), "bandwidth cap");
    }

    /// Caps the sockets of each path, in addition to the cap of all; paths that nothing is said of have no cap of their own.
    pub(crate) fn set_path_caps(&self, caps_bps: &[Option<u64>]) {
        let now = self.progress.clock.now();
        let mut state = lock(&self.state);
        for (path, gate) in self.path_gates.iter().enumerate() {
            let cap_bps = caps_bps.get(path).copied().flatten();
            if state.paths[path].cap_bps == cap_bps {
                continue;
            }
            gate.set_cap(cap_bps);
            state.paths[path].set_cap(cap_bps, now);
            state.members.iter_mut().filter(|member| member.path == path).for_each(|member| member.ticks = 0);
        }
        state.apply();
        self.report(&state);
        tracing::info!(?caps_bps, "bandwidth caps of the paths");
    }

    /// What is left of a quiet period.
    pub(crate) fn quiet_left(&self) -> Duration {
        self.gate.quiet_left()
    }

    /// Whether caps or a quiet period, and nothing else, hold streams back.
    pub(crate) fn holds_back(&self) -> bool {
        self.gate.holds_back() || self.path_gates.iter().any(|gate| gate.holds_back())
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

    /// Takes a path's connection in. `gated`: its bytes pass the gate, as those of data streams do.
    pub(crate) fn join(
        self: &Arc<Self>,
        link: Arc<dyn DataLink>,
        path: PathIndex,
        gated: bool,
    ) -> io::Result<Membership> {
        let path = path.as_usize();
        let mut state = lock(&self.state);
        let id = state.next_id;
        state.next_id += 1;
        let mut count = WireCount::default();
        // The handshake is over, and passed no gate.
        let seen = link.state()?;
        let handshake = count.update(&seen);
        state.moved(path, handshake.wire_bytes);
        let member = Member {
            id,
            path,
            link,
            gated,
            count,
            overhead_per_mille: count.per_mille(&seen),
            moved_bytes: 0,
            ticks: 0,
            share_bps: None,
            used_bps: 0,
            kernel_bps: None,
            allowance_per_mille: state.allowance_per_mille(path),
        };
        state.members.push(member);
        state.apply();
        drop(state);
        self.path_gates[path].charge(handshake.wire_bytes);
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
            state.moved(member.path, moved.wire_bytes);
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
        state.total.sample(now);
        state.paths.iter_mut().for_each(|path| path.sample(now));
        let is_capped = state.is_capped();
        if divides {
            state.note_excess(now);
            state.judge(now, !self.quiet_left().is_zero());
            state.apply();
            self.report(&state);
            self.gate.set_per_mille(state.overhead_per_mille(|_| true));
            for (path, gate) in self.path_gates.iter().enumerate() {
                gate.set_per_mille(state.overhead_per_mille(|member| member.path == path));
            }
        } else {
            state.pace();
        }
        drop(state);
        for (gate, bytes) in self.path_gates.iter().zip(outside).filter(|(_, bytes)| is_capped && *bytes > 0) {
            gate.charge(bytes);
        }
    }

    fn report(&self, state: &State) {
        let Tally { cap_bps, wire_bytes, meter, .. } = &state.total;
        self.progress.set_bandwidth(Bandwidth {
            asked_bps: *cap_bps,
            in_force_bps: cap_bps.map(|cap_bps| state.kernel_sum().map_or(cap_bps, |sum| sum.min(cap_bps))),
            measured_bps: meter.rate_bps(),
            wire_bytes: *wire_bytes,
        });
        self.progress.set_wire(state.wire);
        self.progress.set_path_wire_bytes(state.paths.iter().map(|path| path.wire_bytes).collect());
    }
}

impl State {
    fn is_capped(&self) -> bool {
        self.total.cap_bps.is_some() || self.paths.iter().any(|path| path.cap_bps.is_some())
    }

    fn moved(&mut self, path: usize, wire_bytes: u64) {
        self.total.wire_bytes += wire_bytes;
        self.paths[path].wire_bytes += wire_bytes;
    }

    /// Thousandths of its share that the kernel may send of each socket of a path: by whichever cap lacks less.
    fn allowance_per_mille(&self, path: usize) -> u64 {
        let caps = [&self.total, &self.paths[path]].into_iter().filter(|tally| tally.cap_bps.is_some());
        caps.map(|tally| tally.allowance_per_mille).min().unwrap_or(allowance::LEAST_PER_MILLE)
    }

    /// Reads the sockets' counters. Returns the bytes that did not pass the gate, of each path.
    fn count(&mut self) -> Vec<u64> {
        let mut outside = vec![0; self.paths.len()];
        let mut rtts = Vec::new();
        for member in &mut self.members {
            let Ok(seen) = member.link.state() else { continue };
            let moved = member.count.update(&seen);
            member.overhead_per_mille = member.count.per_mille(&seen);
            self.total.wire_bytes += moved.wire_bytes;
            self.paths[member.path].wire_bytes += moved.wire_bytes;
            self.wire.retransmitted_bytes += moved.retransmitted_bytes;
            if member.gated && seen.rtt_us > 0 {
                rtts.push((seen.rtt_us, seen.rtt_min_us));
            }
            member.moved_bytes += moved.wire_bytes;
            outside[member.path] += if member.gated { moved.retransmitted_bytes } else { moved.wire_bytes };
        }
        let sum_us: u64 = rtts.iter().map(|(rtt_us, _)| u64::from(*rtt_us)).sum();
        self.wire.rtt = rtts.iter().map(|(_, least_us)| *least_us).min().map(|least_us| Rtt {
            mean_seconds: sum_us as f64 / rtts.len() as f64 / 1e6,
            minimum_seconds: f64::from(least_us) / 1e6,
        });
        outside
    }

    /// Adds the time since the last judgement where a rate was above its cap.
    fn note_excess(&mut self, now: Duration) {
        if self.total.is_exceeded(now) || self.paths.iter().any(|path| path.is_exceeded(now)) {
            self.wire.cap_exceeded += now.saturating_sub(self.judged_at);
        }
    }

    /// Judges what each stream makes of its share. A quiet period says nothing about what streams can use.
    fn judge(&mut self, now: Duration, quiet: bool) {
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
    }

    /// The overhead per thousand bytes that these data streams write; nothing without any.
    fn overhead_per_mille(&self, of: impl Fn(&Member) -> bool) -> Option<u64> {
        let these = || self.members.iter().filter(|member| member.gated && of(member));
        these().map(|member| member.overhead_per_mille).sum::<u64>().checked_div(these().count() as u64)
    }

    /// Divides the caps over the data streams and sets the sockets' rates. A control connection may use all of it: the gate makes up
    /// for it.
    fn apply(&mut self) {
        let gated: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].gated).collect();
        let usage: Vec<(usize, Usage)> =
            gated.iter().map(|at| (self.members[*at].path, self.members[*at].usage())).collect();
        let path_caps: Vec<Option<u64>> = self.paths.iter().map(|path| path.cap_bps).collect();
        let shares = divide_within(self.total.cap_bps, &path_caps, &usage);
        for member in &mut self.members {
            // All there is for a control connection.
            member.share_bps = [self.total.cap_bps, path_caps[member.path]].into_iter().flatten().min();
        }
        for (at, share_bps) in gated.into_iter().zip(shares) {
            self.members[at].share_bps = share_bps;
        }
        self.pace();
    }

    /// Tells the kernel the shares and what it may send beyond them.
    fn pace(&mut self) {
        let allowances: Vec<u64> = (0..self.paths.len()).map(|path| self.allowance_per_mille(path)).collect();
        self.members.iter_mut().for_each(|member| member.set(allowances[member.path]));
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
    /// What it makes of its share. What a stream can use of a share shows only after a while.
    fn usage(&self) -> Usage {
        let share_bps = self.share_bps.filter(|_| self.ticks >= SMOOTHING).unwrap_or(0);
        Usage { share_bps, used_bps: self.used_bps }
    }

    /// Tells the kernel the socket's share, or lifts the limit where there is no cap.
    fn set(&mut self, allowance_per_mille: u64) {
        let share_bps = self.share_bps;
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
        if divides || lock(&alive.state).is_capped() {
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
        let pacer = Pacer::start(&progress, 1).unwrap();
        pacer.set_cap(Some(100_000_000));
        let (sockets, _peers) = connections(4);
        let mut members: Vec<Membership> = sockets
            .iter()
            .map(|socket| pacer.join(TcpLink::new(socket).unwrap(), PathIndex(0), true).unwrap())
            .collect();
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
        let pacer = Pacer::start(&progress, 1).unwrap();
        pacer.set_cap(Some(50_000_000));
        let (sockets, _peers) = connections(2);
        let _members: Vec<Membership> = sockets
            .iter()
            .map(|socket| pacer.join(TcpLink::new(socket).unwrap(), PathIndex(0), true).unwrap())
            .collect();
        pacer.look(true);
        let told = progress.snapshot().bandwidth.unwrap();
        assert_eq!(told.asked_bps, Some(50_000_000));
        assert!(told.in_force_bps.is_some_and(|bps| (49_000_000..=50_000_000).contains(&bps)), "{told:?}");
        // What the kernel may make up for is no part of the cap.
        while lock(&pacer.state).total.allowance_per_mille < allowance::MOST_PER_MILLE {
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
