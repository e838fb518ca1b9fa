//! The model of one direction.

use std::net::{IpAddr, Ipv4Addr};

use fairlead_wan::link::{Link, PacketFate, MAX_HELD_BYTES};
use fairlead_wan::mishap::Reordering;
use fairlead_wan::packet::{FlowKey, PacketFacts};
use fairlead_wan::parameters::DirectionParameters;
use fairlead_wan::police::Policing;
use fairlead_wan::queue::{parse_queue, QueueKind};
use fairlead_wan::receiver::SlowReceiver;
use fairlead_wan::thin::parse_thinning;
use rand_pcg::Pcg64;

const MS: u64 = 1_000_000;
const FULL: usize = 1500;
/// The first packets that are lost at 0.3 with this seed: recordings of one seed are to be comparable for ever.
const LOSSES_OF_SEED_7: [usize; 4] = [0, 2, 10, 15];

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

/// Offers a packet of which nothing is known.
fn offer(link: &mut Link<usize>, now_ns: u64, size: usize, payload: usize) -> PacketFate {
    link.offer(now_ns, size, &PacketFacts::default(), payload)
}

/// Offers a packet that the link must take.
fn take(link: &mut Link<usize>, now_ns: u64, size: usize, payload: usize) {
    assert_eq!(offer(link, now_ns, size, payload), PacketFate::Taken);
}

/// When everything that the link holds is due; it is empty after that, and its time over.
fn dues(link: &mut Link<usize>) -> Vec<u64> {
    std::iter::from_fn(|| link.pop_due(u64::MAX)).map(|arrival| arrival.due_ns).collect()
}

fn dues_ms(link: &mut Link<usize>) -> Vec<u64> {
    dues(link).into_iter().map(|due_ns| due_ns / MS).collect()
}

#[test]
fn packets_back_to_back_leave_at_exactly_the_rate() {
    for rate_bps in [1_000_000, 70_000_000, 123_456_789, 500_000_000, 9_999_999_999] {
        let mut link = link(with_rate(rate_bps, 0, 1 << 30));
        for packet in 0..10_000 {
            take(&mut link, 0, FULL, packet);
        }
        for (count, due_ns) in (1u128..).zip(dues(&mut link)) {
            let exact = count * FULL as u128 * 8_000_000_000 / u128::from(rate_bps);
            assert_eq!(u128::from(due_ns), exact, "packet {count} at {rate_bps} bit/s");
        }
    }
}

#[test]
fn an_idle_link_adds_the_time_on_the_wire_and_the_delay() {
    let mut link = link(with_rate(100_000_000, 20 * MS, 500_000));
    take(&mut link, 5 * MS, FULL, 0);
    take(&mut link, 400 * MS, 40, 0);
    assert_eq!(dues(&mut link), [5 * MS + 120_000 + 20 * MS, 400 * MS + 3_200 + 20 * MS]);
}

#[test]
fn without_a_rate_only_the_delay_counts_and_nothing_queues() {
    let mut link = link(DirectionParameters { delay_ns: 7 * MS, buffer_bytes: Some(2_000), ..Default::default() });
    for packet in 0..100 {
        take(&mut link, 3, FULL, packet);
    }
    assert_eq!(link.queue_bytes(3), 0);
    assert_eq!(dues(&mut link), [3 + 7 * MS; 100]);
}

#[test]
fn a_packet_comes_out_when_due_and_not_a_nanosecond_before() {
    let mut link = link(with_rate(8_000_000, MS, 100_000));
    take(&mut link, 0, 1000, 42);
    let due_ns = 2 * MS;
    assert_eq!(link.next_due_ns(), Some(due_ns));
    assert!(link.pop_due(due_ns - 1).is_none());
    assert_eq!(link.pop_due(due_ns).map(|arrival| arrival.payload), Some(42));
    assert_eq!(link.next_due_ns(), None);
}

