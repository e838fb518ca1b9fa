//! CoDel and FQ-CoDel, as the RFCs have them.

use std::net::{IpAddr, Ipv4Addr};

use fairlead_wan::packet::FlowKey;
use fairlead_wan::queue::codel::{control_law, AtHead, CoDel, CoDelParameters, CoDelVerdict};
use fairlead_wan::queue::fq_codel::flow_index;
use fairlead_wan::queue::{parse_queue, Pulled, Queue, QueuedPacket};

const MS: u64 = 1_000_000;
const FULL: usize = 1500;

fn bad() -> AtHead {
    AtHead { sojourn_ns: 50 * MS, size_bytes: FULL as u64, behind_bytes: 100_000 }
}

fn good() -> AtHead {
    AtHead { sojourn_ns: MS, ..bad() }
}

/// When a packet is dropped, in microseconds, if the head is judged each tenth of a millisecond from `from_ms` on and is always late.
fn drops_us(codel: &mut CoDel, from_ms: u64, to_ms: u64) -> Vec<u64> {
    let mut drops = vec![];
    for now_ns in (from_ms * MS..to_ms * MS).step_by(100_000) {
        while codel.judge(now_ns, bad()) == CoDelVerdict::Drop {
            drops.push(now_ns / 1000);
        }
    }
    drops
}

#[test]
fn the_control_law_divides_the_interval_by_the_root_of_the_count() {
    for (count, gap_ns) in [
        (1, 100_000_000),
        (2, 70_710_678),
        (3, 57_735_026),
        (4, 50_000_000),
        (9, 33_333_333),
        (16, 25_000_000),
        (100, 10_000_000),
        (10_000, 1_000_000),
        (1_000_000, 100_000),
    ] {
        assert_eq!(control_law(7 * MS, 100 * MS, count), 7 * MS + gap_ns, "drop {count}");
    }
    assert_eq!(control_law(0, 20 * MS, 4), 10 * MS);
}

#[test]
fn the_first_drop_comes_after_an_interval_above_the_target_and_the_next_ones_ever_sooner() {
    let drops_us = drops_us(&mut CoDel::new(CoDelParameters::default()), 0, 600);
    // Sums of 100 ms / sqrt(n), each met at the next tenth of a millisecond.
    let mut due_us = 100_000.0;
    let mut expected = vec![100_000];
    for count in 1..=7 {
        due_us += 100_000.0 / f64::from(count).sqrt();
        expected.push((due_us / 100.0_f64).ceil() as u64 * 100);
    }
    assert_eq!(drops_us[..8], expected);
}

#[test]
fn a_wait_below_the_target_starts_the_interval_anew() {
    let mut codel = CoDel::new(CoDelParameters::default());
    for (now_ms, head, verdict) in [
        (0, bad(), CoDelVerdict::Pass),
        (99, bad(), CoDelVerdict::Pass),
        (100, good(), CoDelVerdict::Pass),
        (101, bad(), CoDelVerdict::Pass),
        (200, bad(), CoDelVerdict::Pass),
        (201, bad(), CoDelVerdict::Drop),
        (201, bad(), CoDelVerdict::Pass),
        (300, bad(), CoDelVerdict::Pass),
        (301, bad(), CoDelVerdict::Drop),
        (301, good(), CoDelVerdict::Pass),
        (302, bad(), CoDelVerdict::Pass),
        (401, bad(), CoDelVerdict::Pass),
        (402, bad(), CoDelVerdict::Drop),
    ] {
        assert_eq!(codel.judge(now_ms * MS, head), verdict, "at {now_ms} ms");
    }
}

#[test]
fn a_queue_that_was_empty_starts_the_interval_anew() {
    let mut codel = CoDel::new(CoDelParameters::default());
    assert_eq!(codel.judge(0, bad()), CoDelVerdict::Pass);
    codel.emptied();
    assert_eq!(codel.judge(150 * MS, bad()), CoDelVerdict::Pass);
    assert_eq!(codel.judge(250 * MS, bad()), CoDelVerdict::Drop);
}

#[test]
fn with_no_more_than_a_packet_behind_it_nothing_is_dropped_however_late() {
    let mut codel = CoDel::new(CoDelParameters::default());
    let last = AtHead { sojourn_ns: 1000 * MS, behind_bytes: FULL as u64, ..bad() };
    assert!((0..1000).all(|now_ms| codel.judge(now_ms * MS, last) == CoDelVerdict::Pass));
    // One byte more behind it is a queue.
    let more = AtHead { behind_bytes: last.behind_bytes + 1, ..last };
    assert_eq!(codel.judge(1000 * MS, more), CoDelVerdict::Pass);
    assert_eq!(codel.judge(1100 * MS, more), CoDelVerdict::Drop);
}

