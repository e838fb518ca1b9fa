//! What changes while data flows: streams, congestion control, the cap. Nothing is lost, nothing is sent twice.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use support::{control, http, inventory, noise, set_cap, unless_starved, Bench};

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
    bench.write("file", &noise(96 << 20, 1));
    let (receiver, port) = bench.receiver(&[]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let (cap, file) = bench.cap("4M");
    let extra =
        ["--streams", "1", "--control-socket", &path, "--bandwidth-file", &file, "--congestion-control", "reno"];
    let mut sender = bench.sender(port, &extra);
    // A stream that is removed sends the block it has before: 8 MiB in all at the end. Eleven times that is left for the one that stays,
    // which takes it 37 s: a test that stands still sees late that the others are gone.
    for (streams, name, rate) in [(1, "cubic", "4M"), (8, "reno", "4M"), (1, "cubic", "20M")] {
        // Root may choose any; elsewhere the one that every kernel allows must do.
        let (status, _) =
            http(control(&socket), "PATCH", "/v1/transport", &format!(r#"{{"congestion_control":"{name}"}}"#));
        let name = if status == 200 { name } else { "reno" };
        patch(&socket, &format!(r#"{{"streams":{streams}}}"#));
        set_cap(&cap, rate);
        sender.await_progress(|progress| progress["streams"] == streams);
        set_cap(&cap, "4M");
        let listed = stats(&socket);
        let open = listed["streams"].as_array().unwrap();
        assert!(open.iter().all(|stream| stream["congestion_control"] == name), "{listed}");
    }
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!((&sender.verdict["bytes_resent"], &receiver.verdict["bytes_resent"]), (&0.into(), &0.into()));
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

#[test]
fn a_send_buffer_is_set_on_live_and_later_streams_and_read_back() {
    let bench = Bench::new();
    bench.write("file", &noise(24 << 20, 4));
    let (receiver, port) = bench.receiver(&[]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let (cap, file) = bench.cap("4M");
    let mut sender = bench.sender(port, &["--streams", "1", "--control-socket", &path, "--bandwidth-file", &file]);
    sender.await_progress(|progress| progress["streams"] == 1);
    let before = stats(&socket);
    assert_eq!(
        (&before["socket_buffer"]["bytes"], &before["socket_buffer"]["set_by"]),
        (&Value::Null, &"Kernel".into())
    );
    let asked = before["socket_buffer"]["settable_bytes"].as_u64().unwrap() / 2;
    patch(&socket, &format!(r#"{{"socket_buffer_bytes":{asked}}}"#));
    patch(&socket, r#"{"streams":3}"#);
    sender.await_progress(|progress| progress["streams"] == 3);
    let after = stats(&socket);
    assert_eq!(
        (&after["socket_buffer"]["bytes"], &after["socket_buffer"]["set_by"]),
        (&asked.into(), &"Advisor".into())
    );
    let read_at_s = |told: &Value| told["read_at_seconds"].as_f64().unwrap();
    assert!(0.0 < read_at_s(&before) && read_at_s(&before) < read_at_s(&after), "{before} {after}");
    // The kernel doubles what it is asked for, for its own bookkeeping.
    let open = after["streams"].as_array().unwrap();
    assert!(open.iter().all(|stream| stream["send_buffer_bytes"] == 2 * asked), "{after}");
    assert!(open.iter().any(|stream| stream["busy_seconds"].as_f64() > Some(0.0)), "{after}");
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
}

#[test]
fn a_socket_buffer_of_the_users_is_not_chosen_anew() {
    let bench = Bench::new();
    bench.write("file", &noise(8 << 20, 5));
    let (receiver, port) = bench.receiver(&[]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let (cap, file) = bench.cap("4M");
    let extra = ["--streams", "1", "--control-socket", &path, "--bandwidth-file", &file, "--socket-buffer", "65536"];
    let mut sender = bench.sender(port, &extra);
    sender.await_progress(|progress| progress["streams"] == 1);
    let (status, refusal) = http(control(&socket), "PATCH", "/v1/transport", r#"{"socket_buffer_bytes":131072}"#);
    let refusal: Value = serde_json::from_str(&refusal).unwrap();
    assert_eq!(
        (status, &refusal["field"], &refusal["reason"]),
        (422, &"socket_buffer_bytes".into(), &"UserChoice".into())
    );
    let told = stats(&socket);
    assert_eq!((&told["socket_buffer"]["bytes"], &told["socket_buffer"]["set_by"]), (&65536.into(), &"User".into()));
    assert_eq!(told["streams"][0]["send_buffer_bytes"], 131_072, "{told}");
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
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
    bench.write("file", &noise(40 << 20, 2));
    let volume = bench.path("podinfo");
    project(&volume, 0, "5M");
    let (receiver, port) = bench.receiver(&[]);
    let file = volume.join("bandwidth").display().to_string();
    let mut sender = bench.sender(port, &["--bandwidth-file", &file]);
    let asked = |bps: u64| move |progress: &Value| progress["bandwidth"]["asked_bps"] == bps;
    let flowing = sender.await_progress(|progress| {
        progress["bandwidth"]["asked_bps"] == 5_000_000
            && progress["bandwidth"]["measured_bps"].as_u64() > Some(1_000_000)
    });
    let in_force = flowing["bandwidth"]["in_force_bps"].as_u64().unwrap();
    assert!((4_000_000..=5_000_000).contains(&in_force), "{flowing}");
    project(&volume, 1, "6M");
    sender.await_progress(asked(6_000_000));
    project(&volume, 2, "a lot");
    project(&volume, 3, "7M");
    sender.await_progress(asked(7_000_000));
    project(&volume, 4, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

/// Longer than a stall may last; then cut short by hand, and replaced by a shorter one.
#[test]
fn a_quiet_period_is_no_stall_moves_nothing_and_leaves_the_rate_alone() {
    unless_starved(rests_and_is_cut_short);
}

fn rests_and_is_cut_short(bench: &Bench) {
    bench.write("file", &noise(40 << 20, 3));
    let (mut receiver, port) = bench.receiver(&["--stall-timeout", "10"]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let (cap, file) = bench.cap("4M");
    set_cap(&cap, "8M");
    let mut sender =
        bench.sender(port, &["--stall-timeout", "10", "--control-socket", &path, "--bandwidth-file", &file]);
    let flows = |progress: &Value| progress["bandwidth"]["measured_bps"].as_u64() > Some(3_000_000);
    let rests = |progress: &Value| progress["bandwidth"]["measured_bps"].as_u64() < Some(200_000);
    sender.await_progress(flows);
    receiver.await_progress(|progress| progress["rate_bytes_per_second"].as_u64() > Some(250_000));
    assert_eq!(stats(&socket)["quiet_for_ms"], 0);
    patch(&socket, r#"{"quiet_for_ms":15000}"#);
    sender.await_progress(rests);
    // What was on its way may still have to be read.
    let mut before = receiver.await_event("progress");
    loop {
        let now = receiver.await_event("progress");
        let rests = now["bytes_transferred"] == before["bytes_transferred"];
        before = now;
        if rests {
            break;
        }
    }
    let bytes = before["bytes_transferred"].as_u64().unwrap();
    let mut seen = 0;
    loop {
        let now = receiver.await_event("progress");
        // While data is still held back afterwards, it was when the event was written.
        if stats(&socket)["quiet_for_ms"] == 0 {
            break;
        }
        assert!(now["bytes_transferred"].as_u64().unwrap() <= bytes, "{before} {now}");
        assert!(now["rate_bytes_per_second"].as_u64() > Some(250_000), "{now}");
        seen += 1;
    }
    assert!(seen > 0, "no event of the quiet period");
    sender.await_progress(flows);
    assert_eq!(stats(&socket)["quiet_for_ms"], 0, "it ended by itself");
    patch(&socket, r#"{"quiet_for_ms":15000}"#);
    sender.await_progress(rests);
    patch(&socket, r#"{"quiet_for_ms":0}"#);
    assert_eq!(stats(&socket)["quiet_for_ms"], 0);
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
    assert_eq!(receiver.verdict["bytes_resent"], 0, "{receiver:?}");
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

/// The sidecar is not trusted: whatever it asks, the transfer keeps to what its command line allows.
#[test]
fn a_control_socket_that_asks_for_more_than_is_allowed_changes_nothing() {
    let bench = Bench::new();
    bench.write("file", &noise(8 << 20, 6));
    let (receiver, port) = bench.receiver(&[]);
    let socket = bench.path("control");
    let path = socket.display().to_string();
    let (cap, file) = bench.cap("4M");
    let bounds = ["--streams-min", "2", "--streams-max", "4", "--congestion-controls", "reno"];
    let own = ["--streams", "2", "--control-socket", &path, "--bandwidth-file", &file, "--congestion-control", "reno"];
    let mut sender = bench.sender(port, &[&bounds[..], &own].concat());
    sender.await_progress(|progress| progress["streams"] == 2);
    for (body, reason) in [
        (r#"{"streams":64}"#, "OutOfRange"),
        (r#"{"streams":1}"#, "OutOfRange"),
        (r#"{"congestion_control":"cubic"}"#, "NotAllowed"),
        (r#"{"streams":3,"congestion_control":"bbr"}"#, "NotAllowed"),
        (r#"{"bandwidth":"10G"}"#, "Malformed"),
    ] {
        let (status, refusal) = http(control(&socket), "PATCH", "/v1/transport", body);
        let refusal: Value = serde_json::from_str(&refusal).unwrap();
        assert_eq!((status, &refusal["reason"]), (422, &reason.into()), "{body}");
    }
    let mut quiet_ms = 0;
    let refusal = loop {
        let (status, answer) = http(control(&socket), "PATCH", "/v1/transport", r#"{"quiet_for_ms":15000}"#);
        if status == 422 {
            break answer;
        }
        quiet_ms += 500;
        assert!(quiet_ms < 60_000, "it may be quiet for ever");
        std::thread::sleep(std::time::Duration::from_millis(500));
    };
    assert!(refusal.contains("QuietBudget"), "{refusal}");
    let now = stats(&socket);
    assert_eq!(now["streams"].as_array().unwrap().len(), 2, "{now}");
    assert_eq!(now["bandwidth"]["asked_bps"], 4_000_000, "{now}");
    patch(&socket, r#"{"streams":4,"congestion_control":"reno","quiet_for_ms":0}"#);
    set_cap(&cap, "");
    let (sender, receiver) = (sender.end(), receiver.end());
    assert_eq!((sender.reason(), receiver.reason()), ("Verified", "Verified"), "{sender:?} {receiver:?}");
}