#[test]
fn the_buffer_takes_what_fits_to_the_byte_and_drops_the_next() {
    let mut link = link(with_rate(8_000_000, 0, 3_000));
    take(&mut link, 0, FULL, 0);
    take(&mut link, 0, FULL, 1);
    assert_eq!(offer(&mut link, 0, 1, 2), PacketFate::DroppedByBuffer);
    // A byte takes a microsecond at this rate.
    assert_eq!(offer(&mut link, 1_000, 2, 3), PacketFate::DroppedByBuffer);
    take(&mut link, 1_000, 1, 4);
    assert_eq!(link.queue_peak_bytes(), 3_000);
    assert_eq!(link.counters().dropped_by_buffer.packets, 2);
    assert_eq!(link.counters().dropped_by_buffer.bytes, 3);
}

#[test]
fn backlog_and_waiting_time_agree_with_the_rate() {
    let mut link = link(with_rate(8_000_000, 0, 100_000));
    for packet in 0..10 {
        take(&mut link, 0, 1000, packet);
    }
    assert_eq!((link.queue_bytes(0), link.queue_delay_ns(0)), (10_000, 10 * MS));
    assert_eq!((link.queue_bytes(4 * MS), link.queue_delay_ns(4 * MS)), (6_000, 6 * MS));
    assert_eq!((link.queue_bytes(20 * MS), link.queue_delay_ns(20 * MS)), (0, 0));
}

#[test]
fn a_new_rate_holds_for_what_is_queued_and_spares_what_has_left() {
    let mut link = link(with_rate(8_000_000, 10 * MS, 100_000));
    for packet in 0..10 {
        take(&mut link, 0, 1000, packet);
    }
    link.set_parameters(5 * MS, with_rate(4_000_000, 10 * MS, 100_000));
    assert_eq!(link.queue_bytes(5 * MS), 5_000);
    assert_eq!(dues_ms(&mut link), [11, 12, 13, 14, 15, 17, 19, 21, 23, 25]);
}

#[test]
fn a_rate_lifted_lets_the_queue_go_at_once() {
    let mut link = link(with_rate(8_000_000, 10 * MS, 100_000));
    for packet in 0..10 {
        take(&mut link, 0, 1000, packet);
    }
    link.set_parameters(2 * MS, DirectionParameters { delay_ns: 10 * MS, ..Default::default() });
    assert_eq!(dues_ms(&mut link), [11, 12, 12, 12, 12, 12, 12, 12, 12, 12]);
}

#[test]
fn a_shorter_delay_lets_no_packet_overtake() {
    let mut link = link(DirectionParameters { delay_ns: 100 * MS, ..Default::default() });
    take(&mut link, 0, FULL, 0);
    link.set_parameters(MS, DirectionParameters { delay_ns: MS, ..Default::default() });
    take(&mut link, 2 * MS, FULL, 1);
    take(&mut link, 150 * MS, FULL, 2);
    assert_eq!(dues_ms(&mut link), [100, 100, 151]);
}

#[test]
fn going_down_loses_what_is_under_way_and_coming_up_starts_idle() {
    let mut link = link(with_rate(8_000_000, 10 * MS, 100_000));
    take(&mut link, 0, 1000, 0);
    take(&mut link, 0, 1000, 1);
    link.set_parameters(MS, DirectionParameters { down: true, ..with_rate(8_000_000, 10 * MS, 100_000) });
    assert_eq!(offer(&mut link, MS, 1000, 2), PacketFate::DroppedByDown);
    assert_eq!((link.next_due_ns(), link.held_packets(), link.held_bytes()), (None, 0, 0));
    assert_eq!(link.counters().dropped_by_down.packets, 3);
    link.set_parameters(MS, with_rate(8_000_000, 10 * MS, 100_000));
    take(&mut link, MS, 1000, 3);
    assert_eq!(dues_ms(&mut link), [12]);
}

#[test]
fn losses_come_as_often_as_asked_and_use_the_rate() {
    for loss in [0.0, 0.001, 0.1, 0.5, 1.0] {
        const COUNT: u64 = 200_000;
        let mut link = link(DirectionParameters { loss, ..with_rate(8_000_000_000, 0, 1 << 30) });
        (0..COUNT).for_each(|_| take(&mut link, 0, 1000, 0));
        assert_eq!(link.queue_delay_ns(0), COUNT * 1000, "a lost packet still takes its time on the wire");
        dues(&mut link);
        let lost = link.counters().dropped_by_loss.packets as f64;
        let (expected, deviation) = (COUNT as f64 * loss, (COUNT as f64 * loss * (1.0 - loss)).sqrt());
        assert!((lost - expected).abs() <= 5.0 * deviation, "{lost} lost of {COUNT} at {loss}");
    }
}

