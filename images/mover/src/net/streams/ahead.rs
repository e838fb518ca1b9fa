//! How far a sender may run ahead of the receiver on a data connection.
//!
//! The kernel grows a receive buffer to what the path could need, up to many megabytes a stream. When the disk, not the path, is
//! the slower one, such a buffer is always full: it makes nothing faster, and all of it is sent in vain if the receiver dies. So
//! the bytes that were never read in a while (a standing queue, as CoDel looks for one: RFC 8289) are taken off the window that
//! is offered. A queue that runs empty gets its window back, so a stream that the path holds up is never held up here.

use std::net::TcpStream;

use rustix::io::ioctl_fionread;

/// Looks, one after each pack, from which the least queue is taken.
const LOOKS: u32 = 8;
/// Queue that may stand, so that the reader does not wait for the network.
const SPARE_BYTES: u64 = 128 << 10;
/// Least window: a few of the pieces that are read at once.
const LEAST_BYTES: u64 = 256 << 10;
/// Beyond this the kernel decides alone.
const MOST_BYTES: u64 = 64 << 20;
/// What lifts the limit.
const UNLIMITED: u32 = 1 << 30;

/// Bounds one connection.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The window in force; nothing if the kernel decides.
    limit_bytes: Option<u64>,
    least_queued: u64,
    looks: u32,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { limit_bytes: None, least_queued: u64::MAX, looks: 0 }
    }
}

impl Ahead {
    /// Looks at the connection once a pack was read, and bounds it anew if that is due. What the kernel does not tell is let be.
    pub(crate) fn look(&mut self, socket: &TcpStream) {
        let Ok(queued) = ioctl_fionread(socket) else { return };
        let free = || fairlead_sys::tcp_info(socket).ok()?.receive_window_bytes.map(u64::from);
        let Some(limit_bytes) = self.decide(queued, free) else { return };
        if let Err(error) = fairlead_sys::set_window_clamp(socket, limit_bytes) {
            tracing::debug!(%error, limit_bytes, "the receive window was not bounded");
        }
    }

    /// A new limit in bytes, if there is one, from the bytes that wait to be read and the window that is `free` beyond them.
    fn decide(&mut self, queued: u64, free: impl FnOnce() -> Option<u64>) -> Option<u32> {
        self.least_queued = self.least_queued.min(queued);
        self.looks += 1;
        if self.looks < LOOKS {
            return None;
        }
        let standing = self.least_queued;
        (self.least_queued, self.looks) = (u64::MAX, 0);
        if standing > SPARE_BYTES {
            let window = match self.limit_bytes {
                Some(limit) => limit,
                None => queued + free()?,
            };
            let wanted = window.saturating_sub(standing - SPARE_BYTES).clamp(LEAST_BYTES, MOST_BYTES);
            self.limit_bytes = Some(wanted);
            return Some(wanted as u32);
        }
        if standing > 0 {
            return None;
        }
        self.limit_bytes = self.limit_bytes?.checked_mul(2).filter(|doubled| *doubled <= MOST_BYTES);
        Some(self.limit_bytes.map_or(UNLIMITED, |bytes| bytes as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until a decision is due, with these queues and this free window at the end.
    fn decision(ahead: &mut Ahead, queued: [u64; LOOKS as usize], free: u64) -> Option<u32> {
        let mut last = None;
        for queued in queued {
            assert_eq!(last, None, "decided too early");
            last = ahead.decide(queued, || Some(free));
        }
        last
    }

    #[test]
    fn what_is_never_read_comes_off_the_window_and_an_empty_queue_gets_it_back() {
        let (mebi, kibi) = (1 << 20, 1 << 10);
        let mut ahead = Ahead::default();
        assert_eq!(decision(&mut ahead, [0; 8], mebi), None, "the kernel decides");
        let busy = [6 * mebi, 5 * mebi, 4 * mebi, 5 * mebi, 6 * mebi, 5 * mebi, 4 * mebi, 5 * mebi];
        assert_eq!(decision(&mut ahead, busy, mebi), Some((6 * mebi - (4 * mebi - 128 * kibi)) as u32));
        assert_eq!(decision(&mut ahead, [SPARE_BYTES; 8], mebi), None, "as it should be");
        assert_eq!(decision(&mut ahead, [600 * kibi; 8], 9 * mebi), Some((2 * mebi + 256 * kibi - 600 * kibi) as u32));
        assert_eq!(decision(&mut ahead, [9 * mebi; 8], 0), Some(LEAST_BYTES as u32), "never less");
        let sometimes_empty = [mebi, mebi, mebi, 0, mebi, mebi, mebi, mebi];
        for doubled in [512 * kibi, mebi, 2 * mebi, 4 * mebi, 8 * mebi, 16 * mebi, 32 * mebi, 64 * mebi] {
            assert_eq!(decision(&mut ahead, sometimes_empty, mebi), Some(doubled as u32));
        }
        assert_eq!(decision(&mut ahead, sometimes_empty, mebi), Some(UNLIMITED));
        assert_eq!(decision(&mut ahead, sometimes_empty, mebi), None, "the kernel decides again");
    }

    #[test]
    fn a_kernel_that_does_not_tell_its_window_is_let_be() {
        let mut ahead = Ahead::default();
        for _ in 0..100 {
            assert_eq!(ahead.decide(10 << 20, || None), None);
        }
    }

    /// A disk slower than the path: each pack takes a mebibyte off the queue, which the sender fills up to the window meanwhile.
    #[test]
    fn a_slow_disk_leaves_little_under_way_and_a_path_that_becomes_slow_is_not_bounded() {
        let (mut ahead, mut window, pack) = (Ahead::default(), 16u64 << 20, 1u64 << 20);
        let mut queued = window;
        for _ in 0..400 {
            queued = queued.saturating_sub(pack);
            if let Some(limit) = ahead.decide(queued, || Some(window.saturating_sub(queued))) {
                window = u64::from(limit).min(16 << 20);
            }
            queued = queued.max(window);
        }
        assert!(window <= 2 * pack, "{window}");
        for _ in 0..400 {
            if let Some(limit) = ahead.decide(0, || Some(window)) {
                window = u64::from(limit);
            }
        }
        assert_eq!(window, u64::from(UNLIMITED));
    }
}
