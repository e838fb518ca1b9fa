//! What both ends' `/metrics` say of transfers whose truth is known. Needs the feature `fault-injection`.
#![allow(clippy::unwrap_used)]

mod support;

use support::namespaces::Namespaces;
use support::pages::{
    assert_conventional, await_page, carried, is_publishing, kill, of_interface, value, HOLD, PATIENT,
};
use support::{get, inventory, noise, Bench};

const LARGE: u64 = (6 << 20) + 5;
const THERE: u64 = 10_000;
const MANY: u64 = 20;
const LATER: u64 = 100_000;
/// A large file's block, which is a pack of its own.
const BLOCK: u64 = 1 << 20;
const KEEP: [&str; 2] = ["--overwrite", "IfDifferent"];

fn assert_values(page: &str, expected: &[(&str, u64)]) {
    for (name, number) in expected {
        assert_eq!(value(page, name), Some(*number as f64), "{name} in {page}");
    }
}

/// Runs an attempt until all its data is durable; the receiver's and the sender's pages then. Both ends are killed.
fn held_attempt(bench: &Bench, attempt: u32, damage: &[(&str, &str)]) -> (String, String) {
    let (receiver, port, receiver_pages) = bench.served_receiver(attempt, &[PATIENT.as_slice(), &KEEP].concat(), &HOLD);
    let extra = [&PATIENT[..], &["--http", "127.0.0.1:0", "--bandwidth", "400M"]].concat();
    let mut sender = bench.sender_under(attempt, port, &extra, damage);
    let sender_pages = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    let receiver_page = await_page(|| get(&receiver_pages, "/metrics").1, is_publishing);
    let sender_page = get(&sender_pages, "/metrics").1;
    kill(receiver, sender);
    assert_conventional(&receiver_page);
    assert_conventional(&sender_page);
    (receiver_page, sender_page)
}

#[test]
fn files_bytes_damage_and_what_earlier_attempts_left_are_counted_as_they_were() {
    let bench = Bench::new();
    bench.write("large", &noise(LARGE as usize, 1));
    bench.write("small", b"x");
    for file in 0..MANY {
        bench.write(&format!("many/{file}"), &noise(4096, 100 + file));
    }
    bench.write("there", &noise(THERE as usize, 2));
    std::fs::create_dir(bench.destination()).unwrap();
    bench.copy_to_destination("there");
    let sent = LARGE + 1 + MANY * 4096;

    let (receiver, sender) = held_attempt(&bench, 1, &[("FAIRLEAD_FAULT_DAMAGE_PACK", "3")]);
    let both = [
        ("bytes", sent + THERE),
        ("files", MANY + 3),
        ("transferred_bytes_total", sent),
        ("transferred_files_total", MANY + 2),
        ("skipped_bytes_total", THERE),
        ("skipped_files_total", 1),
        ("damaged_packs_total", 1),
        ("resent_bytes_total", BLOCK),
        ("resumed_bytes", 0),
        ("quiet_seconds_total", 0),
    ];
    assert_values(&receiver, &both);
    assert_values(&receiver, &[("durable_bytes_total", sent)]);
    assert_values(&sender, &both);
    assert_values(&sender, &[("stage{stage=\"Verifying\"}", 1), ("bandwidth_asked_bytes_per_second", 50_000_000)]);
    for page in [&receiver, &sender] {
        // Two looks are half a second apart, and all that was sent may be counted between them.
        assert!(value(page, "goodput_bytes_per_second").is_some_and(|rate| rate <= 2.0 * sent as f64), "{page}");
    }
    assert_eq!(value(&receiver, "wire_bytes_total"), None);

    bench.write("later", &noise(LATER as usize, 3));
    let (receiver, sender) = held_attempt(&bench, 2, &[]);
    let both = [
        ("bytes", sent + THERE + LATER),
        ("files", MANY + 4),
        ("transferred_bytes_total", sent + LATER),
        ("transferred_files_total", MANY + 3),
        ("skipped_bytes_total", THERE),
        ("damaged_packs_total", 0),
        ("resumed_bytes", sent),
    ];
    assert_values(&receiver, &both);
    assert_values(&receiver, &[("durable_bytes_total", LATER)]);
    assert_values(&sender, &both);
    assert_values(&sender, &[("resent_bytes_total", 0)]);

    let (receiver, sender) = bench.attempt(3, &KEEP, &[]);
    assert_eq!((receiver.reason(), sender.reason()), ("Verified", "Verified"), "{receiver:?} {sender:?}");
    assert_eq!(receiver.verdict["bytes_resumed"], sent + LATER);
    assert_eq!(inventory(&bench.source()), inventory(&bench.destination()));
}

