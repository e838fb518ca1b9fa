//! `/metrics`: Prometheus text in base units, without labels that name a job.

use std::fmt::Write;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::net::interface::Carried;
use crate::progress::Snapshot;

/// A metric as `metrics.json` describes it, from which docs/reference/metrics.md is generated too.
#[derive(Debug, Deserialize)]
struct Description {
    name: String,
    kind: String,
    labels: Vec<String>,
    help: String,
}

static DESCRIPTIONS: LazyLock<Vec<Description>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("metrics.json")).expect("metrics.json is a list of descriptions")
});

const PREFIX: &str = "fairlead_mover_";

/// The text for the counters at one moment, and for those of this end's interfaces, each of which is there once.
pub(crate) fn text(now: &Snapshot, interfaces: &[(String, Carried)]) -> String {
    let mut out = String::new();
    for Description { name, kind, labels, help } in DESCRIPTIONS.iter() {
        let samples = samples(name.strip_prefix(PREFIX).unwrap_or(name), now, interfaces);
        if samples.is_empty() {
            continue;
        }
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (values, number) in samples {
            let pairs: Vec<String> =
                labels.iter().zip(values).map(|(label, value)| format!("{label}=\"{}\"", escaped(&value))).collect();
            let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
            let _ = writeln!(out, "{name}{labels} {number}");
        }
    }
    out
}

/// A label's value as the text has it. The kernel takes quotes and backslashes in an interface's name.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"")
}

/// For each series of a metric the values of its labels, and its number.
fn samples(name: &str, now: &Snapshot, interfaces: &[(String, Carried)]) -> Vec<(Vec<String>, f64)> {
    let of_each = |counter: fn(&Carried) -> u64| {
        interfaces.iter().map(|(interface, carried)| (vec![interface.clone()], counter(carried) as f64)).collect()
    };
    match name {
        "interface_sent_bytes_total" => of_each(|carried| carried.sent),
        "interface_received_bytes_total" => of_each(|carried| carried.received),
        _ => sample(name, now).into_iter().collect(),
    }
}

