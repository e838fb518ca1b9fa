//! Decides whether the peer is lost, the transfer stalled, or both healthy, and names the cause. Times are durations since any fixed start.

use std::time::Duration;

use crate::fault::{Fault, Reason};

/// Usual silence after which a peer counts as lost, and lack of progress after which a transfer counts as stalled.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How much longer one operation on the disk may take when no block waits for it: a sync of everything may have much to write.
const SETTLING: u32 = 10;

/// This end's state of its disk and its connections; zero where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Time that the oldest operation on this end's disk has been under way.
    pub disk: Duration,
    /// Segments of the control connection that wait for an acknowledgement were sent again so often.
    pub control_retransmissions: u32,
    /// Data streams that this end sends on.
    pub streams: u32,
    /// Data streams whose peer's window is closed.
    pub closed_windows: u32,
    /// Data streams that sent again what is not acknowledged.
    pub unacknowledged: u32,
}

/// Watches the peer's heartbeats and the progress of data.
pub struct Liveness {
    own: &'static str,
    peer: &'static str,
    patience: Duration,
    last_message: Duration,
    progressed: Duration,
    own_progressed: Duration,
    work: u64,
    peer_work: u64,
    peer_waiting: bool,
    peer_disk: Duration,
}

impl Liveness {
    /// Starts at `now`; `own` and `peer` are the ends' roles.
    pub fn new(own: &'static str, peer: &'static str, now: Duration, patience: Duration) -> Self {
        Self {
            own,
            peer,
            patience,
            last_message: now,
            progressed: now,
            own_progressed: now,
            work: 0,
            peer_work: 0,
            peer_waiting: false,
            peer_disk: Duration::ZERO,
        }
    }

    /// Any message came.
    pub fn message_received(&mut self, now: Duration) {
        self.last_message = now;
    }

    /// A heartbeat came with the peer's own measure of work and the time its disk has been at one operation.
    pub fn heartbeat(&mut self, now: Duration, work: u64, waiting: bool, disk: Duration) {
        self.last_message = now;
        self.peer_waiting = waiting;
        self.peer_disk = disk;
        if work != self.peer_work {
            self.peer_work = work;
            self.progressed = now;
        }
    }

    /// Judges at `now`, given this end's measure of work, whether it waits on purpose or does long work, and what it sees.
    pub fn check(
        &mut self,
        now: Duration,
        work: u64,
        waiting: bool,
        evidence: impl FnOnce() -> Evidence,
    ) -> Result<(), Fault> {
        self.note_work(now, work);
        if waiting || self.peer_waiting {
            self.progressed = now;
        }
        let silent = now.saturating_sub(self.last_message);
        let idle = now.saturating_sub(self.progressed);
        let own_idle = now.saturating_sub(self.own_progressed);
        if silent <= self.patience && idle <= self.patience && own_idle <= self.patience {
            return Ok(());
        }
        let evidence = evidence();
        if silent > self.patience {
            return Err(Fault::new(Reason::PeerLost, self.silence(silent, &evidence)));
        }
        if idle > self.patience {
            return Err(Fault::new(Reason::Stalled, self.stall(idle, &evidence)));
        }
        self.judge_disk(own_idle, evidence.disk)
    }

    /// Judges at `now` an end that can go on without its peer: it fails only if its own `disk` hangs.
    pub fn check_alone(&mut self, now: Duration, work: u64, disk: Duration) -> Result<(), Fault> {
        self.note_work(now, work);
        self.judge_disk(now.saturating_sub(self.own_progressed), disk)
    }

    fn note_work(&mut self, now: Duration, work: u64) {
        if work != self.work {
            self.work = work;
            self.own_progressed = now;
            self.progressed = now;
        }
    }

    fn judge_disk(&self, own_idle: Duration, disk: Duration) -> Result<(), Fault> {
        let hung = own_idle.min(disk);
        if hung > self.patience * SETTLING {
            return Err(Fault::new(Reason::Stalled, slow_disk(self.own, hung)));
        }
        Ok(())
    }

    fn silence(&self, silent: Duration, evidence: &Evidence) -> String {
        let (peer, seconds) = (self.peer, silent.as_secs());
        match evidence.control_retransmissions {
            0 => format!(
                "peer silent: nothing was heard from the {peer} for {seconds} s, though its host acknowledges what is sent; look whether its process is frozen or starved"
            ),
            times => format!(
                "path down: nothing was heard from the {peer} for {seconds} s and what was sent again {times} times was not acknowledged; look at the network between the two ends"
            ),
        }
    }

    fn stall(&self, idle: Duration, evidence: &Evidence) -> String {
        let (peer, seconds, half) = (self.peer, idle.as_secs(), self.patience / 2);
        if evidence.disk >= half {
            return slow_disk(self.own, evidence.disk);
        }
        if self.peer_disk >= half {
            return slow_disk(peer, self.peer_disk);
        }
        if evidence.closed_windows > 0 {
            return format!(
                "window full: no byte moved for {seconds} s; the {peer} answers but does not read on {} of {} streams; look whether its host is overloaded",
                evidence.closed_windows, evidence.streams
            );
        }
        if evidence.unacknowledged > 0 {
            return format!(
                "path down: no byte moved for {seconds} s; the {peer} answers, but {} of {} streams get no acknowledgement for what they send again and again; look for a path that drops large packets",
                evidence.unacknowledged, evidence.streams
            );
        }
        format!(
            "no byte moved for {seconds} s though the {peer} answers; look for a path that drops large packets, a full window or a slow disk"
        )
    }