/// Which of `count` packets, one each 5 ms, come out.
fn arrived(link: &mut Link<usize>, count: usize) -> Vec<bool> {
    for packet in 0..count {
        offer(link, packet as u64 * 5 * MS, FULL, packet);
    }
    let mut arrived = vec![false; count];
    std::iter::from_fn(|| link.pop_due(u64::MAX)).for_each(|arrival| arrived[arrival.payload] = true);
    arrived
}

#[test]
fn the_same_seed_loses_the_same_packets_and_another_seed_others() {
    let survivors = |seed: u128, stream: u128| {
        let lossy = DirectionParameters { loss: 0.3, ..Default::default() };
        arrived(&mut Link::new(lossy, Pcg64::new(seed, stream)), 1000)
    };
    assert_eq!(survivors(7, 0), survivors(7, 0));
    assert_ne!(survivors(7, 0), survivors(8, 0));
    assert_ne!(survivors(7, 0), survivors(7, 1));
}

#[test]
fn a_seed_loses_the_packets_that_it_has_always_lost() {
    let lossy = DirectionParameters { loss: 0.3, ..Default::default() };
    let survivors = arrived(&mut Link::new(lossy, Pcg64::new(7, 0)), 16);
    assert_eq!(survivors, std::array::from_fn::<bool, 16, _>(|packet| !LOSSES_OF_SEED_7.contains(&packet)));
}

#[test]
fn nothing_else_that_is_random_shifts_which_packets_are_lost() {
    let reorder = Some(Reordering { share: 0.3, extra_ns: 5 * MS });
    let mut link =
        Link::new(DirectionParameters { loss: 0.3, reorder, corrupt: 0.3, ..Default::default() }, Pcg64::new(7, 0));
    let arrived = arrived(&mut link, 16);
    let lost: Vec<usize> = (0..arrived.len()).filter(|packet| !arrived[*packet]).collect();
    assert_eq!(lost, LOSSES_OF_SEED_7);
}

#[test]
fn a_share_of_packets_comes_late_and_the_others_pass_them() {
    const COUNT: usize = 10_000;
    let reorder = Some(Reordering { share: 0.3, extra_ns: 5 * MS + MS / 2 });
    let mut link = link(DirectionParameters { delay_ns: 10 * MS, reorder, ..Default::default() });
    for packet in 0..COUNT {
        take(&mut link, packet as u64 * MS, FULL, packet);
    }
    let arrivals: Vec<_> = std::iter::from_fn(|| link.pop_due(u64::MAX)).collect();
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.due_ns));
    let delays = arrivals.iter().map(|arrival| arrival.due_ns - arrival.payload as u64 * MS);
    let (late, in_time): (Vec<u64>, Vec<u64>) = delays.partition(|delay_ns| *delay_ns > 10 * MS);
    assert!((2_800..3_200).contains(&late.len()), "{} of {COUNT}", late.len());
    assert!(late.iter().all(|delay_ns| *delay_ns == 15 * MS + MS / 2));
    assert_eq!((late.len() + in_time.len(), late.len() as u64), (COUNT, link.counters().reordered.packets));
    assert!(!arrivals.is_sorted_by_key(|arrival| arrival.payload), "nothing overtook anything");
}

#[test]
fn a_share_of_packets_comes_with_other_content() {
    let mut link = link(DirectionParameters { corrupt: 0.3, ..Default::default() });
    (0..10_000).for_each(|packet| take(&mut link, 0, FULL, packet));
    let draws: Vec<u64> =
        std::iter::from_fn(|| link.pop_due(u64::MAX)).filter_map(|arrival| arrival.corruption).collect();
    assert!((2_800..3_200).contains(&draws.len()), "{}", draws.len());
    assert_eq!(link.counters().delivered.packets, 10_000);
}

