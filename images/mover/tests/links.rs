//! A job's own path on a volume that others write to: no symbolic link on it is followed, at either end, whenever it is put there.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use support::{inventory, noise, Bench};

/// A volume with another user's files in it, and a directory `a/b/c` that the job names.
struct Volume {
    folder: tempfile::TempDir,
}

impl Volume {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/b/c", "private/b/c"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("a/b/c/wanted"), noise(2 << 20, 1)).unwrap();
        std::fs::write(folder.path().join("private/b/c/secret"), "secret").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arguments(&self, flag: &'static str, path: &str) -> [String; 4] {
        let shown = |path: PathBuf| path.display().to_string();
        [flag.into(), shown(self.path(path)), "--volume".into(), shown(self.path(""))]
    }

    /// The component of `a/b/c` at this depth becomes a link to its counterpart in `private`.
    fn link(&self, depth: usize) -> PathBuf {
        let (own, other) = [("a", "private"), ("a/b", "private/b"), ("a/b/c", "private/b/c")][depth];
        std::fs::rename(self.path(own), self.path("moved")).unwrap();
        symlink(self.path(other), self.path(own)).unwrap();
        self.path(own)
    }
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_link_in_any_component_of_the_source_sends_nothing() {
    for depth in 0..3 {
        let (bench, volume) = (Bench::new(), Volume::new());
        let link = volume.link(depth);
        let arguments = volume.arguments("--source", "a/b/c");
        let sender = bench.sender(1, &words(&arguments)).end();
        assert_eq!((sender.code(), sender.reason()), (Some(3), "SourceUnreadable"), "{sender:?}");
        assert!(sender.message().contains(&format!("{} is a symbolic link", link.display())), "{sender:?}");
        assert_eq!(sender.verdict["bytes_transferred"], 0);
    }
}

#[test]
fn a_link_in_any_component_of_the_destination_has_nothing_written_or_removed_behind_it() {
    for depth in 0..3 {
        let (bench, volume) = (Bench::new(), Volume::new());
        std::fs::create_dir(volume.path("private/b/c/.fairlead-local")).unwrap();
        let link = volume.link(depth);
        let before = inventory(&volume.path("private"));
        let arguments = volume.arguments("--destination", "a/b/c");
        let receiver = bench.receiver_of(1, &words(&arguments), &[]).map(drop).unwrap_err();
        assert_eq!((receiver.code(), receiver.reason()), (Some(3), "DestinationUnwritable"), "{receiver:?}");
        assert!(receiver.message().contains(&format!("{} is a symbolic link", link.display())), "{receiver:?}");
        let clean = [vec!["clean", "--job", "local"], words(&arguments)].concat();
        assert_eq!(support::run(&clean).code(), Some(3));
        assert_eq!(inventory(&volume.path("private")), before);
    }
}

#[test]
fn missing_parents_are_made_beneath_the_volume_and_cleaned_there() {
    let (bench, volume) = (Bench::new(), Volume::new());
    let receiver = volume.arguments("--destination", "new/deep/er");
    let sender = volume.arguments("--source", "a/b/c");
    let (receiver, sender) = bench.transfer(&words(&receiver), &words(&sender));
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(inventory(&volume.path("new/deep/er")), inventory(&volume.path("a/b/c")));
    let clean = volume.arguments("--destination", "new/deep/er");
    assert_eq!(support::run(&[vec!["clean", "--job", "local"], words(&clean)].concat()).code(), Some(0));
}

#[test]
fn a_path_outside_its_volume_is_a_mistake_of_usage() {
    let nothing = ["--tls-dir", "/nonexistent", "--volume", "/data"];
    let cases: [&[&str]; 3] = [
        &["receive", "--port", "0", "--destination", "/data/../etc"],
        &["send", "--connect", "127.0.0.1:1", "--source", "/database"],
        &["send", "--connect", "127.0.0.1:1", "--source", "relative"],
    ];
    for case in cases {
        assert_eq!(support::run(&[case, &nothing].concat()).code(), Some(2), "{case:?}");
    }
    let clean = ["clean", "--job", "local", "--destination", "/etc", "--volume", "/data"];
    assert_eq!(support::run(&clean).code(), Some(2));
}

/// Exchanges a directory for a link, and back, until it is dropped.
struct Exchange {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Exchange {
    fn start(directory: PathBuf, link: PathBuf) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, here) = (Arc::clone(&over), rustix::fs::CWD);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let _ = rustix::fs::renameat_with(here, &directory, here, &link, flags);
                // Each step of a mover meets either of them.
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn components_that_are_exchanged_for_links_while_it_runs_move_the_right_tree_or_nothing() {
    let (bench, volume) = (Bench::new(), Volume::new());
    symlink(volume.path("private"), volume.path("link")).unwrap();
    let private = inventory(&volume.path("private"));
    let exchange = Exchange::start(volume.path("a"), volume.path("link"));
    for round in 0..6 {
        let destination = volume.arguments("--destination", &format!("a/b/new{round}"));
        let Ok((receiver, port)) = bench.receiver_of(1, &words(&destination), &[]) else { continue };
        let sender = bench.sender(port, &words(&volume.arguments("--source", "a/b/c"))).end();
        if sender.reason() != "Verified" {
            receiver.signal("TERM");
        }
        receiver.end();
    }
    drop(exchange);
    assert_eq!(inventory(&volume.path("private")), private, "nothing was written behind the link");
    let real = if volume.path("a").is_symlink() { volume.path("link") } else { volume.path("a") };
    for arrived in std::fs::read_dir(real.join("b")).unwrap().flatten() {
        assert!(!arrived.path().join("secret").exists(), "nothing was read behind the link");
    }
}
