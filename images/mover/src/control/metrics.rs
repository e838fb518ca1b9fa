//! `/metrics`: Prometheus text in base units, without labels that name a job.

use std::fmt::Write;

use crate::net::interface::Carried;
use crate::progress::Snapshot;

/// The text for the counters at one moment, and for those of this end's interface.
pub(crate) fn text(now: &Snapshot, carried: Option<Carried>) -> String {
    let optional = |value: Option<u64>| value.map(|value| value as f64);
    let bandwidth = now.bandwidth;
    let bytes_per_second = |bps: Option<u64>| bps.map(|bps| bps as f64 / 8.0);
    let metrics = [
        ("bytes", "gauge", "Bytes of all files of the transfer", optional(now.bytes_total)),
        ("transferred_bytes_total", "counter", "Bytes stored at the receiver", Some(now.bytes_transferred as f64)),
        ("skipped_bytes_total", "counter", "Bytes that were there already", Some(now.bytes_skipped as f64)),
        ("files", "gauge", "Files of the transfer", optional(now.files_total)),
        ("transferred_files_total", "counter", "Files stored at the receiver", Some(now.files_transferred as f64)),
        ("skipped_files_total", "counter", "Files that were there already", Some(now.files_skipped as f64)),
        (
            "damaged_packs_total",
            "counter",
            "Packs that failed a block's check and were sent again",
            Some(now.packs_damaged as f64),
        ),
        ("resumed_bytes", "gauge", "Bytes that earlier attempts left", Some(now.bytes_resumed as f64)),
        ("resent_bytes_total", "counter", "Bytes that were sent in vain", Some(now.bytes_resent as f64)),
        ("durable_bytes_total", "counter", "Bytes made durable by this attempt", Some(now.bytes_durable as f64)),
        ("rate_bytes_per_second", "gauge", "Mean rate of the last 10 s", Some(now.rate_bytes_per_second as f64)),
        ("seconds_since_progress", "gauge", "Time since any byte moved", Some(now.seconds_since_progress)),
        ("streams", "gauge", "Open data streams", Some(now.streams as f64)),
        (
            "interface_sent_bytes_total",
            "counter",
            "Bytes that the data interface has sent, all traffic of the node included",
            carried.map(|carried| carried.sent as f64),
        ),
        (
            "interface_received_bytes_total",
            "counter",
            "Bytes that the data interface has received, all traffic of the node included",
            carried.map(|carried| carried.received as f64),
        ),
        (
            "bandwidth_asked_bytes_per_second",
            "gauge",
            "Cap on what goes on the network, as asked for",
            bytes_per_second(bandwidth.and_then(|bandwidth| bandwidth.asked_bps)),
        ),
        (
            "bandwidth_in_force_bytes_per_second",
            "gauge",
            "Cap that the sockets are held to",
            bytes_per_second(bandwidth.and_then(|bandwidth| bandwidth.in_force_bps)),
        ),
        (
            "wire_rate_bytes_per_second",
            "gauge",
            "Rate of IP packets sent over the last second",
            bytes_per_second(bandwidth.map(|bandwidth| bandwidth.measured_bps)),
        ),
        (
            "wire_bytes_total",
            "counter",
            "Bytes of IP packets sent, with headers and retransmissions",
            bandwidth.map(|bandwidth| bandwidth.wire_bytes as f64),
        ),
    ];
    let mut out = String::new();
    for (name, kind, help, value) in metrics {
        let Some(value) = value else { continue };
        let _ = writeln!(
            out,
            "# HELP fairlead_mover_{name} {help}\n# TYPE fairlead_mover_{name} {kind}\nfairlead_mover_{name} {value}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::net::interface::Carried;
    use crate::progress::Progress;

    #[test]
    fn totals_are_absent_until_they_are_known() {
        let progress = Progress::new();
        assert!(!super::text(&progress.snapshot(), None).contains("fairlead_mover_files "));
        progress.counters.set_totals(3, 4);
        assert!(super::text(&progress.snapshot(), None).contains("\nfairlead_mover_files 3\n"));
    }

    #[test]
    fn the_interfaces_counters_are_shown_where_it_is_known() {
        let now = Progress::new().snapshot();
        assert!(!super::text(&now, None).contains("interface"));
        let text = super::text(&now, Some(Carried { sent: 5, received: 7 }));
        assert!(text.contains("\nfairlead_mover_interface_sent_bytes_total 5\n"));
        assert!(text.contains("\nfairlead_mover_interface_received_bytes_total 7\n"));
    }
}
