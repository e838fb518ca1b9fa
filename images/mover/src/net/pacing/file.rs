//! The bandwidth caps: a fixed rate, or files that are watched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::quantity;

/// Time between reads of the file. The kubelet swaps it by a symbolic link, so its content is what counts.
const INTERVAL: Duration = Duration::from_millis(100);
/// More than any quantity needs.
const RATE_BYTES: usize = 64;

/// Reads the cap in bits per second; an absent or empty file means none.
pub(crate) fn read(path: &Path) -> Result<Option<u64>, String> {
    rate(&text(path, RATE_BYTES)?)
}

/// Reads the caps of so many paths, with commas between them; an absent or empty file means none, and so does an empty item.
pub(crate) fn read_each(path: &Path, paths: usize) -> Result<Vec<Option<u64>>, String> {
    let text = text(path, RATE_BYTES * paths)?;
    if text.is_empty() {
        return Ok(vec![None; paths]);
    }
    let rates: Vec<&str> = text.split(',').collect();
    if rates.len() != paths {
        return Err(format!("has {} rates, and there are {paths} paths", rates.len()));
    }
    rates.into_iter().map(|item| rate(item.trim())).collect()
}

fn text(path: &Path, most_bytes: usize) -> Result<String, String> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.len() > most_bytes => Err("is too long".into()),
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().trim_matches('"').to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn rate(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    quantity::parse(text).map(Some).map_err(|error| error.to_string())
}

/// Watches the file and reports every change of what `read` makes of it until `stop` is set. Unreadable content leaves what was in
/// force.
pub(crate) fn watch<T: PartialEq + Send + 'static>(
    path: PathBuf,
    read: impl Fn(&Path) -> Result<T, String> + Send + 'static,
    stop: Arc<AtomicBool>,
    apply: impl Fn(&T) + Send + 'static,
) -> io::Result<()> {
    let watcher = move || {
        let mut last = None;
        while !stop.load(Ordering::Relaxed) {
            let now = read(&path);
            if last.as_ref() != Some(&now) {
                match &now {
                    Ok(cap) => apply(cap),
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
    #[test]
    fn a_file_holds_a_rate_for_each_path_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bandwidth");
        assert_eq!(read_each(&path, 2), Ok(vec![None, None]));
        let long = "1".repeat(129);
        for (content, expected) in [
            ("", Some(vec![None, None])),
            ("2G,1500M\n", Some(vec![Some(2_000_000_000), Some(1_500_000_000)])),
            (",1M", Some(vec![None, Some(1_000_000)])),
            ("2G", None),
            ("2G,1G,1G", None),
            ("2G,fast", None),
            (&long, None),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read_each(&path, 2).ok(), expected, "{content:?}");
        }
    }
}
