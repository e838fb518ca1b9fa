//! Orderly stop on SIGTERM and SIGINT, within a bounded time whatever else is going on.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::{Fault, Reason};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Time the transfer has to end by itself after a signal.
const GRACE: Duration = Duration::from_millis(1500);

/// Whether a signal came, and which.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    signal: Arc<AtomicI32>,
}

impl Stop {
    /// Waits for signals on a thread. If the process still runs after the grace, `overdue` is called; it must end the process.
    pub(crate) fn listen(&self, overdue: impl FnOnce(i32) + Send + 'static) -> io::Result<()> {
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let stop = self.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop.signal.store(signal, Ordering::Release);
                std::thread::sleep(GRACE);
                overdue(signal);
            }
        })?;
        Ok(())
    }

    /// The signal that came, if any.
    pub(crate) fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// A fault once a signal came.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.signal().map_or(Ok(()), |signal| Err(stopped(signal)))
    }
}

/// The fault for a stop by a signal.
pub(crate) fn stopped(signal: i32) -> Fault {
    let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
    Fault::new(Reason::StoppedBySignal, format!("stopped by {name}; partial files are kept"))
}
