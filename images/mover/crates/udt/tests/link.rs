//! Two ends over a simulated link that delays, loses, repeats and reorders, and whose queue is short.
#![allow(clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::Duration;

use fairlead_udt::{Config, Connection, Connector, Ended, Listener, ListenerAnswer, RatePolicy};
use proptest::prelude::*;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    bps: f64,
    delay: Duration,
    queue: Duration,
    loss: f64,
    repeat: f64,
    reorder: f64,
    /// Longer packets vanish.
    most_bytes: usize,
}

const LINK: Link = Link {
    bps: 50e6,
    delay: Duration::from_millis(10),
    queue: Duration::from_millis(20),
    loss: 0.0,
    repeat: 0.0,
    reorder: 0.0,
    most_bytes: usize::MAX,
};

/// One direction of the link.
struct Way {
    link: Link,
    random: Random,
    free_at: Duration,
    order: u64,
    under_way: BinaryHeap<Reverse<(Duration, u64, Vec<u8>)>>,
    carried: u64,
}

impl Way {
    fn new(link: Link, seed: u64) -> Self {
        Self { link, random: Random(seed), free_at: Duration::ZERO, order: 0, under_way: BinaryHeap::new(), carried: 0 }
    }

    fn send(&mut self, now: Duration, bytes: Vec<u8>) {
        if bytes.len() > self.link.most_bytes {
            return;
        }
        let begins = self.free_at.max(now);
        if begins - now > self.link.queue || self.random.part() < self.link.loss {
            return;
        }
        let length = bytes.len() as u64 + 28;
        self.carried += length;
        self.free_at = begins + Duration::from_secs_f64(length as f64 * 8.0 / self.link.bps);
        let copies = if self.random.part() < self.link.repeat { 2 } else { 1 };
        for _ in 0..copies {
            let late = if self.random.part() < self.link.reorder { self.link.delay / 4 } else { Duration::ZERO };
            self.order += 1;
            self.under_way.push(Reverse((self.free_at + self.link.delay + late, self.order, bytes.clone())));
        }
    }

    fn next(&self) -> Option<Duration> {
        self.under_way.peek().map(|Reverse((at, ..))| *at)
    }

    fn arrived(&mut self, now: Duration) -> Option<Vec<u8>> {
        if self.next()? > now {
            return None;
        }
        self.under_way.pop().map(|Reverse((.., bytes))| bytes)
    }
}

struct Pair {
    ends: [Connection; 2],
    ways: [Way; 2],
    now: Duration,
}

fn config(policy: RatePolicy) -> Config {
    Config { policy, seed: 5, ..Config::default() }
}

impl Pair {
    fn new(link: Link, config: Config, seed: u64) -> Self {
        let address: SocketAddr = "127.0.0.1:7000".parse().unwrap();
        let room = config.receive_packets as u32;
        // Numbers on the wire wrap soon.
        let mut connector = Connector::new(1, fairlead_udt::SEQUENCES - 50, 1500, room, address.ip());
        let mut listener = Listener::new(seed, 1500, room);
        let mut bytes = Vec::new();
        connector.poll_transmit(Duration::ZERO, &mut bytes);
        let Some(ListenerAnswer::Send(cookie)) = listener.handle(Duration::ZERO, address, &bytes, 2) else { panic!() };
        connector.handle(&cookie).unwrap();
        bytes.clear();
        connector.poll_transmit(Duration::ZERO, &mut bytes);
        let answer = listener.handle(Duration::ZERO, address, &bytes, 2);
        let Some(ListenerAnswer::Accept(there, made)) = answer else { panic!() };
        let here = connector.handle(&made).unwrap().unwrap();
        let now = Duration::ZERO;
        let ends = [Connection::new(config, &here, now), Connection::new(config, &there, now)];
        Self { ends, ways: [Way::new(link, seed), Way::new(link, !seed)], now }
    }

    /// Hands over what is due and goes on to the next moment at which something is.
    fn step(&mut self) {
        for at in 0..2 {
            while let Some(bytes) = self.ways[1 - at].arrived(self.now) {
                self.ends[at].handle(self.now, &bytes);
            }
            let mut bytes = Vec::new();
            while self.ends[at].poll_transmit(self.now, &mut bytes) {
                self.ways[at].send(self.now, std::mem::take(&mut bytes));
            }
        }
        let arrivals = self.ways.iter().filter_map(Way::next);
        let timers = self.ends.iter().filter_map(Connection::timeout);
        if let Some(next) = arrivals.chain(timers).min() {
            self.now = next.max(self.now + Duration::from_nanos(100));
        } else {
            self.now += Duration::from_millis(1);
        }
    }
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_be_bytes()).take(length).collect()
}

