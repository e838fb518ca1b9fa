//! What real traffic gets of a path with each kind of queue, with policing, with thinned acknowledgements and with a slow receiver.
//!
//! A busy machine blurs every measurement, so each is repeated until it shows what the path can do; what a path must never do is asserted at
//! once.

use std::time::Instant;

use super::lab::{self, Lab};
use super::{alone, fills};

fn count(lab: &Lab, direction: &str, name: &str) -> u64 {
    lab.stats()[direction][name].as_u64().expect("a count")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// The median round-trip time of pings beside a CUBIC flow that has found the limit of its queue.
fn ping_beside_cubic_ms(lab: &Lab) -> f64 {
    let dropped = || count(lab, "ab", "packets_dropped_buffer") + count(lab, "ab", "packets_dropped_codel");
    let before = dropped();
    std::thread::scope(|scope| {
        let flow = scope.spawn(|| lab.iperf_bps("-C cubic -t 8"));
        lab::eventually("the flow meets a drop or ends", || dropped() > before || flow.is_finished());
        median(lab.ping_ms(30))
    })
}

#[test]
fn a_ping_beside_a_cubic_flow_waits_for_a_full_drop_tail_buffer_and_hardly_with_fq_codel() {
    let Some(_turn) = alone() else { return };
    const BASE_MS: f64 = 20.0;
    let mut lab = Lab::new();
    // The full buffer takes 100 ms.
    lab.join("--rate 40M --delay 10ms --buffer 500kB");
    lab.serve_iperf(5201);
    lab::eventually("with drop-tail a ping takes 30 ms more", || ping_beside_cubic_ms(&lab) > BASE_MS + 30.0);
    assert!(lab.ask("set --queue fq-codel").status.success());
    lab::eventually("with FQ-CoDel it takes less than that", || {
        let ping_ms = ping_beside_cubic_ms(&lab);
        assert!(ping_ms >= BASE_MS, "{ping_ms}");
        ping_ms < BASE_MS + 30.0 && count(&lab, "ab", "packets_dropped_codel") > 0
    });
}

#[test]
fn codel_by_itself_keeps_the_queue_of_a_cubic_flow_short() {
    let Some(_turn) = alone() else { return };
    let mut lab = Lab::new();
    lab.join("--rate 40M --delay 10ms --buffer 500kB --queue codel");
    lab.serve_iperf(5201);
    lab::eventually("a ping takes less than 30 ms more, beside a flow that CoDel holds", || {
        ping_beside_cubic_ms(&lab) < 50.0 && count(&lab, "ab", "packets_dropped_codel") > 0
    });
}

#[test]
fn a_cubic_and_a_bbr_flow_share_a_fair_queue_equally() {
    let Some(_turn) = alone() else { return };
    let mut lab = Lab::new();
    // Slow and long, so that a process that waits some milliseconds for a processor changes little of what either flow finds. With the
    // usual target of 5 ms CoDel keeps CUBIC below its half of so long a path.
    lab.join("--rate 10M --delay 25ms --buffer 500kB --queue fq-codel:target=20ms");
    lab.serve_iperf(5201);
    lab.serve_iperf(5202);
    lab::eventually("both are within a fifth of one another, and fill half of the link", || {
        let (cubic_bps, bbr_bps) = std::thread::scope(|scope| {
            let bbr = scope.spawn(|| lab.iperf_bps("-p 5202 -C bbr -t 12 -O 4"));
            (lab.iperf_bps("-p 5201 -C cubic -t 12 -O 4"), bbr.join().expect("a result"))
        });
        cubic_bps.min(bbr_bps) >= 0.8 * cubic_bps.max(bbr_bps) && cubic_bps + bbr_bps >= 5e6
    });
}

/// What iperf3 receives of UDP in bits per second. What the emulator lets through is never more than its policer allows.
fn polices(lab: &Lab, options: &str, rate_bps: f64) -> f64 {
    // The bucket, and the TCP connection by which iperf3 controls its test.
    const BURST_BITS: f64 = 8.0 * (15_000.0 + 50_000.0);
    let bytes_out = || count(lab, "ab", "bytes_out") as f64;
    let began = Instant::now();
    let before = bytes_out();
    let received_bps = lab.iperf_bps(options);
    let (carried_bits, seconds) = ((bytes_out() - before) * 8.0, began.elapsed().as_secs_f64());
    assert!(carried_bits <= rate_bps * seconds + BURST_BITS, "{carried_bits} bits in {seconds} s at {rate_bps} bit/s");
    received_bps
}

#[test]
fn policing_holds_udp_at_its_rate_and_lets_tcp_pass() {
    let Some(_turn) = alone() else { return };
    let mut lab = Lab::new();
    lab.join("--rate 100M --delay 5ms --police-udp-ab 8M");
    lab.serve_iperf(5201);
    lab::eventually("half of 8 Mb/s of UDP", || polices(&lab, "-u -b 30M -l 1000 -t 3", 8e6) >= 4e6);
    assert!(count(&lab, "ab", "packets_dropped_police_udp") > 0);
    lab::eventually("more than that of TCP", || fills(&lab, "-C cubic -t 4 -O 2", 100e6) >= 20e6);
    assert_eq!(count(&lab, "ab", "packets_dropped_police"), 0);
    assert!(lab.ask("set --direction ab --police-udp 2M").status.success());
    lab::eventually("half of 2 Mb/s of UDP", || polices(&lab, "-u -b 30M -l 1000 -t 3", 2e6) >= 1e6);
    let stats = lab.stats();
    assert_eq!(stats["ab"]["parameters"]["police_udp"]["rate_bps"], 2_000_000);
    assert_eq!(stats["ba"]["parameters"]["police_udp"], serde_json::Value::Null);
    assert_eq!(stats["ba"]["packets_dropped_police_udp"], 0);
}

#[test]
fn policing_of_everything_holds_tcp_too_without_a_queue() {
    let Some(_turn) = alone() else { return };
    let mut lab = Lab::new();
    lab.join("--rate 100M --delay 5ms --police-ab 10M");
    lab.serve_iperf(5201);
    lab::eventually("a third of 10 Mb/s", || polices(&lab, "-C cubic -t 5 -O 2", 10e6) >= 3.3e6);
    assert!(count(&lab, "ab", "packets_dropped_police") > 0);
    assert_eq!(count(&lab, "ab", "packets_dropped_buffer"), 0);
}

#[test]
fn of_a_flow_s_acknowledgements_up_to_three_in_four_are_dropped_and_it_still_fills_the_link() {
    let Some(_turn) = alone() else { return };
    let mut lab = Lab::new();
    lab.join("--rate 50M --delay 10ms --thin-acks-ba 4");
    lab.serve_iperf(5201);
    lab::eventually("half of 50 Mb/s", || fills(&lab, "-C cubic -t 5 -O 2", 50e6) >= 25e6);
    let (entered, thinned) = (count(&lab, "ba", "packets_in"), count(&lab, "ba", "packets_dropped_thinned"));
    assert!(4 * thinned <= 3 * entered, "{thinned} of {entered}");
    assert!(4 * thinned >= entered, "{thinned} of {entered}");
    assert_eq!(count(&lab, "ab", "packets_dropped_thinned"), 0, "data is left alone");
}

#[test]
fn a_slow_receiver_takes_tcp_at_its_rate_and_drops_what_the_path_has_carried_without_a_queue() {
    let Some(_turn) = alone() else { return };
    let mut lab = Lab::new();
    // A full packet each 600 us: 20 Mb/s.
    lab.join("--rate 100M --delay 5ms --buffer 500kB --receiver-ab 600us,32");
    lab.serve_iperf(5201);
    lab::eventually("half of 20 Mb/s", || fills(&lab, "-C cubic -t 5 -O 2", 20e6) >= 10e6);
    assert!(count(&lab, "ab", "packets_dropped_receiver") > 0);
    assert_eq!(count(&lab, "ab", "packets_dropped_buffer"), 0);
    assert!(lab.ask("set --direction ab --receiver 0").status.success());
    lab::eventually("more than that", || fills(&lab, "-C cubic -t 4 -O 2", 100e6) >= 25e6);
    let stats = lab.stats();
    assert_eq!(stats["ab"]["parameters"]["receiver"], serde_json::Value::Null);
    assert_eq!(stats["ba"]["packets_dropped_receiver"], 0);
}
