//! Tells a dead peer from a stalled transfer from a healthy one. Times are durations since any fixed start.

use std::time::Duration;

use crate::fault::{Fault, Reason};

/// Silence after which a peer counts as lost, and lack of progress after which a transfer counts as stalled.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Watches the peer's heartbeats and the progress of data.
pub struct Liveness {
    peer: &'static str,
    heard: Duration,
    progressed: Duration,
    work: u64,
    peer_work: u64,
    peer_waiting: bool,
}

impl Liveness {
    /// Starts at `now`; `peer` is the other end's role.
    pub fn new(peer: &'static str, now: Duration) -> Self {
        Self { peer, heard: now, progressed: now, work: 0, peer_work: 0, peer_waiting: false }
    }

    /// Any message came.
    pub fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// A heartbeat came with the peer's own measure of work.
    pub fn heartbeat(&mut self, now: Duration, work: u64, waiting: bool) {
        self.heard = now;
        self.peer_waiting = waiting;
        if work != self.peer_work {
            self.peer_work = work;
            self.progressed = now;
        }
    }

    /// Judges at `now`, given this end's measure of work and whether it waits on purpose.
    pub fn check(&mut self, now: Duration, work: u64, waiting: bool) -> Result<(), Fault> {
        if work != self.work || waiting || self.peer_waiting {
            self.work = work;
            self.progressed = now;
        }
        let silent = now.saturating_sub(self.heard);
        if silent > PATIENCE {
            let text = format!("nothing was heard from the {} for {} s", self.peer, silent.as_secs());
            return Err(Fault::new(Reason::PeerLost, text));
        }
        let idle = now.saturating_sub(self.progressed);
        if idle > PATIENCE {
            let text = format!(
                "no byte moved for {} s though the {} answers; look for a path that drops large packets, a full window or a slow disk",
                idle.as_secs(),
                self.peer
            );
            return Err(Fault::new(Reason::Stalled, text));
        }
        Ok(())
    }

    /// Time since the last progress.
    pub fn idle(&self, now: Duration) -> Duration {
        now.saturating_sub(self.progressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn silence_is_a_lost_peer() {
        let mut liveness = Liveness::new("receiver", at(0));
        assert_eq!(liveness.check(at(30), 1, false), Ok(()));
        assert_eq!(liveness.check(at(31), 2, false).map_err(|f| f.reason), Err(Reason::PeerLost));
    }

    #[test]
    fn heartbeats_without_work_are_a_stall_and_work_on_either_end_is_not() {
        let mut liveness = Liveness::new("receiver", at(0));
        for second in 0..100 {
            liveness.heartbeat(at(second), second, false);
            assert_eq!(liveness.check(at(second), 5, false), Ok(()));
        }
        for second in 100..130 {
            liveness.heartbeat(at(second), 99, false);
            assert_eq!(liveness.check(at(second), 5, false), Ok(()));
        }
        liveness.heartbeat(at(130), 99, false);
        assert_eq!(liveness.check(at(130), 5, false).map_err(|f| f.reason), Err(Reason::Stalled));
    }

    #[test]
    fn waiting_on_purpose_is_no_stall() {
        let mut liveness = Liveness::new("sender", at(0));
        for second in 0..200 {
            liveness.heartbeat(at(second), 0, second < 100);
            assert_eq!(liveness.check(at(second), 0, second >= 100), Ok(()));
        }
    }
}
