//! Parameters, and changes that apply wholly or not at all.

use fairlead_wan::mishap::Reordering;
use fairlead_wan::parameters::{Direction, PathParameters, WrittenChange};
use fairlead_wan::police::Policing;
use fairlead_wan::queue::QueueKind;
use fairlead_wan::receiver::SlowReceiver;

fn change(fields: &[(&str, &str)]) -> WrittenChange {
    let mut change = WrittenChange::default();
    for (field, value) in fields {
        let slot = match *field {
            "rate" => &mut change.rate,
            "delay" => &mut change.delay,
            "buffer" => &mut change.buffer,
            "queue" => &mut change.queue,
            "police" => &mut change.police,
            "police-udp" => &mut change.police_udp,
            "thin-acks" => &mut change.thin_acks,
            "loss" => &mut change.loss,
            "reorder" => &mut change.reorder,
            "corrupt" => &mut change.corrupt,
            "receiver" => &mut change.receiver,
            "down" => &mut change.down,
            other => panic!("no field {other}"),
        };
        *slot = Some((*value).to_owned());
    }
    change
}

fn path(fields: &[(&str, &str)]) -> PathParameters {
    let change = change(fields).parse("").expect("the quantities are good");
    PathParameters::initial(change, change).expect("the parameters are good")
}

#[test]
fn a_buffer_in_bdp_follows_the_direction_s_rate_and_the_round_trip() {
    let both = change(&[("delay", "10ms"), ("buffer", "2BDP")]).parse("").expect("good");
    let fast = both.overridden_by(change(&[("rate", "100M"), ("delay", "30ms")]).parse("-ab").expect("good"));
    let slow = both.overridden_by(change(&[("rate", "10M")]).parse("-ba").expect("good"));
    let path = PathParameters::initial(fast, slow).expect("good");
    assert_eq!((path.ab.delay_ns, path.ba.delay_ns), (30_000_000, 10_000_000));
    assert_eq!((path.ab.buffer_bytes, path.ba.buffer_bytes), (Some(1_000_000), Some(100_000)));
}

#[test]
fn without_a_buffer_a_rate_gets_one_product_or_the_least() {
    assert_eq!(path(&[("rate", "100M"), ("delay", "20ms")]).ab.buffer_bytes, Some(500_000));
    assert_eq!(path(&[("rate", "100M")]).ab.buffer_bytes, Some(65_536));
    assert_eq!(path(&[("delay", "20ms")]).ab.buffer_bytes, None);
}

#[test]
fn a_buffer_in_bdp_without_a_rate_is_refused_with_the_direction() {
    let bad = change(&[("buffer", "1BDP"), ("delay", "5ms")]).parse("").expect("good by itself");
    assert_eq!(PathParameters::initial(bad, bad).expect_err("no rate").field, "buffer-ab");
}

#[test]
fn a_change_touches_its_direction_and_its_fields_alone() {
    let before = path(&[("rate", "100M"), ("delay", "20ms"), ("loss", "0.01")]);
    let change = change(&[("rate", "50M"), ("down", "true")]).parse("").expect("good");
    let after = before.changed(Direction::Ba, change).expect("good");
    assert_eq!(after.ab, before.ab);
    assert_eq!(after.ba.rate_bps, Some(50_000_000));
    assert!(after.ba.down);
    assert_eq!((after.ba.delay_ns, after.ba.loss, after.ba.buffer_bytes), (20_000_000, 0.01, Some(500_000)));
}

#[test]
fn a_change_s_bdp_uses_the_values_after_it() {
    let before = path(&[("rate", "100M"), ("delay", "20ms")]);
    let change = change(&[("rate", "200M"), ("delay", "50ms"), ("buffer", "1BDP")]).parse("").expect("good");
    let after = before.changed(Direction::Both, change).expect("good");
    assert_eq!(after.ab.buffer_bytes, Some(2_500_000));
}

/// Whoever got no answer asks again.
#[test]
fn a_change_that_comes_twice_is_as_one() {
    let before = path(&[("rate", "100M"), ("delay", "20ms")]);
    let change = change(&[("rate", "200M"), ("delay", "50ms"), ("buffer", "2BDP"), ("loss", "0.01"), ("down", "true")]);
    let change = change.parse("").expect("good");
    for direction in [Direction::Ab, Direction::Ba, Direction::Both] {
        let once = before.changed(direction, change).expect("good");
        assert_eq!(once.changed(direction, change), Ok(once));
    }
}

#[test]
fn a_rate_for_a_link_without_a_buffer_needs_one() {
    let before = path(&[("delay", "20ms")]);
    let bare = change(&[("rate", "50M")]).parse("").expect("good");
    assert_eq!(before.changed(Direction::Both, bare).expect_err("no buffer").field, "buffer");
    let whole = change(&[("rate", "50M"), ("buffer", "100kB")]).parse("").expect("good");
    assert_eq!(before.changed(Direction::Both, whole).expect("good").ba.buffer_bytes, Some(100_000));
}

#[test]
fn a_bad_field_is_named_with_its_suffix() {
    assert_eq!(change(&[("loss", "2")]).parse("-ba").expect_err("over 1").field, "loss-ba");
    assert_eq!(change(&[("police-udp", "slow")]).parse("-ab").expect_err("no rate").field, "police-udp-ab");
}

#[test]
fn queue_policing_thinning_mishaps_and_the_receiver_change_by_themselves_and_are_taken_back() {
    let before = path(&[("rate", "100M"), ("delay", "20ms")]);
    let fields = [
        ("queue", "fq-codel"),
        ("police", "50M"),
        ("police-udp", "5M,3kB"),
        ("thin-acks", "4"),
        ("reorder", "0.01,5ms"),
        ("corrupt", "0.001"),
        ("receiver", "120us,64"),
    ];
    let after = before.changed(Direction::Ab, change(&fields).parse("").expect("good")).expect("good");
    assert_eq!(after.ba, before.ba);
    assert_eq!((after.ab.rate_bps, after.ab.buffer_bytes), (before.ab.rate_bps, before.ab.buffer_bytes));
    assert!(matches!(after.ab.queue, QueueKind::FqCoDel(_)));
    assert_eq!(after.ab.police.map(|policing| policing.rate_bps), Some(50_000_000));
    assert_eq!(after.ab.police_udp, Some(Policing { rate_bps: 5_000_000, burst_bytes: 3_000 }));
    assert_eq!(after.ab.thin_acks.map(|thinning| thinning.keep_each), Some(4));
    assert_eq!(after.ab.reorder, Some(Reordering { share: 0.01, extra_ns: 5_000_000 }));
    assert_eq!(after.ab.corrupt, 0.001);
    assert_eq!(after.ab.receiver, Some(SlowReceiver { cost_ns: 120_000, room_packets: 64 }));
    let fields = [
        ("queue", "drop-tail"),
        ("police", "unlimited"),
        ("police-udp", "unlimited"),
        ("thin-acks", "1"),
        ("reorder", "0"),
        ("corrupt", "0"),
        ("receiver", "0"),
    ];
    assert_eq!(after.changed(Direction::Ab, change(&fields).parse("").expect("good")).expect("good"), before);
}
