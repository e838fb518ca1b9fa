//! Orderly end on SIGTERM, on SIGINT, and when a thread panics: within a bounded time whatever else is going on.

use std::io;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fairlead_protocol::{Fault, Reason};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Time the transfer has to end by itself after a signal or a panic.
const GRACE: Duration = Duration::from_millis(1500);
/// Threads whose server catches a panic, which costs the answer to one request.
const SERVERS: [&str; 2] = ["http", "control-socket"];

/// Whether a signal came, and which; and whether a thread panicked.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    signal: Arc<AtomicI32>,
    /// What is said of the first panic.
    defect: Arc<OnceLock<String>>,
}

impl Stop {
    /// Waits for signals and panics on threads of its own. If the process still runs after the grace, `overdue` is called with the fault;
    /// it must end the process.
    pub(crate) fn listen(&self, overdue: impl Fn(Fault) + Send + Sync + 'static) -> io::Result<()> {
        let overdue = Arc::new(overdue);
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let (stop, late) = (self.clone(), Arc::clone(&overdue));
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop.signal.store(signal, Ordering::Release);
                std::thread::sleep(GRACE);
                late(stopped(signal));
            }
        })?;
        let (first, panics) = sync_channel::<Fault>(1);
        std::thread::Builder::new().name("panics".into()).spawn(move || {
            if let Ok(fault) = panics.recv() {
                std::thread::sleep(GRACE);
                overdue(fault);
            }
        })?;
        let stop = self.clone();
        std::panic::set_hook(Box::new(move |panic| stop.note_panic(panic, &first)));
        Ok(())
    }

    /// Says in one line what happened. The first thread that panics unwinds, and with it end its connections. Any other stays as it is:
    /// what the first one left may be of no more use, as the locks of a library, and a destructor that panics for it in a thread that
    /// unwinds would end the process without a verdict; so would the end of the main thread.
    fn note_panic(&self, panic: &PanicHookInfo<'_>, first: &SyncSender<Fault>) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let text = told(name, panic);
        if SERVERS.contains(&name) {
            return tracing::error!("{text}");
        }
        let is_first = self.defect.set(text.clone()).is_ok();
        if is_first {
            tracing::error!("{text}");
            let _ = first.try_send(defect(&text));
        } else {
            tracing::debug!("{text}");
        }
        if !is_first || name == "main" {
            loop {
                std::thread::park();
            }
        }
    }

    /// The signal that came, if any.
    pub(crate) fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// A fault once a signal came or a thread panicked.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.signal().map_or(Ok(()), |signal| Err(stopped(signal)))?;
        self.defect.get().map_or(Ok(()), |text| Err(defect(text)))
    }
}

/// The fault for a stop by a signal.
fn stopped(signal: i32) -> Fault {
    let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
    Fault::new(Reason::StoppedBySignal, format!("stopped by {name}; partial files are kept"))
}

/// The fault for a panic.
fn defect(text: &str) -> Fault {
    Fault::new(Reason::InternalError, format!("{text}; partial files are kept"))
}

/// A panic for people: what, where, and what to do.
fn told(thread: &str, panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let what = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what: String = what.unwrap_or("no reason").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let place = panic.location().map_or_else(|| "a place unknown".to_owned(), ToString::to_string);
    format!("a defect of the mover: its thread {thread} failed at {place} ({what}); please report it")
}
