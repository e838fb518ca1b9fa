//! The model of one direction.

use fairlead_wan::link::{Link, PacketFate, MAX_HELD_BYTES};
use fairlead_wan::parameters::DirectionParameters;
use proptest::prelude::*;
use rand_pcg::Pcg64;

const MS: u64 = 1_000_000;
const FULL: usize = 1500;

fn link(parameters: DirectionParameters) -> Link<usize> {
    Link::new(parameters, Pcg64::new(1, 0))
}

fn with_rate(rate_bps: u64, delay_ns: u64, buffer_bytes: u64) -> DirectionParameters {
    DirectionParameters {
        rate_bps: Some(rate_bps),
        delay_ns,
        buffer_bytes: Some(buffer_bytes),
        ..DirectionParameters::default()
    }
}

fn due(verdict: PacketFate) -> u64 {
    match verdict {
        PacketFate::Due(due_ns) => due_ns,
        other => panic!("expected the packet to pass, it was {other:?}"),
    }
}

#[test]
fn packets_back_to_back_leave_at_exactly_the_rate() {
    for rate_bps in [1_000_000, 70_000_000, 123_456_789, 500_000_000, 9_999_999_999] {
        let mut link = link(with_rate(rate_bps, 0, 1 << 30));
        for count in 1..=10_000u64 {
            let exact = u128::from(count) * FULL as u128 * 8_000_000_000 / u128::from(rate_bps);
            assert_eq!(u128::from(due(link.offer(0, FULL, 0))), exact, "packet {count} at {rate_bps} bit/s");
        }
    }
}

#[test]
fn an_idle_link_adds_the_time_on_the_wire_and_the_delay() {
    let mut link = link(with_rate(100_000_000, 20 * MS, 500_000));
    assert_eq!(due(link.offer(5 * MS, FULL, 0)), 5 * MS + 120_000 + 20 * MS);
    assert_eq!(due(link.offer(400 * MS, 40, 0)), 400 * MS + 3_200 + 20 * MS);
}

#[test]
fn without_a_rate_only_the_delay_counts_and_nothing_queues() {
    let mut link = link(DirectionParameters { delay_ns: 7 * MS, buffer_bytes: Some(2_000), ..Default::default() });
    for packet in 0..100 {
        assert_eq!(due(link.offer(3, FULL, packet)), 3 + 7 * MS);
    }
    assert_eq!(link.queue_bytes(3), 0);
}

#[test]
fn a_packet_comes_out_when_due_and_not_a_nanosecond_before() {
    let mut link = link(with_rate(8_000_000, MS, 100_000));
    let due_ns = due(link.offer(0, 1000, 42));
    assert_eq!(due_ns, 2 * MS);
    assert_eq!(link.next_due_ns(), Some(due_ns));
    assert!(link.pop_due(due_ns - 1).is_none());
    assert_eq!(link.pop_due(due_ns).map(|arrival| arrival.payload), Some(42));
    assert_eq!(link.next_due_ns(), None);
}

#[test]
fn the_buffer_takes_what_fits_to_the_byte_and_drops_the_next() {
    let mut link = link(with_rate(8_000_000, 0, 3_000));
    due(link.offer(0, FULL, 0));
    due(link.offer(0, FULL, 1));
    assert_eq!(link.offer(0, 1, 2), PacketFate::DroppedByBuffer);
    // A byte takes a microsecond at this rate.
    assert_eq!(link.offer(1_000, 2, 3), PacketFate::DroppedByBuffer);
    due(link.offer(1_000, 1, 4));
    assert_eq!(link.queue_peak_bytes(), 3_000);
    assert_eq!(link.counters().dropped_by_buffer.packets, 2);
    assert_eq!(link.counters().dropped_by_buffer.bytes, 3);
}

#[test]
fn backlog_and_waiting_time_agree_with_the_rate() {
    let mut link = link(with_rate(8_000_000, 0, 100_000));
    for packet in 0..10 {
        due(link.offer(0, 1000, packet));
    }
    assert_eq!((link.queue_bytes(0), link.queue_delay_ns(0)), (10_000, 10 * MS));
    assert_eq!((link.queue_bytes(4 * MS), link.queue_delay_ns(4 * MS)), (6_000, 6 * MS));
    assert_eq!((link.queue_bytes(20 * MS), link.queue_delay_ns(20 * MS)), (0, 0));
}

