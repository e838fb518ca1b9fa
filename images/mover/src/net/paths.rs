//! The paths of a transfer: each from an interface of the sender to an address of the receiver. With more than one, a path that
//! carries nothing any more while another one does is given up at once: its connections are closed, and what they carried goes over
//! the others. Whoever connects over it again says so.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use fairlead_protocol::index::PathIndex;

use super::engine::DataLink;
use super::interface;
use super::tcp::Binding;
use crate::progress::Progress;
use crate::threads::lock;

/// Time between two looks at the paths.
const LOOK: Duration = Duration::from_millis(50);
/// Time without any acknowledgement after which a path is given up, and the same in round-trip times where that is longer.
const SILENCE: Duration = Duration::from_secs(1);
const SILENCE_ROUND_TRIPS: u32 = 3;
/// Another path must have been heard from so lately: if all are silent, it is not for one of them to be given up.
const HEARD: Duration = Duration::from_millis(500);

/// The two ends of a path.
#[derive(Clone, Debug)]
pub(crate) struct PathEnds {
    pub(crate) binding: Binding,
    pub(crate) peer: SocketAddr,
}

/// The paths, with the connections on them.
pub(crate) struct Paths {
    ends: Vec<PathEnds>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    up: Vec<bool>,
    connections: Vec<(u64, PathIndex, Arc<dyn DataLink>)>,
    next_id: u64,
}

/// A connection's place on its path; ends when dropped.
pub(crate) struct OnPath {
    paths: Arc<Paths>,
    id: u64,
}

impl Drop for OnPath {
    fn drop(&mut self) {
        lock(&self.paths.state).connections.retain(|(id, ..)| *id != self.id);
    }
}

impl Paths {
    /// At least one; more than one are watched from now on, until nobody uses them any more.
    pub(crate) fn start(ends: Vec<PathEnds>, progress: &Arc<Progress>) -> io::Result<Arc<Self>> {
        let state = State { up: vec![true; ends.len()], connections: Vec::new(), next_id: 0 };
        let paths = Arc::new(Self { ends, state: Mutex::new(state), changed: Condvar::new() });
        if paths.are_several() {
            let (weak, progress) = (Arc::downgrade(&paths), Arc::clone(progress));
            let watch = move || {
                let mut judge = PathJudge::default();
                while let Some(paths) = weak.upgrade() {
                    for path in judge.judge(progress.clock.now(), &paths.samples()) {
                        paths.give_up(path);
                    }
                    drop(paths);
                    thread::sleep(LOOK);
                }
            };
            thread::Builder::new().name("paths".into()).spawn(watch)?;
        }
        Ok(paths)
    }

