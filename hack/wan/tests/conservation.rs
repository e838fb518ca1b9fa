//! What holds for every link, whatever comes and changes: packets and bytes are conserved, flows stay in order, nothing is early.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use fairlead_wan::link::{Arrival, Link, PacketFate};
use fairlead_wan::mishap::Reordering;
use fairlead_wan::packet::{FlowKey, PacketFacts};
use fairlead_wan::parameters::DirectionParameters;
use fairlead_wan::police::Policing;
use fairlead_wan::queue::codel::CoDelParameters;
use fairlead_wan::queue::fq_codel::FqCoDelParameters;
use fairlead_wan::queue::QueueKind;
use fairlead_wan::receiver::SlowReceiver;
use fairlead_wan::thin::Thinning;
use proptest::prelude::*;
use rand_pcg::Pcg64;

const MS: u64 = 1_000_000;
const LARGEST: u64 = 9_000;

#[derive(Debug, Clone)]
enum Step {
    Offer { after_ns: u64, size: usize, facts: PacketFacts },
    Collect { after_ns: u64 },
    Change { after_ns: u64, parameters: DirectionParameters },
}

fn queue_kind() -> impl Strategy<Value = QueueKind> {
    // Short times, so that CoDel drops within a short test.
    let codel =
        (1..5 * MS, 5 * MS..20 * MS).prop_map(|(target_ns, interval_ns)| CoDelParameters { target_ns, interval_ns });
    let fq = (codel.clone(), 1u32..8, 64u32..4_000);
    prop_oneof![
        Just(QueueKind::DropTail),
        Just(QueueKind::DropTailPackets),
        codel.prop_map(QueueKind::CoDel),
        fq.prop_map(|(codel, flows, quantum_bytes)| QueueKind::FqCoDel(FqCoDelParameters {
            codel,
            flows,
            quantum_bytes
        })),
    ]
}

fn policing() -> impl Strategy<Value = Option<Policing>> {
    let policing = (100_000u64..1_000_000_000, 1_500u64..100_000);
    prop::option::weighted(0.3, policing.prop_map(|(rate_bps, burst_bytes)| Policing { rate_bps, burst_bytes }))
}

fn thinning() -> impl Strategy<Value = Option<Thinning>> {
    let thinning = (2u32..5, 1..10 * MS).prop_map(|(keep_each, hold_ns)| Thinning { keep_each, hold_ns });
    prop::option::weighted(0.5, thinning)
}

fn receiver() -> impl Strategy<Value = Option<SlowReceiver>> {
    let receiver = (1..2 * MS, 1usize..50).prop_map(|(cost_ns, room_packets)| SlowReceiver { cost_ns, room_packets });
    prop::option::weighted(0.4, receiver)
}

fn reordering() -> impl Strategy<Value = Option<Reordering>> {
    let reordering = (0.01..0.5f64, 1..50 * MS).prop_map(|(share, extra_ns)| Reordering { share, extra_ns });
    prop::option::weighted(0.2, reordering)
}

fn parameters() -> impl Strategy<Value = DirectionParameters> {
    let rate_bps = prop_oneof![1_000u64..1_000_000, 1_000_000u64..50_000_000, 50_000_000u64..1_000_000_000];
    let rate_bps = prop::option::weighted(0.8, rate_bps);
    let path = (rate_bps, 0..300 * MS, 1_500u64..200_000, prop::bool::weighted(0.05));
    let random = (0.0..0.3f64, reordering(), 0.0..0.3f64);
    (path, queue_kind(), policing(), policing(), thinning(), random, receiver()).prop_map(
        |(path, queue, police, police_udp, thin_acks, (loss, reorder, corrupt), receiver)| {
            let (rate_bps, delay_ns, buffer_bytes, down) = path;
            DirectionParameters {
                rate_bps,
                delay_ns,
                buffer_bytes: Some(buffer_bytes),
                queue,
                police,
                police_udp,
                thin_acks,
                loss,
                reorder,
                corrupt,
                receiver,
                down,
            }
        },
    )
}

