//! What is checked with the peer once it is authenticated, and before the listing: clocks, and on every path the echo service and the
//! path MTU.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fairlead_protocol::index::PathIndex;
use fairlead_protocol::limits::ECHO_KEY_BYTES;
use fairlead_protocol::{Fault, Reason};

use super::path_mtu::{measure, EchoProber, PathMtu};
use crate::net::connect::dial::{Admission, Dialer};
use crate::net::engine::{DataCall, DataLink, Protocol};
use crate::net::paths::PathEnds;
use crate::progress::{Check, CheckResult, Progress};

/// Difference of clocks that somebody should look at: times of files and of logs are compared by people and programs.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// What is needed to check every path.
pub(crate) struct PathChecks {
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) congestion_control: String,
    /// The path of the control connection, and the connection.
    pub(crate) control: (PathIndex, Arc<dyn DataLink>),
    pub(crate) echo_port: u16,
    pub(crate) echo_key: [u8; ECHO_KEY_BYTES],
    /// How far the peer's clock is ahead of ours, in milliseconds, if it said.
    pub(crate) clock_ahead_ms: Option<i64>,
}

/// What was found on one path: checks that passed or warn, and a fault if data would stall there.
type Findings = (Vec<Check>, Option<Fault>);

impl PathChecks {
    /// Checks all paths at a time, notes what is found, and fails if data would stall on any.
    pub(crate) fn run(&self, progress: &Progress) -> Result<(), Fault> {
        if let Some(ahead_ms) = self.clock_ahead_ms {
            progress.note_check(clocks(ahead_ms));
        }
        let found: Vec<Findings> = std::thread::scope(|scope| {
            let check = |path| scope.spawn(move || self.check(path));
            let threads: Vec<_> = self.dialer.paths.all().map(check).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let mut passed: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut faults = Vec::new();
        for (checks, fault) in found {
            for check in checks {
                match check.result {
                    CheckResult::Passed => passed.entry(check.check).or_default().push(check.message),
                    _ => progress.note_check(check),
                }
            }
            faults.extend(fault);
        }
        for (check, messages) in passed {
            progress.note_check(Check::passed(check, messages.join("; ")));
        }
        let Some(fault) = Fault::all(faults) else { return Ok(()) };
        progress.note_check(Check::failed("PathMtu", &fault));
        Err(fault)
    }

    /// Checks one path, over a connection that shows the receiver from where it is asked.
    fn check(&self, path: PathIndex) -> Findings {
        let mut findings = Findings::default();
        if path == self.control.0 {
            self.measure(path, &*self.control.1, &mut findings);
            return findings;
        }
        let (stream, congestion_control) = (u16::from(path.0), &*self.congestion_control);
        let call = DataCall { path, admission: &self.admission, stream, congestion_control };
        // The engine of the control connection, so that every path is asked alike.
        let connected = Protocol::Tcp.engine().connect(&self.dialer, call);
        match connected.and_then(|connection| Ok((connection.link()?, connection))) {
            Ok((link, _connection)) => self.measure(path, &*link, &mut findings),
            Err(error) => {
                self.dialer.paths.not_connected(path);
                let text = format!("no connection: {error}; the transfer uses its other paths until then");
                findings.0.push(Check::warning("Peer", Reason::PeerUnreachable, self.named(path, text)));
            }
        }
        findings
    }

    fn measure(&self, path: PathIndex, link: &dyn DataLink, (checks, fault): &mut Findings) {
        let ends = self.dialer.paths.ends(path);
        let echo = SocketAddr::new(ends.peer.ip(), self.echo_port);
        let state = link.state().unwrap_or_default();
        let rtt = Duration::from_micros(u64::from(state.rtt_us));
        let silent = |why: &str| Check::warning("Echo", Reason::EchoUnreachable, self.named(path, silence(echo, why)));
        let mut prober = match EchoProber::new(echo, &ends.binding, &self.echo_key, rtt) {
            Ok(prober) => prober,
            Err(error) => return checks.push(silent(&error.to_string())),
        };
        let full = state.segment_bytes + state.header_bytes as u32;
        let full = full.clamp(prober.shortest() + 1, prober.longest());
        let found = measure(full, prober.shortest(), &mut |probes| prober.round(probes));
        if found == PathMtu::Silent {
            return checks.push(silent("no answer came"));
        }
        checks.push(Check::passed("Echo", format!("{echo} answers")));
        match path_mtu(echo, full, found, prober.known_path_mtu(), kernel_probes()) {
            Ok(check) => checks.push(Check { message: self.named(path, check.message), ..check }),
            Err(found) => *fault = Some(Fault { message: self.named(path, found.message), ..found }),
        }
    }

    /// What is said of a path, with its name where there are several.
    fn named(&self, path: PathIndex, text: String) -> String {
        if !self.dialer.paths.are_several() {
            return text;
        }
        let PathEnds { binding, peer } = self.dialer.paths.ends(path);
        let from = binding.interface.as_deref().unwrap_or("here");
        format!("path {} from {from} to {}: {text}", path.0, peer.ip())
    }
}

fn silence(echo: SocketAddr, why: &str) -> String {
    format!(
        "the echo service at {echo} (UDP) is not reached: {why}; the path MTU is not checked, and the path cannot be probed: \
         let UDP through to that port"
    )
}

fn clocks(ahead_ms: i64) -> Check {
    let seconds = ahead_ms.unsigned_abs() as f64 / 1000.0;
    if ahead_ms.unsigned_abs() < CLOCK_TOLERANCE.as_millis() as u64 {
        return Check::passed("Clocks", format!("the clocks differ by {seconds:.1} s"));
    }
    let which = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let text = format!(
        "the receiver's clock is {seconds:.0} s {which} the sender's: the certificates still hold; synchronise both (chronyc tracking)"
    );
    Check::warning("Clocks", Reason::ClocksDiffer, text)
}

/// Whether the kernel itself looks for a smaller segment when long ones vanish (`net.ipv4.tcp_mtu_probing`).
fn kernel_probes() -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_mtu_probing").unwrap_or_default();
    matches!(text.trim(), "1" | "2")
}

/// Judges what was measured. `full` is the length of a full segment's packet, `told` what a router has told the kernel.
fn path_mtu(
    echo: SocketAddr,
    full: u32,
    found: PathMtu,
    told: Option<u32>,
    kernel_probes: bool,
) -> Result<Check, Fault> {
    let (longest, to) = match found {
        PathMtu::Whole | PathMtu::Silent => {
            return Ok(Check::passed("PathMtu", format!("packets of {full} bytes pass both ways")))
        }
        PathMtu::There(longest) => (longest, format!("to {}", echo.ip())),
        PathMtu::Back(longest) => (longest, format!("from {} to here", echo.ip())),
    };
    let measured = format!("packets of more than {longest} bytes do not get {to}, and TCP sends {full}");
    let remedy = format!("set the MTU of the interfaces at both ends to {longest}, or raise it on the way");
    if matches!(found, PathMtu::There(_)) && told.is_some_and(|told| told <= longest) {
        let text = format!("{measured}; a router says so, and the kernel sends shorter ones: {remedy}");
        return Ok(Check::warning("PathMtu", Reason::PathMtuTooSmall, text));
    }
    let unsaid = "no router says so (ICMP \"fragmentation needed\" is dropped on the way)";
    if kernel_probes {
        let text = format!("{measured}; {unsaid}, and the kernel finds it out slowly (tcp_mtu_probing): {remedy}");
        return Ok(Check::warning("PathMtu", Reason::PathMtuTooSmall, text));
    }
    let text = format!(
        "{measured}; {unsaid}, so that data would stall: {remedy}, or let ICMP type 3 code 4 (ICMPv6 type 2) through"
    );
    Err(Fault::new(Reason::PathMtuTooSmall, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::CheckResult::{Passed, Warning};

    #[test]
    fn clocks_some_seconds_apart_are_a_warning_that_says_by_how_much() {
        for (ahead_ms, result, part) in [
            (0, Passed, "0.0 s"),
            (-4_900, Passed, "4.9 s"),
            (20_400, Warning, "20 s ahead of"),
            (-5_000, Warning, "5 s behind"),
            (i64::MIN, Warning, "behind"),
        ] {
            let check = clocks(ahead_ms);
            assert_eq!(check.result, result, "{ahead_ms}");
            assert!(check.message.contains(part), "{}", check.message);
        }
    }

    #[test]
    fn a_path_that_is_too_small_fails_only_where_nothing_makes_up_for_it() {
        let echo = "198.18.0.2:24000".parse().unwrap();
        for (found, told, kernel_probes, result) in [
            (PathMtu::Whole, Some(1500), false, Some(Passed)),
            (PathMtu::There(1400), Some(1400), false, Some(Warning)),
            (PathMtu::There(1400), Some(1500), false, None),
            (PathMtu::There(1400), None, false, None),
            (PathMtu::There(1400), Some(1500), true, Some(Warning)),
            // What a router tells of the way there says nothing of the way back.
            (PathMtu::Back(1400), Some(1400), false, None),
        ] {
            let judged = path_mtu(echo, 1500, found, told, kernel_probes);
            assert_eq!(judged.as_ref().ok().map(|check| check.result), result, "{found:?} {told:?}");
            let text = judged.map_or_else(|fault| fault.message, |check| check.message);
            assert!(result == Some(Passed) || text.contains("more than 1400 bytes"), "{text}");
        }
    }
}