    pub(crate) fn are_several(&self) -> bool {
        self.ends.len() > 1
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Every path, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = PathIndex> {
        (0..self.ends.len() as u8).map(PathIndex)
    }

    /// Every path, those that are up first.
    pub(crate) fn usable_first(&self) -> Vec<PathIndex> {
        let mut paths: Vec<PathIndex> = self.all().collect();
        paths.sort_by_key(|path| !self.is_up(*path));
        paths
    }

    pub(crate) fn ends(&self, path: PathIndex) -> &PathEnds {
        &self.ends[path.as_usize()]
    }

    pub(crate) fn is_up(&self, path: PathIndex) -> bool {
        lock(&self.state).up[path.as_usize()]
    }

    /// Waits until a path is up, or for `patience`.
    pub(crate) fn await_up(&self, path: PathIndex, patience: Duration) {
        let state = lock(&self.state);
        let is_down = |state: &mut State| !state.up[path.as_usize()];
        drop(self.changed.wait_timeout_while(state, patience, is_down).unwrap_or_else(PoisonError::into_inner));
    }

    /// A connection was made: its path is up, and watched by it until the value that is returned is dropped.
    pub(crate) fn connected(self: &Arc<Self>, path: PathIndex, link: Arc<dyn DataLink>) -> OnPath {
        let mut state = lock(&self.state);
        let id = state.next_id;
        state.next_id += 1;
        state.connections.push((id, path, link));
        let was_up = std::mem::replace(&mut state.up[path.as_usize()], true);
        drop(state);
        if !was_up {
            tracing::info!(path = path.0, peer = %self.ends(path).peer, "a path is back");
            self.changed.notify_all();
        }
        OnPath { paths: Arc::clone(self), id }
    }

    /// A connection could not be made: the path is down if nothing else is connected over it.
    pub(crate) fn not_connected(&self, path: PathIndex) {
        let mut state = lock(&self.state);
        if self.are_several() && !state.connections.iter().any(|(_, other, _)| *other == path) {
            state.up[path.as_usize()] = false;
        }
    }

    fn give_up(&self, path: PathIndex) {
        let mut state = lock(&self.state);
        state.up[path.as_usize()] = false;
        let PathEnds { binding, peer } = self.ends(path);
        tracing::warn!(path = path.0, interface = ?binding.interface, %peer, "a path carries nothing any more: its blocks go over the others");
        state.connections.iter().filter(|(_, other, _)| *other == path).for_each(|(_, _, link)| link.abort());
    }

    fn samples(&self) -> Vec<PathSample> {
        let state = lock(&self.state);
        let mut samples: Vec<PathSample> = self
            .ends
            .iter()
            .zip(&state.up)
            .map(|(ends, up)| PathSample {
                up: *up,
                has_carrier: ends.binding.interface.as_deref().and_then(interface::has_carrier).unwrap_or(true),
                ..PathSample::default()
            })
            .collect();
        for (_, path, link) in &state.connections {
            let sample = &mut samples[path.as_usize()];
            let Ok(seen) = link.state() else { continue };
            sample.connections += 1;
            sample.acknowledged_bytes = sample.acknowledged_bytes.wrapping_add(seen.bytes_acked);
            sample.awaits_acknowledgement |= seen.awaits_acknowledgement;
            sample.sends_again |= seen.sends_again;
            sample.rtt = sample.rtt.max(Duration::from_micros(seen.rtt_us.into()));
        }
        samples
    }
}

/// What is seen of a path at a time.
#[derive(Clone, Copy, Debug, Default)]
struct PathSample {
    up: bool,
    has_carrier: bool,
    connections: u32,
    acknowledged_bytes: u64,
    /// Something was sent and not acknowledged.
    awaits_acknowledgement: bool,
    /// And it was sent again, in vain.
    sends_again: bool,
    rtt: Duration,
}

/// Decides which paths are given up.
#[derive(Debug, Default)]
struct PathJudge {
    /// When each path was heard from, and the bytes acknowledged then.
    heard: Vec<(Duration, u64)>,
    /// Which paths have had a connection.
    known: Vec<bool>,
}

impl PathJudge {
    /// The paths to give up at `now`: those that lost their carrier, or are silent for too long, while another one is well. Of the only
    /// one with connections, another path need not be down.
    fn judge(&mut self, now: Duration, samples: &[PathSample]) -> Vec<PathIndex> {
        self.heard.resize(samples.len(), (now, 0));
        self.known.resize(samples.len(), false);
        for (sample, known) in samples.iter().zip(&mut self.known) {
            *known |= sample.connections > 0;
        }
        for (sample, heard) in samples.iter().zip(&mut self.heard) {
            if !sample.awaits_acknowledgement || sample.acknowledged_bytes != heard.1 {
                *heard = (now, sample.acknowledged_bytes);
            }
        }
        let silent = |path: usize| now.saturating_sub(self.heard[path].0);
        let is_well = |path: usize| {
            let sample = &samples[path];
            sample.up && sample.has_carrier && sample.connections > 0 && silent(path) < HEARD
        };
        let is_dead = |path: usize| {
            let sample = &samples[path];
            let patience = SILENCE.max(sample.rtt * SILENCE_ROUND_TRIPS);
            !sample.has_carrier || (sample.sends_again && silent(path) >= patience)
        };
        // When all data have arrived, streams end where they can. What is left, the control connection and those that cannot end, may be
        // on one path, and then nothing shows that another one is well. Before the data that is the control connection alone.
        let is_alone = samples.iter().map(|sample| sample.connections).sum::<u32>() == 1;
        let are_unconnected = |path: usize| (0..samples.len()).all(|at| at == path || samples[at].connections == 0);
        let may_be_well = |path: usize| samples[path].up && samples[path].has_carrier && (is_alone || self.known[path]);
        let given_up = |path: &usize| {
            let may_leave = |other: usize| is_well(other) || (are_unconnected(*path) && may_be_well(other));
            samples[*path].up && is_dead(*path) && (0..samples.len()).any(|other| other != *path && may_leave(other))
        };
        (0..samples.len()).filter(given_up).map(|path| PathIndex(path as u8)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::engine::tcp::TcpLink;
    use std::io::Read;
    use std::net::TcpStream;

    const WELL: PathSample = PathSample {
        up: true,
        has_carrier: true,
        connections: 4,
        acknowledged_bytes: 0,
        awaits_acknowledgement: true,
        sends_again: false,
        rtt: Duration::from_millis(30),
    };
    const SILENT: PathSample = PathSample { sends_again: true, ..WELL };
    const ALONE: PathSample = PathSample { connections: 1, ..SILENT };
    const UNCONNECTED: PathSample = PathSample { connections: 0, awaits_acknowledgement: false, ..WELL };

    /// When the first path is given up, in milliseconds, if the two are seen like this from then on; both flowed before. The bytes of
    /// one that flows go up.
    fn given_up_after(first: PathSample, second: PathSample, second_flows: bool) -> Option<u64> {
        let mut judge = PathJudge::default();
        judge.judge(Duration::ZERO, &[WELL, WELL]);
        (1..200).map(|look| look * 50).find(|ms| {
            let second = PathSample { acknowledged_bytes: if second_flows { *ms } else { 0 }, ..second };
            judge.judge(Duration::from_millis(*ms), &[first, second]).contains(&PathIndex(0))
        })
    }

    #[test]
    fn a_path_is_given_up_when_it_alone_is_silent_or_has_no_carrier() {
        let idle = PathSample { awaits_acknowledgement: false, ..WELL };
        let cases = [
            ("silent", SILENT, WELL, true, Some(1000)),
            ("silent, the other one idle", SILENT, idle, false, Some(1000)),
            ("nothing sent again yet", WELL, WELL, true, None),
            ("idle", idle, WELL, true, None),
            ("a long path", PathSample { rtt: Duration::from_millis(600), ..SILENT }, WELL, true, Some(1800)),
            ("both silent", SILENT, SILENT, false, None),
            ("the other one not connected any more", SILENT, UNCONNECTED, false, Some(1000)),
            ("neither connected", PathSample { connections: 0, ..idle }, UNCONNECTED, false, None),
            ("the only connection", ALONE, UNCONNECTED, false, Some(1000)),
            ("the only connection, the other one down", ALONE, PathSample { up: false, ..UNCONNECTED }, false, None),
            ("the other one down", SILENT, PathSample { up: false, ..WELL }, true, None),
            ("the other one without a carrier", SILENT, PathSample { has_carrier: false, ..WELL }, true, None),
            ("no carrier", PathSample { has_carrier: false, ..WELL }, WELL, true, Some(50)),
            ("down already", PathSample { up: false, ..SILENT }, WELL, true, None),
        ];
        for (name, first, second, flows, expected) in cases {
            assert_eq!(given_up_after(first, second, flows), expected, "{name}");
        }
    }

    #[test]
    fn streams_do_not_leave_their_path_for_one_that_has_never_been_connected() {
        let mut judge = PathJudge::default();
        judge.judge(Duration::ZERO, &[WELL, UNCONNECTED]);
        let given_up = (1..200).map(|look| judge.judge(Duration::from_millis(look * 50), &[SILENT, UNCONNECTED]));
        assert!(given_up.into_iter().all(|paths| paths.is_empty()));
    }

    #[test]
    fn a_path_that_is_acknowledged_in_time_is_kept_and_of_two_that_were_silent_the_one_that_stays_so_is_given_up() {
        let mut judge = PathJudge::default();
        let mut silent_since = 0;
        for ms in (0..10_000).step_by(50) {
            // The first is silent for 0.9 s of each second; both for the first two.
            let bytes = if ms < 2000 { 0 } else { ms / 950 };
            if ms == 2000 {
                silent_since = ms;
            }
            let second = PathSample { acknowledged_bytes: if ms < 2000 { 0 } else { ms }, ..SILENT };
            let first = PathSample { acknowledged_bytes: bytes, ..SILENT };
            assert!(judge.judge(Duration::from_millis(ms), &[first, second]).is_empty(), "{ms}, {silent_since}");
        }
        let later = |judge: &mut PathJudge, ms: u64| {
            let second = PathSample { acknowledged_bytes: ms, ..WELL };
            judge.judge(Duration::from_millis(ms), &[PathSample { acknowledged_bytes: 10, ..SILENT }, second])
        };
        assert!((10_000..=11_500).step_by(50).any(|ms| later(&mut judge, ms) == [PathIndex(0)]));
    }

    #[test]
    fn a_path_given_up_has_its_connections_closed_and_is_back_with_the_next_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let ends = PathEnds { binding: Binding::default(), peer };
        let paths = Paths::start(vec![ends.clone(), ends], &Arc::new(Progress::new())).unwrap();
        let connect = || TcpStream::connect(peer).unwrap();
        let (first, second) = (connect(), connect());
        let places = [(0, &first), (1, &second)]
            .map(|(path, socket)| paths.connected(PathIndex(path), TcpLink::new(socket).unwrap()));
        paths.give_up(PathIndex(0));
        assert_eq!(paths.usable_first(), [PathIndex(1), PathIndex(0)]);
        assert_eq!((&first).read(&mut [0]).unwrap(), 0, "it is closed");
        assert!(second.peer_addr().is_ok());
        drop(places);
        let _again = paths.connected(PathIndex(0), TcpLink::new(&connect()).unwrap());
        assert!(paths.is_up(PathIndex(0)));
        paths.await_up(PathIndex(0), Duration::from_secs(3600));
        paths.not_connected(PathIndex(0));
        assert!(paths.is_up(PathIndex(0)), "another connection holds it");
        paths.not_connected(PathIndex(1));
        assert!(!paths.is_up(PathIndex(1)));
    }
}