#[test]
fn a_new_rate_holds_for_what_is_queued_and_spares_what_has_left() {
    let mut link = link(with_rate(8_000_000, 10 * MS, 100_000));
    for packet in 0..10 {
        due(link.offer(0, 1000, packet));
    }
    link.set_parameters(5 * MS, with_rate(4_000_000, 10 * MS, 100_000));
    let mut arrivals = vec![];
    while let Some(arrival) = link.pop_due(u64::MAX) {
        arrivals.push(arrival.due_ns / MS);
    }
    assert_eq!(arrivals, [11, 12, 13, 14, 15, 17, 19, 21, 23, 25]);
    assert_eq!(link.queue_bytes(5 * MS), 5_000);
}

#[test]
fn a_rate_lifted_lets_the_queue_go_at_once() {
    let mut link = link(with_rate(8_000_000, 10 * MS, 100_000));
    for packet in 0..10 {
        due(link.offer(0, 1000, packet));
    }
    link.set_parameters(2 * MS, DirectionParameters { delay_ns: 10 * MS, ..Default::default() });
    let arrivals: Vec<u64> = std::iter::from_fn(|| link.pop_due(u64::MAX)).map(|arrival| arrival.due_ns / MS).collect();
    assert_eq!(arrivals, [11, 12, 12, 12, 12, 12, 12, 12, 12, 12]);
}

#[test]
fn a_shorter_delay_lets_no_packet_overtake() {
    let mut link = link(DirectionParameters { delay_ns: 100 * MS, ..Default::default() });
    due(link.offer(0, FULL, 0));
    link.set_parameters(MS, DirectionParameters { delay_ns: MS, ..Default::default() });
    assert_eq!(due(link.offer(2 * MS, FULL, 1)), 100 * MS);
    assert_eq!(due(link.offer(150 * MS, FULL, 2)), 151 * MS);
}

#[test]
fn going_down_loses_what_is_under_way_and_coming_up_starts_idle() {
    let mut link = link(with_rate(8_000_000, 10 * MS, 100_000));
    due(link.offer(0, 1000, 0));
    due(link.offer(0, 1000, 1));
    link.set_parameters(MS, DirectionParameters { down: true, ..with_rate(8_000_000, 10 * MS, 100_000) });
    assert_eq!(link.offer(MS, 1000, 2), PacketFate::DroppedByDown);
    assert!(link.pop_due(u64::MAX).is_none());
    assert_eq!(link.counters().dropped_by_down.packets, 3);
    link.set_parameters(MS, with_rate(8_000_000, 10 * MS, 100_000));
    assert_eq!(due(link.offer(MS, 1000, 3)), 12 * MS);
}

#[test]
fn losses_come_as_often_as_asked_and_use_the_rate() {
    for loss in [0.0, 0.001, 0.1, 0.5, 1.0] {
        const COUNT: u64 = 200_000;
        let mut link = link(DirectionParameters { loss, ..with_rate(8_000_000_000, 0, 1 << 30) });
        let lost = (0..COUNT).filter(|_| link.offer(0, 1000, 0) == PacketFate::DroppedByLoss).count() as f64;
        let (expected, deviation) = (COUNT as f64 * loss, (COUNT as f64 * loss * (1.0 - loss)).sqrt());
        assert!((lost - expected).abs() <= 5.0 * deviation, "{lost} lost of {COUNT} at {loss}");
        assert_eq!(link.queue_delay_ns(0), COUNT * 1000, "a lost packet still takes its time on the wire");
    }
}

#[test]
fn the_same_seed_loses_the_same_packets_and_another_seed_others() {
    let losses = |seed: u128, stream: u128| -> Vec<bool> {
        let lossy = DirectionParameters { loss: 0.3, ..Default::default() };
        let mut link = Link::new(lossy, Pcg64::new(seed, stream));
        (0..1000).map(|packet| link.offer(packet, FULL, 0) == PacketFate::DroppedByLoss).collect()
    };
    assert_eq!(losses(7, 0), losses(7, 0));
    assert_ne!(losses(7, 0), losses(8, 0));
    assert_ne!(losses(7, 0), losses(7, 1));
}