/// Moves the bytes to the other end within so much simulated time; how long it took.
fn carry(pair: &mut Pair, bytes: &[u8], within: Duration) -> Duration {
    carry_over(pair, bytes, within, |_| ())
}

/// The same over a link that `change` may change as time goes on.
fn carry_over(pair: &mut Pair, bytes: &[u8], within: Duration, change: impl Fn(&mut Pair)) -> Duration {
    let (mut written, mut read, began) = (0, Vec::new(), pair.now);
    while read.len() < bytes.len() {
        change(pair);
        written += pair.ends[0].write(&bytes[written..]);
        pair.step();
        while let Some(piece) = pair.ends[1].read() {
            read.extend(piece);
        }
        assert!(
            pair.now - began < within,
            "{} of {} bytes in {within:?}: {:?}",
            read.len(),
            bytes.len(),
            pair.ends[0].stats(pair.now)
        );
        assert_eq!((pair.ends[0].ended(), pair.ends[1].ended()), (None, None));
    }
    assert!(read == bytes, "the bytes are others");
    pair.now - began
}

#[test]
fn every_policy_carries_all_bytes_over_a_bad_link() {
    let bad = Link { loss: 0.01, repeat: 0.01, reorder: 0.02, ..LINK };
    let bytes = noise(4 << 20, 1);
    for policy in RatePolicy::ALL {
        for seed in 0..3 {
            let mut pair = Pair::new(bad, config(policy), seed);
            carry(&mut pair, &bytes, Duration::from_secs(60));
        }
    }
}

#[test]
fn every_policy_fills_a_good_link() {
    let bytes = noise(24 << 20, 2);
    for policy in RatePolicy::ALL {
        let mut pair = Pair::new(LINK, config(policy), 1);
        let took = carry(&mut pair, &bytes, Duration::from_secs(60));
        let rate = bytes.len() as f64 * 8.0 / took.as_secs_f64();
        let (sent, stats) = (pair.ways[0].carried, pair.ends[0].stats(pair.now));
        eprintln!("{policy:?}: {:.1} Mb/s, {sent} bytes carried, {} sent again", rate / 1e6, stats.bytes_resent);
        assert!(rate > 0.7 * LINK.bps, "{policy:?}: {rate}");
    }
}

#[test]
fn udts_own_rate_fills_a_long_link_that_loses_packets_at_random() {
    let long =
        Link { bps: 200e6, delay: Duration::from_millis(50), queue: Duration::from_millis(100), loss: 0.001, ..LINK };
    let bytes = noise(160 << 20, 8);
    for seed in 1..4 {
        let mut pair = Pair::new(long, config(RatePolicy::Udt), seed);
        let took = carry(&mut pair, &bytes, Duration::from_secs(60));
        let rate = bytes.len() as f64 * 8.0 / took.as_secs_f64();
        eprintln!("{:.1} Mb/s, {} bytes sent again", rate / 1e6, pair.ends[0].stats(pair.now).bytes_resent);
        assert!(rate > 0.8 * long.bps, "{rate}");
    }
}

/// Where the sender rests between repetitions, its keep-alives arrive, and only it can know.
#[test]
fn where_long_packets_begin_to_vanish_the_connection_ends_whatever_was_under_way() {
    for limit in [10_000.0, 1_000_000.0] {
        let mut pair = Pair::new(LINK, config(RatePolicy::Udt), 1);
        pair.ends[0].set_limit(Some(limit));
        let bytes = noise(16 << 20, 10);
        let mut written = 0;
        while pair.now < Duration::from_secs(40) && pair.ends[0].ended().is_none() {
            written += pair.ends[0].write(&bytes[written..]);
            pair.step();
            while pair.ends[1].read().is_some() {}
            if pair.now > Duration::from_secs(2) {
                pair.ways[0].link.most_bytes = 1000;
            }
        }
        assert!(pair.ends[0].ended().is_some(), "{limit}: {:?}", pair.ends[0].stats(pair.now));
        assert!(pair.now < Duration::from_secs(2) + config(RatePolicy::Udt).idle_timeout * 2, "{:?}", pair.now);
    }
}

