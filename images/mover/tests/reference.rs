//! The reference pages match the program's own help, reasons and metrics. `FAIRLEAD_WRITE_REFERENCE=1` writes the parts that are generated.

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use fairlead_protocol::Reason;
use support::{get, noise, Bench};

/// From the package, which is where cargo runs tests: a path put in by the compiler is that of the checkout which was built first.
const PAGE: &str = "../../docs/reference/mover.md";

fn read() -> String {
    std::fs::read_to_string(PAGE).expect("docs/reference/mover.md")
}

/// The help of a command as a reader without any of the variables set would see it.
fn help(command: &str) -> String {
    let arguments = command.split(' ').filter(|word| !word.is_empty());
    let output = Command::new(env!("CARGO_BIN_EXE_fairlead-mover")).args(arguments).arg("-h").env_clear().output();
    let text = String::from_utf8(output.expect("the mover runs").stdout).expect("text");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Names in the first column, in backquotes, of the table below a heading.
fn first_column(page: &str, heading: &str) -> BTreeSet<String> {
    let start = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("there is no heading {heading:?}"));
    let section = &page[start + 4..];
    let section = &section[..section.find("\n## ").unwrap_or(section.len())];
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split('|').next());
    cells
        .flat_map(|cell| cell.split('`').step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .filter(|name| !name.trim().is_empty())
        .collect()
}

#[test]
fn the_command_line_of_the_page_is_the_program_s() {
    let old = read();
    let mut new = String::new();
    let mut rest = old.as_str();
    let mut commands = 0;
    while let Some((before, after)) = rest.split_once("<!-- help:") {
        let (command, after) = after.split_once("-->").expect("the end of a help comment");
        let (_, after) = after.split_once("```text\n").expect("a block after a help comment");
        let (_, after) = after.split_once("\n```").expect("the end of a help block");
        new += &format!("{before}<!-- help:{command}-->\n```text\n{}\n```", help(command.trim()));
        rest = after;
        commands += 1;
    }
    new += rest;
    assert_eq!(commands, 6, "the program and its five commands");
    if std::env::var_os("FAIRLEAD_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &new).expect("the page can be written");
    } else {
        assert!(
            old == new,
            "docs/reference/mover.md is out of date: FAIRLEAD_WRITE_REFERENCE=1 cargo test -p fairlead-mover --test reference"
        );
    }
}

#[test]
fn every_reason_is_explained() {
    // Refusing a name, serde lists all there are.
    let refusal = serde_json::from_str::<Reason>("\"?\"").expect_err("not a reason").to_string();
    let reasons: BTreeSet<String> = refusal.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(reasons.contains("Verified") && reasons.contains("Cleaned"), "{refusal}");
    assert_eq!(first_column(&read(), "Reasons"), reasons);
}

#[test]
fn every_metric_is_explained() {
    let bench = Bench::new();
    bench.write("file", &noise(8 << 20, 1));
    let (receiver, port) = bench.receiver(&[]);
    // Under way with a cap in force, so that the page has all it can have.
    let mut sender = bench.sender(port, &["--bandwidth", "1M", "--http", "127.0.0.1:0"]);
    let address = sender.await_event("http")["address"].as_str().expect("an address").to_owned();
    sender.await_progress(|progress| progress["bandwidth"]["in_force_bps"].is_u64());
    let served = loop {
        let (status, text) = get(&address, "/metrics");
        assert_eq!(status, 200);
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned));
        let served: BTreeSet<String> = names.collect();
        if served.contains("fairlead_mover_rtt_seconds") {
            break served;
        }
        // The next look at the sockets of the streams has it.
        sender.await_event("progress");
    };
    let page = std::fs::read_to_string("../../docs/reference/metrics.md").expect("docs/reference/metrics.md");
    assert_eq!(first_column(&page, "Mover"), served);
    sender.signal("TERM");
    sender.end();
    receiver.end();
}