/// The values of the labels and the number of a metric with one series; nothing where there is none.
fn sample(name: &str, now: &Snapshot) -> Option<(Vec<String>, f64)> {
    let bytes_per_second = |bps: u64| bps as f64 / 8.0;
    let (bandwidth, wire) = (now.bandwidth, now.wire);
    let number = match name {
        "bytes" => now.bytes_total? as f64,
        "transferred_bytes_total" => now.bytes_transferred as f64,
        "skipped_bytes_total" => now.bytes_skipped as f64,
        "files" => now.files_total? as f64,
        "transferred_files_total" => now.files_transferred as f64,
        "skipped_files_total" => now.files_skipped as f64,
        "damaged_packs_total" => now.packs_damaged as f64,
        "resumed_bytes" => now.bytes_resumed as f64,
        "resent_bytes_total" => now.bytes_resent as f64,
        "durable_bytes_total" => now.bytes_durable as f64,
        "goodput_bytes_per_second" => now.rate_bytes_per_second as f64,
        "progress_age_seconds" => now.seconds_since_progress,
        "quiet_seconds_total" => now.quiet_seconds,
        "streams" => now.streams as f64,
        "stage" => return Some((vec![format!("{:?}", now.stage)], 1.0)),
        "transport_info" => {
            // A receiver has no say in what the sender's kernel does.
            bandwidth?;
            return Some((vec![now.protocol?.to_owned(), now.congestion_control.clone()?], 1.0));
        }
        "rtt_seconds" => wire?.rtt.as_ref()?.mean_seconds,
        "rtt_minimum_seconds" => wire?.rtt.as_ref()?.minimum_seconds,
        "bandwidth_asked_bytes_per_second" => bytes_per_second(bandwidth?.asked_bps?),
        "bandwidth_in_force_bytes_per_second" => bytes_per_second(bandwidth?.in_force_bps?),
        "wire_rate_bytes_per_second" => bytes_per_second(bandwidth?.measured_bps),
        "wire_bytes_total" => bandwidth?.wire_bytes as f64,
        "retransmitted_bytes_total" => wire?.retransmitted_bytes as f64,
        "cap_exceeded_seconds_total" => wire?.cap_exceeded.as_secs_f64(),
        _ => return None,
    };
    Some((Vec::new(), number))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{text, DESCRIPTIONS, PREFIX};
    use crate::net::interface::Carried;
    use crate::progress::{Bandwidth, Progress, Rtt, Snapshot, Stage, Wire};

    #[test]
    fn totals_are_absent_until_they_are_known() {
        let progress = Progress::new();
        assert!(!text(&progress.snapshot(), &[]).contains("fairlead_mover_files "));
        progress.counters.set_totals(3, 4);
        assert!(text(&progress.snapshot(), &[]).contains("\nfairlead_mover_files 3\n"));
    }

    #[test]
    fn each_interface_has_its_counters_where_it_is_known() {
        let now = Progress::new().snapshot();
        assert!(!text(&now, &[]).contains("interface"));
        let carried = |sent, received| Carried { sent, received };
        let text = text(&now, &[("data0".to_owned(), carried(5, 7)), (r#"a"b\"#.to_owned(), carried(11, 13))]);
        for series in [
            r#"sent_bytes_total{interface="data0"} 5"#,
            r#"sent_bytes_total{interface="a\"b\\"} 11"#,
            r#"received_bytes_total{interface="data0"} 7"#,
            r#"received_bytes_total{interface="a\"b\\"} 13"#,
        ] {
            assert!(text.contains(&format!("\nfairlead_mover_interface_{series}\n")), "{series} in {text}");
        }
        assert_eq!(text.matches("# TYPE fairlead_mover_interface_sent_bytes_total counter\n").count(), 1, "{text}");
    }

    #[test]
    fn a_receiver_does_not_speak_of_what_a_sender_s_sockets_do() {
        let progress = Progress::new();
        progress.set_congestion_control("cubic");
        let text = text(&progress.snapshot(), &[]);
        for name in ["transport_info", "rtt_seconds", "retransmitted_bytes_total", "cap_exceeded_seconds_total"] {
            assert!(!text.contains(name), "{text}");
        }
    }

    #[test]
    fn every_metric_has_the_value_of_the_moment() {
        let now = Snapshot {
            stage: Stage::Transferring,
            bytes_total: Some(1000),
            bytes_transferred: 600,
            bytes_skipped: 70,
            files_total: Some(30),
            files_transferred: 20,
            files_skipped: 4,
            rate_bytes_per_second: 250,
            seconds_since_progress: 0.5,
            quiet_seconds: 12.25,
            streams: 8,
            protocol: Some("QUIC"),
            congestion_control: Some("bbr".to_owned()),
            packs_damaged: 2,
            bytes_resumed: 90,
            bytes_resent: 11,
            bytes_durable: 480,
            bytes_verified: 33,
            bandwidth: Some(Bandwidth {
                asked_bps: Some(80),
                in_force_bps: Some(72),
                measured_bps: 64,
                wire_bytes: 650,
            }),
            wire: Some(Wire {
                retransmitted_bytes: 6,
                cap_exceeded: Duration::from_millis(1500),
                rtt: Some(Rtt { mean_seconds: 0.25, minimum_seconds: 0.125 }),
            }),
            preflight: None,
        };
        let text = text(&now, &[("data0".to_owned(), Carried { sent: 5, received: 7 })]);
        let mut expected: Vec<String> = [
            ("bytes", "1000"),
            ("transferred_bytes_total", "600"),
            ("skipped_bytes_total", "70"),
            ("files", "30"),
            ("transferred_files_total", "20"),
            ("skipped_files_total", "4"),
            ("damaged_packs_total", "2"),
            ("resumed_bytes", "90"),
            ("resent_bytes_total", "11"),
            ("durable_bytes_total", "480"),
            ("goodput_bytes_per_second", "250"),
            ("progress_age_seconds", "0.5"),
            ("quiet_seconds_total", "12.25"),
            ("streams", "8"),
            ("stage{stage=\"Transferring\"}", "1"),
            ("transport_info{protocol=\"QUIC\",congestion_control=\"bbr\"}", "1"),
            ("rtt_seconds", "0.25"),
            ("rtt_minimum_seconds", "0.125"),
            ("interface_sent_bytes_total{interface=\"data0\"}", "5"),
            ("interface_received_bytes_total{interface=\"data0\"}", "7"),
            ("bandwidth_asked_bytes_per_second", "10"),
            ("bandwidth_in_force_bytes_per_second", "9"),
            ("wire_rate_bytes_per_second", "8"),
            ("wire_bytes_total", "650"),
            ("retransmitted_bytes_total", "6"),
            ("cap_exceeded_seconds_total", "1.5"),
        ]
        .map(|(name, value)| format!("{PREFIX}{name} {value}"))
        .to_vec();
        let mut shown: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        expected.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, expected);
        assert_eq!(shown.len(), DESCRIPTIONS.len());
    }
}
