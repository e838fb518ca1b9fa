//! What changes while data flows: streams, congestion control, the cap. Nothing is lost, nothing is sent twice.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use support::{control, http, inventory, noise, Bench};

fn patch(socket: &Path, body: &str) {
    let (status, answer) = http(control(socket), "PATCH", "/v1/transport", body);
    assert_eq!(status, 200, "{answer}");
}

fn stats(socket: &Path) -> Value {
    serde_json::from_str(&http(control(socket), "GET", "/v1/stats", "").1).unwrap()
}

#[test]
fn streams_come_and_go_and_congestion_controls_change_without_a_block_sent_twice() {
    let bench = Bench::new();
    // Large enough to be written past the page cache, with a tail that is not.
    bench.write("file", &noise((96 << 20) + 4097, 1));
    let (receiver, port) = bench.receiver(&[]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let extra = ["--streams", "1", "--control-socket", &path, "--bandwidth", "200M", "--congestion-control", "reno"];
    let mut sender = bench.sender(port, &extra);
    for (streams, name) in [(1, "cubic"), (64, "reno"), (1, "cubic"), (64, "cubic"), (1, "reno")] {
        // Root may choose any; elsewhere the one that every kernel allows must do.
        let (status, _) =
            http(control(&socket), "PATCH", "/v1/transport", &format!(r#"{{"congestion_control":"{name}"}}"#));
        let name = if status == 200 { name } else { "reno" };
        patch(&socket, &format!(r#"{{"streams":{streams}}}"#));
        sender.await_progress(|progress| progress["streams"] == streams);
        let listed = stats(&socket);
        let open = listed["streams"].as_array().unwrap();
        assert!(open.iter().all(|stream| stream["congestion_control"] == name), "{listed}");
    }
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!((&sender.verdict["bytes_resent"], &receiver.verdict["bytes_resent"]), (&0.into(), &0.into()));
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

/// Writes the file as the kubelet projects an annotation: a new folder, then one rename of the link to it.
fn project(volume: &Path, version: u32, content: &str) {
    let folder = format!("..{version}");
    std::fs::create_dir_all(volume.join(&folder)).unwrap();
    std::fs::write(volume.join(&folder).join("bandwidth"), content).unwrap();
    symlink(&folder, volume.join("..new")).unwrap();
    std::fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
    if version == 0 {
        symlink("..data/bandwidth", volume.join("bandwidth")).unwrap();
    }
}

#[test]
fn a_cap_in_a_file_is_followed_reported_and_kept_when_it_becomes_nonsense() {
    let bench = Bench::new();
    bench.write("file", &noise(64 << 20, 2));
    let volume = bench.path("podinfo");
    project(&volume, 0, "50M");
    let (receiver, port) = bench.receiver(&[]);
    let file = volume.join("bandwidth").display().to_string();
    let mut sender = bench.sender(port, &["--bandwidth-file", &file]);
    let asked = |bps: Option<u64>| move |progress: &Value| progress["bandwidth"]["asked_bps"] == Value::from(bps);
    let flowing = sender.await_progress(|progress| {
        progress["bandwidth"]["asked_bps"] == 50_000_000
            && progress["bandwidth"]["measured_bps"].as_u64() > Some(1_000_000)
    });
    let in_force = flowing["bandwidth"]["in_force_bps"].as_u64().unwrap();
    assert!((40_000_000..=50_000_000).contains(&in_force), "{flowing}");
    project(&volume, 1, "100M");
    sender.await_progress(asked(Some(100_000_000)));
    project(&volume, 2, "a lot");
    project(&volume, 3, "120M");
    sender.await_progress(asked(Some(120_000_000)));
    project(&volume, 4, "");
    let lifted = sender.await_progress(asked(None));
    assert_eq!(lifted["bandwidth"]["in_force_bps"], Value::Null);
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}