    /// Time since the last progress.
    pub fn idle(&self, now: Duration) -> Duration {
        now.saturating_sub(self.progressed)
    }
}

fn slow_disk(role: &str, time: Duration) -> String {
    format!(
        "disk slow: an operation on the {role}'s file system has not returned for {} s; look at the volume there",
        time.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn liveness() -> Liveness {
        Liveness::new("sender", "receiver", at(0), PATIENCE)
    }

    fn nothing() -> Evidence {
        Evidence::default()
    }

    #[test]
    fn silence_is_a_lost_peer_and_says_whether_the_path_is_to_blame() {
        for (control_retransmissions, cause) in [(0, "peer silent"), (7, "path down")] {
            let mut liveness = liveness();
            let evidence = || Evidence { control_retransmissions, ..nothing() };
            assert_eq!(liveness.check(at(30), 1, false, evidence), Ok(()));
            let fault = liveness.check(at(31), 2, false, evidence).unwrap_err();
            assert_eq!(fault.reason, Reason::PeerLost);
            assert!(fault.message.starts_with(cause), "{fault}");
        }
    }

    #[test]
    fn heartbeats_without_work_are_a_stall_and_work_on_either_end_is_not() {
        let mut liveness = liveness();
        for second in 0..100 {
            liveness.heartbeat(at(second), second, false, at(0));
            assert_eq!(liveness.check(at(second), 5, false, nothing), Ok(()));
        }
        for second in 100..130 {
            liveness.heartbeat(at(second), 99, false, at(0));
            assert_eq!(liveness.check(at(second), 5, false, nothing), Ok(()));
        }
        liveness.heartbeat(at(130), 99, false, at(0));
        assert_eq!(liveness.check(at(130), 5, false, nothing).map_err(|f| f.reason), Err(Reason::Stalled));
    }

    #[test]
    fn a_stall_names_its_cause() {
        let streams = Evidence { streams: 4, ..nothing() };
        let cases = [
            (Evidence { disk: at(20), closed_windows: 4, ..streams }, at(0), "disk slow: an operation on the sender's"),
            (Evidence { closed_windows: 4, ..streams }, at(29), "disk slow: an operation on the receiver's"),
            (Evidence { closed_windows: 3, unacknowledged: 1, ..streams }, at(2), "window full"),
            (Evidence { unacknowledged: 2, ..streams }, at(0), "path down"),
            (streams, at(0), "no byte moved"),
        ];
        for (evidence, peer_disk, cause) in cases {
            let mut liveness = liveness();
            liveness.heartbeat(at(31), 0, false, peer_disk);
            let fault = liveness.check(at(31), 0, false, || evidence).unwrap_err();
            assert_eq!(fault.reason, Reason::Stalled);
            assert!(fault.message.starts_with(cause), "{fault} is not {cause}");
        }
    }

    #[test]
    fn waiting_on_purpose_is_no_stall() {
        let mut liveness = liveness();
        for second in 0..200 {
            liveness.heartbeat(at(second), 0, second < 100, at(0));
            assert_eq!(liveness.check(at(second), 0, second >= 100, nothing), Ok(()));
        }
    }

    #[test]
    fn a_disk_that_hangs_while_nothing_else_is_expected_is_a_stall_in_the_end() {
        let mut liveness = liveness();
        for second in 0..=300 {
            liveness.heartbeat(at(second), 0, false, at(0));
            assert_eq!(
                liveness.check(at(second), 1, true, || Evidence { disk: at(second), ..nothing() }),
                Ok(()),
                "{second}"
            );
        }
        liveness.heartbeat(at(302), 0, false, at(0));
        let fault = liveness.check(at(302), 1, true, || Evidence { disk: at(302), ..nothing() }).unwrap_err();
        assert!(fault.message.starts_with("disk slow"), "{fault}");
        // One operation after the other is no stall.
        assert_eq!(liveness.check(at(302), 1, true, || Evidence { disk: at(2), ..nothing() }), Ok(()));
    }
    #[test]
    fn an_end_that_needs_its_peer_no_more_judges_its_disk_alone() {
        let mut liveness = liveness();
        // Nothing is heard from the peer.
        for second in 0..=300 {
            assert_eq!(liveness.check_alone(at(second), 1, at(second)), Ok(()), "{second}");
        }
        let fault = liveness.check_alone(at(302), 1, at(302)).unwrap_err();
        assert!(fault.reason == Reason::Stalled && fault.message.starts_with("disk slow"), "{fault}");
        assert_eq!(liveness.check_alone(at(302), 2, at(302)), Ok(()), "work goes on");
    }
}