#[test]
fn a_drop_rate_that_was_needed_just_now_is_taken_up_again_and_an_old_one_is_not() {
    let gap_after_pause_us = |pause_ms: u64| {
        let mut codel = CoDel::new(CoDelParameters::default());
        let busy = drops_us(&mut codel, 0, 1000);
        assert!(busy.len() > 20, "{busy:?}");
        assert_eq!(codel.judge(1000 * MS, good()), CoDelVerdict::Pass);
        let again = drops_us(&mut codel, 1000 + pause_ms, 1400 + pause_ms);
        again[1] - again[0]
    };
    assert!(gap_after_pause_us(100) < 25_000, "the rate of before");
    assert_eq!(gap_after_pause_us(5000), 100_000, "from the beginning");
}

#[test]
fn target_and_interval_are_the_caller_s() {
    let mut codel = CoDel::new(CoDelParameters { target_ns: 60 * MS, interval_ns: 20 * MS });
    assert!(drops_us(&mut codel, 0, 1000).is_empty(), "50 ms are below this target");
    let mut codel = CoDel::new(CoDelParameters { target_ns: 5 * MS, interval_ns: 20 * MS });
    assert_eq!(drops_us(&mut codel, 0, 50)[..2], [20_000, 40_000]);
}

fn flow(number: u8) -> FlowKey {
    let address = |last| IpAddr::V4(Ipv4Addr::new(198, 18, 0, last));
    FlowKey { source: address(1), destination: address(2), protocol: 6, ports: (5000 + u16::from(number), 80) }
}

fn packet(number: u8, size_bytes: usize, payload: u32) -> QueuedPacket<u32> {
    QueuedPacket { queued_ns: 0, size_bytes, flow: Some(flow(number)), lost: false, payload }
}

fn queue(kind: &str) -> Queue<u32> {
    Queue::new(parse_queue("queue", kind).expect("a kind"), 77)
}

/// The payloads in the order in which they are sent, all at time 0.
fn sent(queue: &mut Queue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| match queue.pull(0) {
        Pulled::Sent(packet) => Some(packet.payload),
        Pulled::Dropped(_) => panic!("nothing has waited"),
        Pulled::Empty => None,
    })
    .collect()
}

#[test]
fn a_flow_has_its_queue_by_its_5_tuple_and_the_salt() {
    let index = |salt, number| flow_index(salt, Some(&flow(number)), 1024);
    let all = |salt| (0..100).map(|number| index(salt, number)).collect::<Vec<_>>();
    assert_eq!(all(1), all(1));
    assert_ne!(all(1), all(2), "another salt, other neighbours");
    let distinct: std::collections::HashSet<u32> = all(1).into_iter().collect();
    assert!(distinct.len() > 80, "{} queues for 100 flows", distinct.len());
    assert!((0..100).all(|number| flow_index(1, Some(&flow(number)), 1) == 0));
    let other_protocol = FlowKey { protocol: 17, ..flow(0) };
    let other_way = FlowKey { ports: (80, 5000), ..flow(0) };
    assert!([other_protocol, other_way]
        .iter()
        .all(|key| flow_index(1, Some(key), 1 << 16) != flow_index(1, Some(&flow(0)), 1 << 16)));
}

#[test]
fn flows_take_turns_of_a_quantum_of_bytes() {
    let mut queue = queue("fq-codel:quantum=1500");
    // Full packets of flow 1, then packets of a third of that of flow 2.
    (0..3).for_each(|number| queue.push(packet(1, 1500, 100 + number)));
    (0..9).for_each(|number| queue.push(packet(2, 500, 200 + number)));
    assert_eq!(sent(&mut queue), [100, 200, 201, 202, 101, 203, 204, 205, 102, 206, 207, 208]);
}

