//! Faults on purpose, for tests of what happens then. Without the feature `fault-injection` everything here is empty.

#[cfg(feature = "fault-injection")]
use fairlead_protocol::index::PackId;

/// Flips a bit in the pack named by `FAIRLEAD_FAULT_DAMAGE_PACK`, after its digest was taken.
#[cfg(feature = "fault-injection")]
pub(crate) fn damage(pack: PackId, bytes: &mut [u8]) {
    if let (true, Some(byte)) = (number("FAIRLEAD_FAULT_DAMAGE_PACK") == Some(pack.0), bytes.first_mut()) {
        *byte ^= 1;
    }
}

/// Kills the process when it comes to its `FAIRLEAD_FAULT_KILL_AT`-th change of the file system, before that change.
#[cfg(feature = "fault-injection")]
pub(crate) fn crash_point() {
    if is_fatal() {
        kill();
    }
}

/// Does not return when `FAIRLEAD_FAULT_HANG` names this operation: a disk that does not answer. If `FAIRLEAD_FAULT_HANG_WHILE` names a
/// file, it answers once that file is gone.
#[cfg(feature = "fault-injection")]
pub(crate) fn hang_point(operation: &str) {
    let hangs =
        || std::env::var_os("FAIRLEAD_FAULT_HANG_WHILE").is_none_or(|file| std::path::Path::new(&file).exists());
    while std::env::var("FAIRLEAD_FAULT_HANG").is_ok_and(|named| named == operation) && hangs() {
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

/// Breaks the connection that is at this place when it is first passed, if `FAIRLEAD_FAULT_BREAK` names the place.
#[cfg(feature = "fault-injection")]
pub(crate) fn break_point(place: &str) -> std::io::Result<()> {
    use std::sync::atomic::{AtomicBool, Ordering};
    static DONE: AtomicBool = AtomicBool::new(false);
    let is_named = std::env::var("FAIRLEAD_FAULT_BREAK").is_ok_and(|named| named == place);
    if is_named && !DONE.swap(true, Ordering::AcqRel) {
        return Err(std::io::ErrorKind::ConnectionReset.into());
    }
    Ok(())
}

/// Panics when it is passed for the n-th time at the `place` that `FAIRLEAD_FAULT_PANIC` names as `place:n`.
#[cfg(feature = "fault-injection")]
#[allow(clippy::panic)]
pub(crate) fn panic_point(place: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(1);
    let named = std::env::var("FAIRLEAD_FAULT_PANIC").unwrap_or_default();
    let times = named.split_once(':').filter(|(named, _)| *named == place).map(|(_, times)| times.to_owned());
    if times.is_some_and(|times| times == PASSED.fetch_add(1, Ordering::AcqRel).to_string()) {
        panic!("a fault on purpose at {place}");
    }
}

/// As `crash_point`, for an append of `bytes`: part of them is written first.
#[cfg(feature = "fault-injection")]
pub(crate) fn torn_append(mut file: &std::fs::File, bytes: &[u8]) {
    if is_fatal() {
        let _ = std::io::Write::write_all(&mut file, &bytes[..bytes.len() / 2]);
        kill();
    }
}

/// Once, damages a partial file on its way to the disk if `FAIRLEAD_FAULT_DAMAGE_DISK` is the offset of a byte in it.
#[cfg(feature = "fault-injection")]
pub(crate) fn damage_disk(file: &std::fs::File) {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    static DONE: AtomicBool = AtomicBool::new(false);
    let Some(offset) = number("FAIRLEAD_FAULT_DAMAGE_DISK") else { return };
    let mut byte = [0];
    if file.read_exact_at(&mut byte, offset).is_ok() && !DONE.swap(true, Ordering::AcqRel) {
        let _ = file.write_all_at(&[byte[0] ^ 1], offset);
        let _ = file.sync_all();
    }
}

#[cfg(feature = "fault-injection")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[cfg(feature = "fault-injection")]
fn is_fatal() -> bool {
    use std::sync::atomic::{AtomicU64, Ordering};
    static POINTS: AtomicU64 = AtomicU64::new(1);
    number("FAIRLEAD_FAULT_KILL_AT") == Some(POINTS.fetch_add(1, Ordering::AcqRel))
}

#[cfg(feature = "fault-injection")]
fn kill() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::thread::park();
}

#[cfg(not(feature = "fault-injection"))]
pub(crate) fn crash_point() {}

#[cfg(not(feature = "fault-injection"))]
pub(crate) fn hang_point(_: &str) {}

#[cfg(not(feature = "fault-injection"))]
pub(crate) fn break_point(_: &str) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(feature = "fault-injection"))]
pub(crate) fn panic_point(_: &str) {}

#[cfg(not(feature = "fault-injection"))]
pub(crate) fn torn_append(_: &std::fs::File, _: &[u8]) {}

#[cfg(not(feature = "fault-injection"))]
pub(crate) fn damage_disk(_: &std::fs::File) {}
