//! The rooms of the program use each other in one direction only.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Each room with the other rooms that its code may use.
const MAY_USE: [(&str, &[&str]); 8] = [
    ("threads.rs", &[]),
    ("progress", &["threads"]),
    ("fs", &["progress", "threads", "fault_injection"]),
    ("net", &["progress", "threads", "quantity", "fault_injection"]),
    ("report", &["progress", "threads"]),
    ("cli.rs", &["fs", "quantity"]),
    ("preflight", &["cli", "fs", "net", "progress", "threads"]),
    ("control", &["cli", "net", "progress", "threads"]),
];

fn sources(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    std::fs::read_dir(place).unwrap().flat_map(|entry| sources(&entry.unwrap().path())).collect()
}

#[test]
fn a_room_uses_only_the_rooms_below_it() {
    let root = Path::new("src");
    for (room, allowed) in MAY_USE {
        let own = room.trim_end_matches(".rs");
        for file in sources(&root.join(room)).into_iter().filter(|file| !file.ends_with("tests.rs")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for used in text.split("crate::").skip(1) {
                let used = used.split(|next: char| !next.is_alphanumeric() && next != '_').next().unwrap();
                assert!(used == own || allowed.contains(&used), "{} uses {used}", file.display());
            }
        }
    }
}
