//! Threads and the locks between them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fairlead_protocol::{Fault, Reason};

/// Locks, even if another holder panicked: each change under these locks is whole in itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread of this name for long work.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(|_| ()).map_err(|error| Fault::new(Reason::InternalError, format!("no thread to {name}: {error}")))
}