#[test]
fn what_the_queue_drops_does_not_shift_which_packets_are_lost() {
    for queue in ["drop-tail", "drop-tail-packets", "codel", "fq-codel"] {
        let queue = parse_queue("queue", queue).expect("a kind");
        let lossy = DirectionParameters { loss: 0.3, ..Default::default() };
        let narrow = DirectionParameters { loss: 0.3, queue, ..with_rate(1_000_000, 0, 3_000) };
        let (mut wide, mut narrow) = (link(lossy), link(narrow));
        let (free, queued) = (arrived(&mut wide, 2_000), arrived(&mut narrow, 2_000));
        assert!(free.iter().zip(queued).all(|(free, queued)| *free || !queued), "{queue}");
        assert!(narrow.counters().dropped_by_buffer.packets > 0 && narrow.counters().dropped_by_loss.packets > 0);
    }
}

#[test]
fn memory_is_bounded_on_a_long_path_without_a_rate() {
    let mut link = link(DirectionParameters { delay_ns: 1000 * MS, ..Default::default() });
    let fits = MAX_HELD_BYTES as usize / 65_535;
    for packet in 0..fits {
        take(&mut link, 0, 65_535, packet);
    }
    assert_eq!(offer(&mut link, 0, 65_535, 0), PacketFate::DroppedByMemory);
    assert_eq!(link.counters().dropped_by_memory.packets, 1);
}

#[test]
fn a_buffer_of_packets_counts_them_whatever_their_size() {
    let queue = parse_queue("queue", "drop-tail-packets").expect("a kind");
    let mut link = link(DirectionParameters { queue, ..with_rate(8_000_000, 0, 4_500) });
    for size in [40, 9000, 1] {
        take(&mut link, 0, size, 0);
    }
    assert_eq!(offer(&mut link, 0, 1, 0), PacketFate::DroppedByBuffer);
    // The first has left after its 40 µs.
    take(&mut link, 40_000, FULL, 0);
    assert_eq!(link.counters().dropped_by_buffer.packets, 1);
}