#[test]
fn udts_own_rate_yields_where_a_queue_is_too_short_to_show() {
    let slow = Link { bps: 10e6, delay: Duration::from_millis(5), queue: Duration::from_millis(5), ..LINK };
    let bytes = noise(8 << 20, 9);
    let mut pair = Pair::new(slow, config(RatePolicy::Udt), 1);
    let took = carry(&mut pair, &bytes, Duration::from_secs(60));
    let resent = pair.ends[0].stats(pair.now).bytes_resent as f64 / bytes.len() as f64;
    eprintln!("{:.1} Mb/s, {:.2} % sent again", bytes.len() as f64 * 8e-6 / took.as_secs_f64(), 100.0 * resent);
    assert!(resent < 0.02, "{resent}");
}

#[test]
fn a_given_rate_is_kept_whatever_is_lost_and_never_exceeded() {
    let lossy = Link { loss: 0.001, delay: Duration::from_millis(50), ..LINK };
    let (bytes, limit) = (noise(8 << 20, 3), 3_000_000.0);
    for policy in RatePolicy::ALL {
        let mut pair = Pair::new(lossy, config(policy), 1);
        pair.ends[0].set_limit(Some(limit));
        let took = carry(&mut pair, &bytes, Duration::from_secs(60));
        let stats = pair.ends[0].stats(pair.now);
        let sent = (bytes.len() as u64 + stats.bytes_resent) as f64 / took.as_secs_f64();
        eprintln!("{policy:?}: {:.0} of {limit} bytes per second", sent);
        assert!(sent < 1.001 * limit, "{policy:?}: {sent}");
        // The others take some round trips to find the rate.
        if matches!(policy, RatePolicy::Fixed | RatePolicy::Blast) {
            assert!(bytes.len() as f64 / took.as_secs_f64() > 0.9 * limit, "{policy:?}: {sent}");
        }
    }
}

#[test]
fn a_slow_sender_whose_processor_is_busy_keeps_its_rate() {
    let (bytes, limit) = (noise(1 << 20, 12), 100_000.0);
    let mut pair = Pair::new(LINK, config(RatePolicy::Fixed), 1);
    pair.ends[0].set_limit(Some(limit));
    let took = carry_over(&mut pair, &bytes, Duration::from_secs(60), |pair| {
        // Either end gets the processor once in 20 ms.
        pair.now = Duration::from_millis((pair.now.as_millis() as u64 / 20 + 1) * 20);
    });
    let rate = bytes.len() as f64 / took.as_secs_f64();
    assert!((0.9 * limit..1.001 * limit).contains(&rate), "{rate}");
}

#[test]
fn the_rate_of_a_link_that_was_slow_for_two_seconds_is_found_again() {
    let bytes = noise(40 << 20, 2);
    for policy in [RatePolicy::Fixed, RatePolicy::Reported, RatePolicy::Blast] {
        for (slow_bps, seed) in [1e6, 0.3e6, 0.1e6].into_iter().flat_map(|bps| (0..3).map(move |seed| (bps, seed))) {
            let config =
                Config { receive_packets: 40_000, send_bytes: 64 << 20, unsent_bytes: 4 << 20, ..config(policy) };
            let mut pair = Pair::new(Link { loss: 0.01, ..LINK }, config, seed);
            eprintln!("{policy:?} after {slow_bps} b/s");
            carry_over(&mut pair, &bytes, Duration::from_secs(18), |pair| {
                let is_slow = (1..3).contains(&pair.now.as_secs());
                pair.ways[0].link.bps = if is_slow { slow_bps } else { LINK.bps };
            });
        }
    }
}

#[test]
fn the_reader_of_a_slow_blast_does_not_wait_for_its_last_packet() {
    let config = Config { receive_packets: 40_000, unsent_bytes: 4 << 20, ..config(RatePolicy::Blast) };
    let mut pair = Pair::new(Link { loss: 0.02, ..LINK }, config, 1);
    pair.ends[0].set_limit(Some(100_000.0));
    pair.ends[0].write(&noise(4 << 20, 11));
    let (mut read_at, mut longest) = (Duration::ZERO, Duration::ZERO);
    while pair.now < Duration::from_secs(20) {
        pair.step();
        if pair.ends[1].read().is_some() {
            longest = longest.max(pair.now - read_at);
            read_at = pair.now;
        }
    }
    assert!(longest.max(pair.now - read_at) < Duration::from_secs(3), "{longest:?}, {read_at:?}");
}

#[test]
fn policies_are_switched_while_data_flow() {
    let bytes = noise(2 << 20, 4);
    let mut pair = Pair::new(Link { loss: 0.002, ..LINK }, config(RatePolicy::Udt), 1);
    for policy in [RatePolicy::Fixed, RatePolicy::Blast, RatePolicy::Reported, RatePolicy::Udt] {
        pair.ends[0].set_policy(policy);
        assert_eq!(pair.ends[0].policy(), policy);
        carry(&mut pair, &bytes, Duration::from_secs(30));
    }
}

