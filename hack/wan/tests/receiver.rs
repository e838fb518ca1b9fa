//! The input queue of a slow receiver.

use fairlead_wan::receiver::{parse_receiver, InputQueue, SlowReceiver};
use proptest::prelude::*;

const US: u64 = 1_000;

fn queue(cost_us: u64, room_packets: usize) -> InputQueue<u32> {
    InputQueue::new(SlowReceiver { cost_ns: cost_us * US, room_packets })
}

/// What is taken at last, with the microseconds.
fn taken(queue: &mut InputQueue<u32>) -> Vec<(u64, u32)> {
    std::iter::from_fn(|| queue.pop_taken(u64::MAX)).map(|(taken_ns, packet)| (taken_ns / US, packet)).collect()
}

#[test]
fn each_packet_takes_its_cost_and_waits_for_those_before_it() {
    let mut queue = queue(100, 10);
    for (at_us, packet) in [(0, 1), (10, 2), (150, 3), (500, 4)] {
        assert_eq!(queue.offer(at_us * US, packet), None);
    }
    assert_eq!(queue.next_taken_ns(), Some(100 * US));
    assert_eq!(queue.pop_taken(100 * US - 1), None);
    assert_eq!(taken(&mut queue), [(100, 1), (200, 2), (300, 3), (600, 4)]);
    assert_eq!((queue.next_taken_ns(), queue.is_empty()), (None, true));
}

#[test]
fn a_full_queue_gives_the_new_packet_back_until_one_was_taken() {
    let mut queue = queue(100, 2);
    for (at_us, packet, refused) in [(0, 1, false), (0, 2, false), (99, 3, true), (100, 4, false), (100, 5, true)] {
        assert_eq!(queue.offer(at_us * US, packet), refused.then_some(packet), "packet {packet}");
    }
    // What was taken takes no room, though nobody has popped it.
    assert_eq!(queue.len(), 3);
    assert_eq!(taken(&mut queue), [(100, 1), (200, 2), (300, 4)]);
}

#[test]
fn another_cost_is_for_those_that_wait_and_a_smaller_queue_drops_none_of_them() {
    let mut queue = queue(100, 10);
    for packet in 1..=4 {
        assert_eq!(queue.offer(0, packet), None);
    }
    queue.change(150 * US, SlowReceiver { cost_ns: 10 * US, room_packets: 1 });
    assert_eq!(queue.offer(215 * US, 5), Some(5));
    assert_eq!(taken(&mut queue), [(100, 1), (200, 2), (210, 3), (220, 4)]);
}

#[test]
fn what_is_drained_was_taken_by_then() {
    let mut queue = queue(100, 10);
    queue.pass(0, 0);
    for packet in 1..=3 {
        assert_eq!(queue.offer(0, packet), None);
    }
    let drained: Vec<(u64, u32)> = queue.drain(150 * US).map(|(taken_ns, packet)| (taken_ns / US, packet)).collect();
    assert_eq!(drained, [(0, 0), (100, 1), (150, 2), (150, 3)]);
    assert!(queue.is_empty());
}

#[test]
fn receivers_are_a_cost_and_a_number_of_packets() {
    for (text, expected) in [
        ("120us", Some((120_000, 1_000))),
        ("120us,64", Some((120_000, 64))),
        ("0.5ms, 1", Some((500_000, 1))),
        ("1s,1000000", Some((1_000_000_000, 1_000_000))),
        ("0", None),
    ] {
        let expected = expected.map(|(cost_ns, room_packets)| SlowReceiver { cost_ns, room_packets });
        assert_eq!(parse_receiver("receiver", text), Ok(expected), "{text}");
    }
}

#[test]
fn a_bad_receiver_is_refused_with_its_field() {
    for text in ["", "slow", "120", "2s", "120us,", "120us,0", "120us,1000001", "120us,64kB", "0,64", "120us,64,64"] {
        assert_eq!(parse_receiver("receiver-ab", text).expect_err(text).field, "receiver-ab");
    }
}

proptest! {
    #[test]
    fn it_takes_no_more_than_its_rate_and_drops_only_when_it_is_full(
        cost_ns in 1u64..1_000_000,
        room_packets in 1usize..50,
        gaps_ns in prop::collection::vec(0u64..2_000_000, 1..300),
    ) {
        let mut queue = InputQueue::new(SlowReceiver { cost_ns, room_packets });
        let (mut now_ns, mut refused, mut came) = (0, 0, vec![]);
        for (number, gap_ns) in gaps_ns.iter().enumerate() {
            now_ns += gap_ns;
            let busy_ns = came.iter().fold(0, |free_ns: u64, at_ns| free_ns.max(*at_ns) + cost_ns).saturating_sub(now_ns);
            let full = busy_ns.div_ceil(cost_ns) as usize >= room_packets;
            prop_assert_eq!(queue.offer(now_ns, number).is_some(), full);
            if full {
                refused += 1;
            } else {
                came.push(now_ns);
            }
        }
        let taken_ns: Vec<u64> = std::iter::from_fn(|| queue.pop_taken(u64::MAX)).map(|(taken_ns, _)| taken_ns).collect();
        prop_assert_eq!(taken_ns.len() + refused, gaps_ns.len());
        prop_assert!(taken_ns.windows(2).all(|pair| pair[1] - pair[0] >= cost_ns));
        prop_assert!(taken_ns.iter().zip(&came).all(|(taken_ns, at_ns)| *taken_ns >= at_ns + cost_ns));
    }
}