#[test]
fn another_queue_takes_over_what_waits_and_drops_nothing() {
    let kinds = ["drop-tail", "fq-codel", "codel", "drop-tail-packets", "fq-codel:flows=1", "drop-tail"];
    let mut link = link(with_rate(8_000_000, 0, 100_000));
    for packet in 0..10 {
        take(&mut link, 0, 1000, packet);
    }
    for (at_ms, kind) in (1..).zip(kinds) {
        let queue = parse_queue("queue", kind).expect("a kind");
        link.set_parameters(at_ms * MS / 2, DirectionParameters { queue, ..link.parameters().clone() });
    }
    assert_eq!(dues_ms(&mut link), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

fn flow(port: u16, protocol: u8) -> FlowKey {
    let address = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
    FlowKey { source: address, destination: address, protocol, ports: (port, 80) }
}

#[test]
fn beside_a_flow_that_sends_too_much_a_sparse_one_waits_for_all_of_it_or_for_a_packet_as_the_queue_is() {
    // 12 Mb/s: a full packet takes a millisecond, and the buffer of 100 fills.
    for (queue, waits_ms) in [("drop-tail", 90..=100), ("codel", 50..=100), ("fq-codel", 0..=2)] {
        let queue = parse_queue("queue", queue).expect("a kind");
        let mut link = link(DirectionParameters { queue, ..with_rate(12_000_000, 0, 150_000) });
        let greedy = PacketFacts { flow: Some(flow(1, 17)), bare_ack: None };
        let sparse = PacketFacts { flow: Some(flow(2, 17)), bare_ack: None };
        for half_ms in 0..1000u64 {
            link.offer(half_ms * MS / 2, FULL, &greedy, 0);
        }
        // A first packet that a full buffer turns away says nothing of how long one waits.
        let sent_ns = (1000u64..)
            .map(|half_ms| half_ms * MS / 2)
            .find(|at_ns| link.offer(*at_ns, 100, &sparse, 1) == PacketFate::Taken);
        let arrival =
            std::iter::from_fn(|| link.pop_due(u64::MAX)).find(|arrival| arrival.payload == 1).expect("it arrives");
        let waited_ms = (arrival.due_ns - sent_ns.expect("it is taken")) / MS;
        assert!(waits_ms.contains(&waited_ms), "{queue}: {waited_ms} ms");
        assert_eq!(link.counters().dropped_by_codel.packets > 0, queue != QueueKind::DropTail, "{queue}");
    }
}

#[test]
fn a_full_fair_queue_gives_up_the_packets_of_the_flow_that_has_most() {
    let queue = parse_queue("queue", "fq-codel").expect("a kind");
    let mut link = link(DirectionParameters { queue, ..with_rate(12_000_000, 0, 15_000) });
    for packet in 0..40 {
        // Of each ten one is of another flow.
        let facts = PacketFacts { flow: Some(flow(u16::from(packet % 10 == 9), 6)), bare_ack: None };
        assert_eq!(link.offer(0, FULL, &facts, packet), PacketFate::Taken);
        assert!(link.queue_bytes(0) <= 15_000);
    }
    let arrived: Vec<usize> = std::iter::from_fn(|| link.pop_due(u64::MAX)).map(|arrival| arrival.payload).collect();
    assert_eq!(link.counters().dropped_by_buffer.packets, 30);
    assert!([9, 19, 29, 39].iter().all(|packet| arrived.contains(packet)), "{arrived:?}");
}

#[test]
fn policing_of_udp_spares_tcp_and_policing_of_everything_spares_nobody() {
    let udp = PacketFacts { flow: Some(flow(1, 17)), bare_ack: None };
    let tcp = PacketFacts { flow: Some(flow(1, 6)), bare_ack: None };
    let bucket = Some(Policing { rate_bps: 8_000_000, burst_bytes: 3_000 });
    for (parameters, fates) in [
        (
            DirectionParameters { police_udp: bucket, ..Default::default() },
            (PacketFate::DroppedByUdpPolicing, PacketFate::Taken),
        ),
        (
            DirectionParameters { police: bucket, ..Default::default() },
            (PacketFate::DroppedByPolicing, PacketFate::DroppedByPolicing),
        ),
    ] {
        let mut link = link(parameters.clone());
        for _ in 0..2 {
            assert_eq!(link.offer(0, FULL, &udp, 0), PacketFate::Taken, "the burst");
        }
        assert_eq!((link.offer(0, FULL, &udp, 0), link.offer(0, FULL, &tcp, 0)), fates);
        // A live change begins with what the bucket has; a policer that ends lets everything pass.
        link.set_parameters(0, DirectionParameters { police: None, police_udp: None, ..parameters });
        assert_eq!(link.offer(0, FULL, &udp, 0), PacketFate::Taken);
    }
}

#[test]
fn thinned_acknowledgements_arrive_in_order_and_the_last_by_its_time() {
    let thin_acks = parse_thinning("thin-acks", "3,5ms").expect("good");
    let mut link = link(DirectionParameters { thin_acks, ..with_rate(8_000_000, 10 * MS, 100_000) });
    for number in 0..8u32 {
        let facts = PacketFacts { flow: Some(flow(1, 6)), bare_ack: Some(number) };
        assert_eq!(link.offer(u64::from(number) * MS, 1000, &facts, number as usize), PacketFate::Taken);
    }
    assert_eq!(link.next_due_ns(), Some(13 * MS));
    let arrivals: Vec<(usize, u64)> =
        std::iter::from_fn(|| link.pop_due(u64::MAX)).map(|arrival| (arrival.payload, arrival.due_ns / MS)).collect();
    // The third of each three; the seventh is held at 6 ms, and the eighth goes on in its place at 11 ms.
    assert_eq!(arrivals, [(2, 13), (5, 16), (7, 22)]);
    assert_eq!(link.counters().dropped_by_thinning.packets, 5);
}

#[test]
fn to_thin_no_more_lets_what_is_held_go_first() {
    let thin_acks = parse_thinning("thin-acks", "3").expect("good");
    let mut link = link(DirectionParameters { thin_acks, ..Default::default() });
    let facts = PacketFacts { flow: Some(flow(1, 6)), bare_ack: Some(1) };
    link.offer(0, 40, &facts, 1);
    assert_eq!((link.held_packets(), link.pop_due(MS)), (1, None));
    link.set_parameters(MS, DirectionParameters::default());
    link.offer(MS, 40, &facts, 2);
    assert_eq!(std::iter::from_fn(|| link.pop_due(MS)).map(|arrival| arrival.payload).collect::<Vec<_>>(), [1, 2]);
}

/// A path of 8 Mb/s and 10 ms without a queue of its own to speak of, whose receiver takes `cost_ms` for a packet.
fn with_receiver(cost_ms: u64, room_packets: usize) -> DirectionParameters {
    let receiver = Some(SlowReceiver { cost_ns: cost_ms * MS, room_packets });
    DirectionParameters { receiver, ..with_rate(8_000_000, 10 * MS, 100_000) }
}

/// Offers packets of 1000 bytes one by one, as fast as the path takes them: none waits for another.
fn offer_at_the_rate(link: &mut Link<usize>, count: usize) {
    (0..count).for_each(|packet| take(link, packet as u64 * MS, 1000, packet));
}

#[test]
fn a_slow_receiver_drops_though_nothing_waits_on_the_path() {
    let mut link = link(with_receiver(3, 2));
    offer_at_the_rate(&mut link, 9);
    assert_eq!(link.queue_peak_bytes(), 1000, "the packet being sent");
    let arrivals: Vec<(usize, u64)> =
        std::iter::from_fn(|| link.pop_due(u64::MAX)).map(|arrival| (arrival.payload, arrival.due_ns / MS)).collect();
    // They come from 11 ms on, one each millisecond; one is at work, one waits, and each third finds room.
    assert_eq!(arrivals, [(0, 14), (1, 17), (3, 20), (6, 23)]);
    assert_eq!((link.counters().dropped_by_receiver.packets, link.counters().dropped_by_receiver.bytes), (5, 5_000));
    assert_eq!(link.counters().dropped_by_buffer.packets, 0);
}

#[test]
fn a_receiver_is_asked_again_when_it_has_taken_a_packet_and_not_before() {
    let mut link = link(with_receiver(3, 2));
    assert_eq!(link.next_due_ns(), None);
    take(&mut link, 0, 1000, 0);
    // On the path, and then in the receiver.
    for now_ns in [0, 5 * MS, 12 * MS] {
        assert!(link.pop_due(now_ns).is_none());
        assert_eq!((link.next_due_ns(), link.held_packets()), (Some(14 * MS), 1));
    }
    assert_eq!(link.pop_due(14 * MS).map(|arrival| arrival.due_ns), Some(14 * MS));
    assert_eq!((link.next_due_ns(), link.held_packets(), link.held_bytes()), (None, 0, 0));
}

#[test]
fn a_receiver_no_longer_slow_takes_what_waits_at_once_and_one_that_becomes_slow_what_comes_from_then_on() {
    let fast = with_rate(8_000_000, 10 * MS, 100_000);
    let mut link = link(fast.clone());
    offer_at_the_rate(&mut link, 8);
    link.set_parameters(12 * MS, with_receiver(3, 10));
    link.set_parameters(17 * MS, fast);
    // Two came before; of those at 13 to 17 ms one was taken, and the last comes later.
    assert_eq!(dues_ms(&mut link), [11, 12, 16, 17, 17, 17, 17, 18]);
}

#[test]
fn a_path_that_goes_down_leaves_the_receiver_what_has_come() {
    let mut link = link(with_receiver(3, 10));
    offer_at_the_rate(&mut link, 5);
    link.set_parameters(13 * MS, DirectionParameters { down: true, ..with_receiver(3, 10) });
    assert_eq!((link.counters().dropped_by_down.packets, link.held_packets(), link.held_bytes()), (2, 3, 3_000));
    assert_eq!(dues_ms(&mut link), [14, 17, 20]);
}