#[test]
fn a_flow_that_has_just_begun_goes_before_those_that_have_waited_and_only_once() {
    let mut queue = queue("fq-codel:quantum=1500");
    (0..4).for_each(|number| queue.push(packet(1, 1500, 100 + number)));
    (0..4).for_each(|number| queue.push(packet(2, 1500, 200 + number)));
    let mut next = || match queue.pull(0) {
        Pulled::Sent(packet) => packet.payload,
        other => panic!("{other:?}"),
    };
    assert_eq!([next(), next(), next()], [100, 200, 101]);
    let mut sparse = |payload| {
        queue.push(packet(3, 100, payload));
        match queue.pull(0) {
            Pulled::Sent(packet) => packet.payload,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sparse(300), 300, "a new flow is served at once");
    assert_eq!(sparse(301), 301, "it is still within its quantum");
    // Empty once and found so, it waits for its turn like the others.
    assert_eq!(sent(&mut queue), [201, 102, 202, 103, 203]);
}

#[test]
fn a_flow_that_empties_does_not_come_first_again_by_sending_one_packet_at_a_time() {
    let mut queue = queue("fq-codel:quantum=1500");
    (0..6).for_each(|number| queue.push(packet(1, 1500, number)));
    (0..6).for_each(|number| queue.push(packet(2, 1500, 100 + number)));
    let mut served = vec![];
    for _ in 0..6 {
        queue.push(packet(3, 1500, 999));
        for _ in 0..2 {
            let Pulled::Sent(packet) = queue.pull(0) else { panic!("it is not empty") };
            served.push(packet.payload);
        }
    }
    let greedy = served.iter().filter(|payload| **payload == 999).count();
    assert!((3..=5).contains(&greedy), "about a third of 12: {served:?}");
}

#[test]
fn the_fattest_flow_gives_up_its_head() {
    let mut queue = queue("fq-codel");
    queue.push(packet(1, 1500, 1));
    (0..5).for_each(|number| queue.push(packet(2, 400, 20 + number)));
    queue.push(packet(3, 1000, 3));
    let evicted: Vec<u32> = (0..3).filter_map(|_| queue.evict()).map(|packet| packet.payload).collect();
    // 2000 bytes, then 1600, then 1500 against 1200.
    assert_eq!(evicted, [20, 21, 1]);
    assert_eq!((queue.waiting().packets, queue.waiting().bytes), (4, 2200));
    assert!(queue.makes_room());
    assert!(!Queue::<u32>::new(Default::default(), 0).makes_room());
}

#[test]
fn each_flow_has_a_control_loop_of_its_own() {
    let mut queue = queue("fq-codel");
    // Flow 1 has had a queue for long; flow 2 sends one packet that has waited just as long.
    (0..200).for_each(|number| queue.push(packet(1, 1500, number)));
    let (mut dropped, mut delivered) = (0, vec![]);
    for at_ms in (0..2000).step_by(20) {
        if at_ms == 1000 {
            queue.push(packet(2, 1500, 999));
        }
        loop {
            match queue.pull(at_ms * MS) {
                Pulled::Dropped(_) => dropped += 1,
                Pulled::Sent(packet) => {
                    delivered.push(packet.payload);
                    break;
                }
                Pulled::Empty => break,
            }
        }
    }
    assert!(dropped > 10, "{dropped}");
    assert!(delivered.contains(&999), "the sparse flow lost its packet");
}

#[test]
fn kinds_of_queue_are_read_and_shown() {
    for (text, shown) in [
        ("drop-tail", "drop-tail"),
        ("drop-tail-packets", "drop-tail-packets"),
        ("codel", "codel:target=5ms,interval=100ms"),
        ("codel:target=1.5ms", "codel:target=1.5ms,interval=100ms"),
        ("fq-codel", "fq-codel:target=5ms,interval=100ms,flows=1024,quantum=1500"),
        ("fq-codel:flows=16,interval=30ms,quantum=300", "fq-codel:target=5ms,interval=30ms,flows=16,quantum=300"),
    ] {
        let kind = parse_queue("queue", text).expect(text);
        assert_eq!(kind.to_string(), shown);
        assert_eq!(parse_queue("queue", shown), Ok(kind), "what is shown is read again");
    }
}

#[test]
fn a_bad_queue_is_refused_with_its_field_and_the_remedy() {
    for (text, remedy) in [
        ("", "drop-tail"),
        ("pie", "codel or fq-codel"),
        ("FQ-CoDel", "fq-codel"),
        ("drop-tail:target=5ms", "drop-tail has none"),
        ("codel:flows=8", "codel has target and interval"),
        ("codel:target", "a time such as"),
        ("codel:target=0", "more than 0"),
        ("codel:target=200ms", "at most interval"),
        ("fq-codel:flows=0", "1 to 65536"),
        ("fq-codel:quantum=1.5", "64 to 1000000"),
    ] {
        let error = parse_queue("queue-ab", text).expect_err(text);
        assert_eq!(error.field, "queue-ab", "{text}");
        assert!(error.message.contains(remedy), "{text}: {error}");
    }
}