#[test]
fn a_full_buffer_does_not_shift_which_packets_are_lost() {
    let lossy = DirectionParameters { loss: 0.3, ..Default::default() };
    let narrow = DirectionParameters { loss: 0.3, ..with_rate(1_000_000, 0, 3_000) };
    let (mut wide, mut narrow) = (link(lossy), link(narrow));
    for packet in 0..2_000u64 {
        let now_ns = packet * 5 * MS;
        let (free, queued) = (wide.offer(now_ns, FULL, 0), narrow.offer(now_ns, FULL, 0));
        assert!(
            queued == PacketFate::DroppedByBuffer
                || (free == PacketFate::DroppedByLoss) == (queued == PacketFate::DroppedByLoss)
        );
    }
    assert!(narrow.counters().dropped_by_buffer.packets > 0 && narrow.counters().dropped_by_loss.packets > 0);
}

#[test]
fn memory_is_bounded_on_a_long_path_without_a_rate() {
    let mut link = link(DirectionParameters { delay_ns: 1000 * MS, ..Default::default() });
    let fits = MAX_HELD_BYTES as usize / 65_535;
    for packet in 0..fits {
        due(link.offer(0, 65_535, packet));
    }
    assert_eq!(link.offer(0, 65_535, 0), PacketFate::DroppedByMemory);
    assert_eq!(link.counters().dropped_by_memory.packets, 1);
}

#[derive(Debug, Clone)]
enum Step {
    Offer { after_ns: u64, size: usize },
    Collect { after_ns: u64 },
    Change { after_ns: u64, parameters: DirectionParameters },
}

fn parameters() -> impl Strategy<Value = DirectionParameters> {
    let rate_bps = prop::option::weighted(0.8, 1_000u64..1_000_000_000);
    (rate_bps, 0..300 * MS, 1_500u64..200_000, 0.0..0.3f64, prop::bool::weighted(0.05)).prop_map(
        |(rate_bps, delay_ns, buffer_bytes, loss, down)| DirectionParameters {
            rate_bps,
            delay_ns,
            buffer_bytes: Some(buffer_bytes),
            loss,
            down,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..MS, 20usize..9000).prop_map(|(after_ns, size)| Step::Offer { after_ns, size }),
        4 => (0..50 * MS).prop_map(|after_ns| Step::Collect { after_ns }),
        1 => (0..MS, parameters()).prop_map(|(after_ns, parameters)| Step::Change { after_ns, parameters }),
    ]
}

proptest! {
    #[test]
    fn packets_are_conserved_in_order_never_early_and_never_over_the_buffer(
        first in parameters(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut link = link(first);
        let (mut now_ns, mut sequence, mut last_seen, mut last_due) = (0u64, 0usize, None, 0u64);
        for step in steps {
            match step {
                Step::Offer { after_ns, size } => {
                    now_ns += after_ns;
                    sequence += 1;
                    let verdict = link.offer(now_ns, size, sequence);
                    if let PacketFate::Due(due_ns) = verdict {
                        prop_assert!(due_ns >= now_ns + link.parameters().delay_ns);
                        if let (Some(_), Some(room)) = (link.parameters().rate_bps, link.parameters().buffer_bytes) {
                            prop_assert!(link.queue_bytes(now_ns) <= room);
                        }
                    }
                }
                Step::Collect { after_ns } => {
                    now_ns += after_ns;
                    while let Some(arrival) = link.pop_due(now_ns) {
                        prop_assert!(arrival.due_ns <= now_ns && arrival.due_ns >= last_due);
                        prop_assert!(Some(arrival.payload) > last_seen);
                        (last_seen, last_due) = (Some(arrival.payload), arrival.due_ns);
                    }
                }
                Step::Change { after_ns, parameters } => {
                    now_ns += after_ns;
                    let (backlog, spared) = (link.queue_bytes(now_ns), parameters.rate_bps.is_some() && !parameters.down);
                    link.set_parameters(now_ns, parameters);
                    if spared && backlog > 0 {
                        // Times are whole nanoseconds; at 1 Gb/s one is an eighth of a byte.
                        prop_assert!(link.queue_bytes(now_ns).abs_diff(backlog) <= 1);
                    }
                }
            }
            let counters = link.counters();
            let parted = [
                counters.delivered,
                counters.dropped_by_buffer,
                counters.dropped_by_loss,
                counters.dropped_by_down,
                counters.dropped_by_memory,
            ];
            let gone: u64 = parted.iter().map(|volume| volume.packets).sum();
            prop_assert_eq!(counters.offered.packets, gone + link.held_packets() as u64);
        }
    }
}
