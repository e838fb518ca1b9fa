//! Thinning of acknowledgements.

use std::net::{IpAddr, Ipv4Addr};

use fairlead_wan::packet::{FlowKey, PacketFacts};
use fairlead_wan::thin::{parse_thinning, AckThinner, Thinned, Thinning};

const MS: u64 = 1_000_000;

fn flow(port: u16) -> FlowKey {
    let address = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
    FlowKey { source: address, destination: address, protocol: 6, ports: (port, 80) }
}

fn ack(port: u16, number: u32) -> PacketFacts {
    PacketFacts { flow: Some(flow(port)), bare_ack: Some(number) }
}

fn data(port: u16) -> PacketFacts {
    PacketFacts { flow: Some(flow(port)), bare_ack: None }
}

fn thinner(keep_each: u32) -> AckThinner<&'static str> {
    AckThinner::new(Some(Thinning { keep_each, hold_ns: 5 * MS }))
}

fn held() -> Thinned<&'static str> {
    Thinned { superseded: None, passed: [None, None] }
}

fn dropped(superseded: &'static str) -> Thinned<&'static str> {
    Thinned { superseded: Some(superseded), passed: [None, None] }
}

fn passed(first: &'static str, second: Option<&'static str>) -> Thinned<&'static str> {
    Thinned { superseded: None, passed: [Some(first), second] }
}

#[test]
fn each_third_of_a_flow_goes_on_and_the_two_before_it_are_dropped() {
    let mut thinner = thinner(3);
    for (packet, number, outcome) in [
        ("a", 1000, held()),
        ("b", 2000, dropped("a")),
        ("c", 3000, Thinned { superseded: Some("b"), passed: [Some("c"), None] }),
        ("d", 4000, held()),
        ("e", 5000, dropped("d")),
        ("f", 6000, Thinned { superseded: Some("e"), passed: [Some("f"), None] }),
    ] {
        assert_eq!(thinner.offer(0, &ack(1, number), packet), outcome, "{packet}");
    }
    assert!(thinner.is_empty());
}

#[test]
fn flows_do_not_count_for_each_other() {
    let mut thinner = thinner(2);
    assert_eq!(thinner.offer(0, &ack(1, 1000), "a1"), held());
    assert_eq!(thinner.offer(0, &ack(2, 9000), "b1"), held());
    assert_eq!(thinner.offer(0, &ack(1, 2000), "a2"), Thinned { superseded: Some("a1"), passed: [Some("a2"), None] });
    assert_eq!(thinner.len(), 1);
}

#[test]
fn the_last_one_goes_on_by_itself_when_the_first_has_been_held_for_its_time() {
    let mut thinner = thinner(10);
    assert_eq!(thinner.offer(MS, &ack(1, 1000), "a"), held());
    assert_eq!(thinner.offer(4 * MS, &ack(1, 2000), "b"), dropped("a"));
    assert_eq!(thinner.next_release_ns(), Some(6 * MS));
    assert_eq!(thinner.release(), Some("b"));
    assert_eq!((thinner.release(), thinner.next_release_ns()), (None, None));
}

#[test]
fn what_is_no_news_of_more_arrived_data_is_never_dropped_and_nothing_is_overtaken() {
    for (case, follower) in [("a duplicate", ack(1, 1000)), ("an older one", ack(1, 999)), ("data", data(1))] {
        let mut thinner = thinner(3);
        assert_eq!(thinner.offer(0, &ack(1, 1000), "held"), held());
        assert_eq!(thinner.offer(0, &follower, case), passed("held", Some(case)));
        assert!(thinner.is_empty());
    }
    assert_eq!(thinner(3).offer(0, &PacketFacts::default(), "ARP"), passed("ARP", None));
    assert_eq!(thinner(3).offer(0, &data(1), "data"), passed("data", None));
}

#[test]
fn acknowledgement_numbers_go_round() {
    let mut thinner = thinner(3);
    assert_eq!(thinner.offer(0, &ack(1, u32::MAX - 5), "before"), held());
    assert_eq!(thinner.offer(0, &ack(1, 4), "after"), dropped("before"));
}

#[test]
fn without_thinning_everything_passes() {
    let mut thinner = AckThinner::new(None);
    for number in 0..10 {
        assert_eq!(thinner.offer(0, &ack(1, number), "ack"), passed("ack", None));
    }
}

#[test]
fn thinning_is_a_count_and_a_time() {
    for (text, expected) in
        [("1", None), ("4", Some((4, 5 * MS))), ("8,2ms", Some((8, 2 * MS))), (" 2 , 500us", Some((2, 500_000)))]
    {
        let expected = expected.map(|(keep_each, hold_ns)| Thinning { keep_each, hold_ns });
        assert_eq!(parse_thinning("thin-acks", text), Ok(expected), "{text}");
    }
    for text in ["", "0", "-1", "1.5", "two", "1001", "4,", "4,0", "4,2s", "4,5ms,6"] {
        assert_eq!(parse_thinning("thin-acks", text).expect_err(text).field, "thin-acks");
    }
}
