//! The bandwidth cap: a fixed rate, or a file that is watched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::quantity;

/// Time between reads of the file. The kubelet swaps it by a symbolic link, so its content is what counts.
const INTERVAL: Duration = Duration::from_millis(100);
/// More than any quantity needs.
const FILE_BYTES: usize = 64;

/// Reads the cap in bits per second; an absent or empty file means none.
pub(crate) fn read(path: &Path) -> Result<Option<u64>, String> {
    let text = match std::fs::read(path) {
        Ok(bytes) if bytes.len() > FILE_BYTES => return Err("is too long for a rate".into()),
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().trim_matches('"').to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if text.is_empty() {
        return Ok(None);
    }
    quantity::parse(&text).map(Some).map_err(|error| error.to_string())
}

/// Watches the file and reports every change until `stop` is set. Unreadable content leaves the last cap in force.
pub(crate) fn watch(
    path: PathBuf,
    stop: Arc<AtomicBool>,
    apply: impl Fn(Option<u64>) + Send + 'static,
) -> io::Result<()> {
    let watcher = move || {
        let mut last = None;
        while !stop.load(Ordering::Relaxed) {
            let now = read(&path);
            if last.as_ref() != Some(&now) {
                match &now {
                    Ok(cap) => apply(*cap),
                    Err(why) => tracing::warn!(path = %path.display(), %why, "the bandwidth cap was left as it is"),
                }
                last = Some(now);
            }
            std::thread::sleep(INTERVAL);
        }
    };
    std::thread::Builder::new().name("bandwidth".into()).spawn(watcher)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_a_rate_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bandwidth");
        assert_eq!(read(&path), Ok(None));
        for (content, expected) in
            [("", Some(None)), ("\n", Some(None)), ("2G\n", Some(Some(2_000_000_000))), ("fast", None)]
        {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read(&path).ok(), expected, "{content:?}");
        }
    }
}