fn facts() -> impl Strategy<Value = PacketFacts> {
    let flow = (0u16..5, prop::sample::select(vec![6u8, 17])).prop_map(|(port, protocol)| {
        let address = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
        FlowKey { source: address, destination: address, protocol, ports: (port, 80) }
    });
    (prop::option::weighted(0.9, flow), prop::option::of(any::<u32>())).prop_map(|(flow, number)| PacketFacts {
        flow,
        bare_ack: number.filter(|_| flow.is_some_and(|flow| flow.protocol == 6)),
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => (0..MS, 20usize..LARGEST as usize, facts()).prop_map(|(after_ns, size, facts)| Step::Offer { after_ns, size, facts }),
        4 => (0..50 * MS).prop_map(|after_ns| Step::Collect { after_ns }),
        1 => (0..MS, parameters()).prop_map(|(after_ns, parameters)| Step::Change { after_ns, parameters }),
    ]
}

/// A packet that knows when it came, and where it is in the row of all.
#[derive(Debug, Clone, Copy)]
struct Ticket {
    sequence: usize,
    flow: Option<FlowKey>,
    earliest_ns: u64,
}

struct WatchedLink {
    link: Link<Ticket>,
    now_ns: u64,
    offered: usize,
    last_due_ns: u64,
    last_of_flow: HashMap<Option<FlowKey>, usize>,
    least_delay_ns: u64,
    keeps_order: bool,
}

impl WatchedLink {
    fn offer(&mut self, size: usize, facts: &PacketFacts) -> Result<(), TestCaseError> {
        self.offered += 1;
        let ticket = Ticket { sequence: self.offered, flow: facts.flow, earliest_ns: self.now_ns };
        let fate = self.link.offer(self.now_ns, size, facts, ticket);
        let parameters = self.link.parameters().clone();
        if let (PacketFate::Taken, Some(_), Some(room)) = (fate, parameters.rate_bps, parameters.buffer_bytes) {
            let queued = self.link.queue_bytes(self.now_ns);
            match parameters.queue {
                QueueKind::DropTail | QueueKind::CoDel(_) if parameters.thin_acks.is_none() => {
                    prop_assert!(queued <= room)
                }
                // The packet being sent cannot be given up.
                QueueKind::FqCoDel(_) if parameters.thin_acks.is_none() => prop_assert!(queued <= room.max(LARGEST)),
                _ => {}
            }
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), TestCaseError> {
        while let Some(arrival) = self.link.pop_due(self.now_ns) {
            prop_assert!(arrival.due_ns <= self.now_ns && arrival.due_ns >= self.last_due_ns);
            prop_assert!(arrival.due_ns >= arrival.payload.earliest_ns + self.least_delay_ns);
            let before = self.last_of_flow.insert(arrival.payload.flow, arrival.payload.sequence);
            prop_assert!(!self.keeps_order || before < Some(arrival.payload.sequence), "a flow was reordered");
            self.last_due_ns = arrival.due_ns;
        }
        prop_assert!(
            self.link.next_due_ns().is_none_or(|next_ns| next_ns > self.now_ns),
            "it would be asked again at once"
        );
        Ok(())
    }

    fn change(&mut self, parameters: DirectionParameters) -> Result<(), TestCaseError> {
        let before = self.link.parameters().clone();
        let backlog = self.link.queue_bytes(self.now_ns);
        let spared = parameters.rate_bps.is_some() && !parameters.down && before.thin_acks.is_none();
        let tail = |queue| matches!(queue, QueueKind::DropTail | QueueKind::DropTailPackets);
        self.least_delay_ns = self.least_delay_ns.min(parameters.delay_ns);
        self.keeps_order &= parameters.reorder.is_none();
        let plain = tail(before.queue) && tail(parameters.queue);
        self.link.set_parameters(self.now_ns, parameters);
        if spared && plain && backlog > 0 {
            // Times are whole nanoseconds; at 1 Gb/s one is an eighth of a byte.
            prop_assert!(self.link.queue_bytes(self.now_ns).abs_diff(backlog) <= 1);
        }
        Ok(())
    }

    fn nothing_is_unaccounted_for(&self) -> Result<(), TestCaseError> {
        let counters = self.link.counters();
        let parted = [
            counters.delivered,
            counters.dropped_by_buffer,
            counters.dropped_by_codel,
            counters.dropped_by_police,
            counters.dropped_by_police_udp,
            counters.dropped_by_thinning,
            counters.dropped_by_loss,
            counters.dropped_by_receiver,
            counters.dropped_by_down,
            counters.dropped_by_memory,
        ];
        let packets: u64 = parted.iter().map(|volume| volume.packets).sum();
        let bytes: u64 = parted.iter().map(|volume| volume.bytes).sum();
        prop_assert_eq!(counters.offered.packets, packets + self.link.held_packets() as u64);
        prop_assert_eq!(counters.offered.bytes, bytes + self.link.held_bytes());
        Ok(())
    }
}

fn watch(first: DirectionParameters, steps: Vec<Step>) -> Result<WatchedLink, TestCaseError> {
    let (least_delay_ns, keeps_order) = (first.delay_ns, first.reorder.is_none());
    let link = Link::new(first, Pcg64::new(1, 0));
    let mut watched = WatchedLink {
        link,
        now_ns: 0,
        offered: 0,
        last_due_ns: 0,
        last_of_flow: HashMap::new(),
        least_delay_ns,
        keeps_order,
    };
    for step in steps {
        match step {
            Step::Offer { after_ns, size, facts } => {
                watched.now_ns += after_ns;
                watched.offer(size, &facts)?;
            }
            Step::Collect { after_ns } => {
                watched.now_ns += after_ns;
                watched.collect()?;
            }
            Step::Change { after_ns, parameters } => {
                watched.now_ns += after_ns;
                watched.change(parameters)?;
            }
        }
        watched.nothing_is_unaccounted_for()?;
    }
    Ok(watched)
}

proptest! {
    #[test]
    fn packets_and_bytes_are_conserved_in_order_never_early_and_never_over_the_buffer(
        first in parameters(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut watched = watch(first, steps)?;
        while watched.link.pop_due(u64::MAX).is_some() {}
        prop_assert_eq!((watched.link.held_packets(), watched.link.held_bytes(), watched.link.next_due_ns()), (0, 0, None));
        watched.nothing_is_unaccounted_for()?;
    }

    #[test]
    fn how_often_the_link_is_asked_changes_nothing(
        parameters in parameters(),
        packets in prop::collection::vec((0..2 * MS, 20usize..LARGEST as usize, facts()), 1..200),
    ) {
        let seen = |one: Arrival<usize>| (one.due_ns, one.payload, one.corruption);
        let run = |asked_each_ns: Option<u64>| {
            let mut link = Link::new(parameters.clone(), Pcg64::new(1, 0));
            let (mut now_ns, mut arrivals) = (0, vec![]);
            for (number, (after_ns, size, facts)) in packets.iter().enumerate() {
                let before_ns = now_ns;
                now_ns += after_ns;
                for at_ns in asked_each_ns.into_iter().flat_map(|step_ns| (before_ns..now_ns).step_by(step_ns as usize)) {
                    link.queue_bytes(at_ns);
                    arrivals.extend(std::iter::from_fn(|| link.pop_due(at_ns)).map(seen));
                }
                link.offer(now_ns, *size, facts, number);
            }
            arrivals.extend(std::iter::from_fn(|| link.pop_due(u64::MAX)).map(seen));
            (arrivals, *link.counters())
        };
        prop_assert_eq!(run(None), run(Some(100_000)));
    }
}