#[test]
fn a_reader_that_stops_closes_the_window_and_opens_it_again() {
    let bytes = noise(1 << 20, 5);
    let config = Config { receive_packets: 64, ..config(RatePolicy::Udt) };
    let mut pair = Pair::new(Link { loss: 0.02, ..LINK }, config, 3);
    pair.ends[0].write(&bytes);
    while pair.now < Duration::from_secs(5) {
        pair.step();
    }
    let stats = pair.ends[0].stats(pair.now);
    assert!(stats.window_closed && stats.bytes_in_flight == 0, "{stats:?}");
    let mut read = Vec::new();
    while read.len() < bytes.len() {
        pair.step();
        while let Some(piece) = pair.ends[1].read() {
            read.extend(piece);
        }
        assert!(pair.now < Duration::from_secs(60), "{} bytes", read.len());
    }
    assert!(read == bytes);
}

#[test]
fn both_ends_send_at_once() {
    let (there, back) = (noise(1 << 20, 6), noise(1 << 20, 7));
    let mut pair = Pair::new(Link { loss: 0.01, ..LINK }, config(RatePolicy::Udt), 3);
    let (mut written, mut read) = ([0, 0], [Vec::new(), Vec::new()]);
    while read[0].len() < back.len() || read[1].len() < there.len() {
        written[0] += pair.ends[0].write(&there[written[0]..]);
        written[1] += pair.ends[1].write(&back[written[1]..]);
        pair.step();
        for (end, read) in pair.ends.iter_mut().zip(&mut read) {
            while let Some(piece) = end.read() {
                read.extend(piece);
            }
        }
        assert!(pair.now < Duration::from_secs(60));
    }
    assert!(read[1] == there && read[0] == back);
}

#[test]
fn the_end_is_told_and_silence_is_noticed() {
    let mut pair = Pair::new(LINK, config(RatePolicy::Udt), 3);
    pair.ends[0].close();
    (0..20).for_each(|_| pair.step());
    assert_eq!((pair.ends[0].ended(), pair.ends[1].ended()), (Some(Ended::Here), Some(Ended::There)));
    let mut pair = Pair::new(Link { loss: 1.0, ..LINK }, config(RatePolicy::Udt), 3);
    pair.ends[0].write(b"nobody hears");
    while pair.now < Duration::from_secs(11) {
        pair.step();
    }
    assert_eq!((pair.ends[0].ended(), pair.ends[1].ended()), (Some(Ended::Silent), Some(Ended::Silent)));
    assert!(pair.ends[0].stats(pair.now).packets_sent < 60, "not at full speed into the void");
}

#[test]
fn a_quiet_connection_lasts() {
    let mut pair = Pair::new(LINK, config(RatePolicy::Udt), 3);
    carry(&mut pair, b"hello", Duration::from_secs(1));
    while pair.now < Duration::from_secs(100) {
        pair.step();
    }
    assert_eq!(pair.ends[0].ended(), None);
    assert!(pair.ends[0].stats(pair.now).packets_sent < 120, "{:?}", pair.ends[0].stats(pair.now));
    carry(&mut pair, b"again", Duration::from_secs(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_link_that_lets_something_through_carries_the_same_bytes(
        seed: u64, policy in 0usize..4, loss in 0.0..0.15, repeat in 0.0..0.2, reorder in 0.0..0.3, delay_ms in 0u64..60, length in 1usize..200_000,
    ) {
        let delay = Duration::from_millis(delay_ms);
        let link = Link { loss, repeat, reorder, delay, ..LINK };
        let mut pair = Pair::new(link, config(RatePolicy::ALL[policy]), seed);
        carry(&mut pair, &noise(length, seed), Duration::from_secs(120));
    }

    #[test]
    fn strange_packets_neither_break_a_transfer_nor_stop_the_program(
        seed: u64, strange in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 16..80), 0u8..9), 1..80),
    ) {
        let mut pair = Pair::new(LINK, config(RatePolicy::ALL[seed as usize % 4]), seed);
        pair.ends[0].write(&noise(50_000, seed));
        for (mut bytes, kind) in strange {
            if kind < 8 && kind != 5 {
                (bytes[0], bytes[1]) = (0x80, kind);
            }
            let end = usize::from(bytes[2] & 1);
            let now = pair.now;
            pair.ends[end].handle(now, &bytes);
            pair.step();
            while pair.ends[end].read().is_some() {}
        }
    }
}
