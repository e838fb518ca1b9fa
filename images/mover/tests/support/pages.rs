//! The movers' `/metrics` of a transfer that is held at its end.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Mover, PATIENCE};

/// At the end of a transfer with this in the receiver's environment nothing moves any more, and both ends still serve their pages.
pub(crate) const HOLD: [(&str, &str); 1] = [("FAIRLEAD_FAULT_HANG", "PUBLISH")];

/// The same for as long as a file of that path is there, which this makes.
pub(crate) fn hold_while(file: &str) -> [(&str, &str); 2] {
    std::fs::write(file, "").unwrap();
    [HOLD[0], ("FAIRLEAD_FAULT_HANG_WHILE", file)]
}

pub(crate) const PATIENT: [&str; 4] = ["--stall-timeout", "600", "--peer-timeout", "600"];

/// The number of a metric of the mover; nothing where the page does not have it.
pub(crate) fn value(page: &str, name: &str) -> Option<f64> {
    let prefix = format!("fairlead_mover_{name} ");
    page.lines().find_map(|line| line.strip_prefix(&prefix)).map(|number| number.parse().unwrap())
}

/// That Prometheus' own tool finds nothing wrong with a page's names, types and help.
pub(crate) fn assert_conventional(page: &str) {
    let promtool = Path::new("../../build/bin/promtool");
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}: run make programs", promtool.display()));
    check.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let done = check.wait_with_output().unwrap();
    assert!(done.status.success(), "{}\n{page}", String::from_utf8_lossy(&done.stderr));
}

/// The page, once it says so.
pub(crate) fn await_page(page: impl Fn() -> String, says: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = page();
        if says(&text) {
            return text;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn is_publishing(page: &str) -> bool {
    value(page, "stage{stage=\"Publishing\"}") == Some(1.0)
}

/// The number of a metric that has a series for each interface, for this one.
pub(crate) fn of_interface(page: &str, name: &str, interface: &str) -> Option<f64> {
    value(page, &format!("{name}{{interface=\"{interface}\"}}"))
}

/// Whether the wire has carried so much payload and as much as its interface counts, but for Ethernet's headers and the control
/// connection, which are the interface's alone. The sender reads its sockets once a second.
pub(crate) fn carried(page: &str, length: usize) -> bool {
    let wire = value(page, "wire_bytes_total").unwrap_or(0.0);
    let interface = of_interface(page, "interface_sent_bytes_total", "wire0").unwrap_or(0.0);
    wire > length as f64 && (wire / interface - 1.0).abs() < 0.05
}

/// Ends both ends of a transfer that is held.
pub(crate) fn kill(receiver: Mover, sender: Mover) {
    sender.signal("KILL");
    receiver.signal("KILL");
    sender.end();
    receiver.end();
}