#[test]
fn what_the_wire_carried_and_what_was_sent_again_agrees_with_the_kernel_s_counters() {
    let mut bench = Bench::new();
    bench.namespaces = Namespaces::new();
    let Some(namespaces) = &bench.namespaces else { return };
    namespaces.drop_data(50);
    let length = 24 << 20;
    bench.write("file", &noise(length, 4));
    let (receiver, port, receiver_pages) = bench.served_receiver(1, &PATIENT, &HOLD);
    let extra = [&PATIENT[..], &["--http", "127.0.0.1:0", "--streams", "2"]].concat();
    let mut sender = bench.sender_under(1, port, &extra, &[]);
    let sender_pages = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    await_page(|| namespaces.get(&namespaces.receiver, &receiver_pages, "/metrics").1, is_publishing);
    let settled = |page: &str| {
        let lost = namespaces.dropped_bytes() as f64;
        carried(page, length) && value(page, "retransmitted_bytes_total") >= Some(0.9 * lost)
    };
    let before = namespaces.sent(0);
    let page = await_page(|| namespaces.get(&namespaces.sender, &sender_pages, "/metrics").1, settled);
    let after = namespaces.sent(0);
    assert_conventional(&page);
    let again = value(&page, "retransmitted_bytes_total").unwrap();
    let interface = of_interface(&page, "interface_sent_bytes_total", "wire0").unwrap();
    assert!((before as f64..=after as f64).contains(&interface), "{before} {interface} {after}");
    let lost = namespaces.dropped_bytes() as f64;
    eprintln!("interface {interface}, sent again {again}, dropped {lost}");
    // A packet that is late may be sent again though it was not lost.
    assert!(lost > 0.0 && (0.9 * lost..2.0 * lost).contains(&again), "{lost} {again}");
    kill(receiver, sender);
}

#[test]
fn each_interface_that_the_data_goes_over_has_the_kernel_s_counters_at_both_ends() {
    let mut bench = Bench::new();
    bench.namespaces = Namespaces::joined_by(2);
    let Some(namespaces) = &bench.namespaces else { return };
    bench.write("file", &noise(16 << 20, 5));
    let (receiver, port, receiver_pages) = bench.served_receiver(1, &PATIENT, &HOLD);
    // Without the cap the first path might have carried most before there is a second one.
    let extra = [&PATIENT[..], &["--http", "127.0.0.1:0", "--streams", "2", "--bandwidth", "100M"]].concat();
    let mut sender = bench.sender_under(1, port, &extra, &[]);
    let sender_pages = sender.await_event("http")["address"].as_str().unwrap().to_owned();
    let pages = [(&namespaces.receiver, &receiver_pages), (&namespaces.sender, &sender_pages)];
    let page = |(end, address): (&String, &String)| namespaces.get(end, address, "/metrics").1;
    await_page(|| page(pages[0]), is_publishing);
    let before = [0, 1].map(|wire| (namespaces.arrived()[wire], namespaces.sent(wire)));
    let shown = pages.map(page);
    let after = [0, 1].map(|wire| (namespaces.arrived()[wire], namespaces.sent(wire)));
    for (wire, name) in ["wire0", "wire1"].into_iter().enumerate() {
        let arrived = of_interface(&shown[0], "interface_received_bytes_total", name).unwrap();
        let sent = of_interface(&shown[1], "interface_sent_bytes_total", name).unwrap();
        let ((least_arrived, least_sent), (most_arrived, most_sent)) = (before[wire], after[wire]);
        assert!((least_arrived as f64..=most_arrived as f64).contains(&arrived), "{before:?} {arrived} {after:?}");
        assert!((least_sent as f64..=most_sent as f64).contains(&sent), "{before:?} {sent} {after:?}");
        assert!(arrived.min(sent) > f64::from(1 << 20), "{name} carries its part of the data: {arrived} {sent}");
    }
    for page in &shown {
        assert_conventional(page);
        // The data goes over neither the loopback nor any other.
        assert_eq!(page.matches("fairlead_mover_interface_sent_bytes_total{").count(), 2, "{page}");
    }
    kill(receiver, sender);
}
