//! The control socket: its messages, and who may listen.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use fairlead_wan::control::client::{ask, AskError};
use fairlead_wan::control::protocol::{
    decode_answer, decode_request, encode_request, EmulatorCommand, Refusal, SetCommand,
};
use fairlead_wan::control::server::{ControlError, ControlSocket};
use fairlead_wan::parameters::{Direction, WrittenChange};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::{json, Value};

fn set_rate(rate: &str) -> EmulatorCommand {
    EmulatorCommand::Set(Box::new(SetCommand {
        direction: Direction::Ab,
        change: WrittenChange { rate: Some(rate.to_owned()), ..WrittenChange::default() },
    }))
}

/// Runs `client` while questions are answered by `answer`.
fn with_server<T>(
    socket: &ControlSocket,
    answer: impl Fn(&EmulatorCommand) -> Result<Value, Refusal>,
    client: impl FnOnce() -> T + Send,
) -> T
where
    T: Send,
{
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let result = client();
            over.store(true, Ordering::SeqCst);
            result
        });
        while !over.load(Ordering::SeqCst) {
            let tick = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            let mut descriptors = [PollFd::from_borrowed_fd(socket.wake(), PollFlags::IN)];
            rustix::event::poll(&mut descriptors, Some(&tick)).expect("polls");
            while let Some(question) = socket.next_question() {
                let answered = answer(&question.command);
                question.answer(answered);
            }
            if asking.is_finished() {
                break;
            }
        }
        asking.join().expect("the client did not panic")
    })
}

fn send_line(path: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("connects");
    stream.write_all(line.as_bytes()).expect("sends");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("an answer");
    answer
}

#[test]
fn requests_survive_the_journey() {
    for command in [EmulatorCommand::Stats, EmulatorCommand::Measure, set_rate("20M")] {
        assert_eq!(decode_request(&encode_request(&command)), Ok(command));
    }
}

#[test]
fn the_wire_form_is_as_documented() {
    let line = r#"{"version":1,"command":{"set":{"direction":"ab","change":{"rate":"20M"}}}}"#;
    assert_eq!(decode_request(line), Ok(set_rate("20M")));
    let line = r#"{"version":1,"command":{"set":{"change":{"queue":"codel","police-udp":"5M","thin-acks":"4","receiver":"120us"}}}}"#;
    let written = |text: &str| Some(text.to_owned());
    let change = WrittenChange {
        queue: written("codel"),
        police_udp: written("5M"),
        thin_acks: written("4"),
        receiver: written("120us"),
        ..WrittenChange::default()
    };
    let set = SetCommand { direction: Direction::Both, change };
    assert_eq!(decode_request(line), Ok(EmulatorCommand::Set(Box::new(set))));
    assert_eq!(decode_request(r#"{"version":1,"command":"stats"}"#), Ok(EmulatorCommand::Stats));
}

#[test]
fn requests_that_cannot_be_understood_say_why() {
    for (line, reason) in [
        ("", "not JSON"),
        ("stats", "not JSON"),
        (r#"{"command":"stats"}"#, "version"),
        (r#"{"version":2,"command":"stats"}"#, "version 2"),
        (r#"{"version":1}"#, "command"),
        (r#"{"version":1,"command":"halt"}"#, "halt"),
        (r#"{"version":1,"command":{"set":{"change":{"speed":"1M"}}}}"#, "speed"),
        (r#"{"version":1,"command":{"set":{"direction":"up"}}}"#, "up"),
    ] {
        let refusal = decode_request(line).expect_err(line);
        assert!(refusal.message.contains(reason), "{line}: {}", refusal.message);
    }
}

#[test]
fn an_answer_from_something_else_is_not_taken_for_success() {
    for line in ["", "HTTP/1.1 200 OK", "{}", r#"{"version":1}"#, "[]"] {
        assert!(decode_answer(line).is_err(), "{line}");
    }
}

#[test]
fn a_client_gets_the_result_or_the_refusal_with_its_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let socket = ControlSocket::open(&path).expect("listens");
    let refuse = || Refusal { field: Some("rate".into()), message: "too slow".into() };
    let answer = |command: &EmulatorCommand| {
        if *command == EmulatorCommand::Stats {
            Ok(json!({"n": 1}))
        } else {
            Err(refuse())
        }
    };
    with_server(&socket, answer, || {
        assert_eq!(ask(&path, &EmulatorCommand::Stats).expect("answers"), json!({"n": 1}));
        match ask(&path, &set_rate("1")) {
            Err(AskError::Refused(refusal)) => assert_eq!(refusal, refuse()),
            other => panic!("expected a refusal, got {other:?}"),
        }
    });
}

/// What becomes of a question to one that hangs up on so many clients before it answers, and how many came.
fn ask_behind(hung_up_on: usize) -> (Result<Value, AskError>, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let listener = UnixListener::bind(&path).expect("listens");
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if counted.fetch_add(1, Ordering::SeqCst) < hung_up_on {
                continue;
            }
            let mut reading = BufReader::new(stream);
            reading.read_line(&mut String::new()).expect("a question");
            reading.get_mut().write_all(b"{\"result\":1}\n").expect("somebody waits");
        }
    });
    let answer = ask(&path, &EmulatorCommand::Stats);
    (answer, came.load(Ordering::SeqCst))
}

#[test]
fn an_emulator_that_hangs_up_on_a_late_question_is_asked_again_and_not_for_ever() {
    let (answer, came) = ask_behind(2);
    assert_eq!((answer.expect("an answer"), came), (json!(1), 3));
    let (answer, came) = ask_behind(usize::MAX);
    assert!(matches!(answer, Err(AskError::Unreachable { .. })), "{answer:?}");
    assert_eq!(came, 6);
}

#[test]
fn nonsense_neither_reaches_the_engine_nor_stops_the_next_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let socket = ControlSocket::open(&path).expect("listens");
    with_server(
        &socket,
        |_| Ok(json!("fine")),
        || {
            assert!(send_line(&path, "GET / HTTP/1.1\r\n").contains("not JSON"));
            drop(UnixStream::connect(&path).expect("connects and hangs up"));
            assert_eq!(ask(&path, &EmulatorCommand::Stats).expect("answers"), json!("fine"));
        },
    );
}

#[test]
fn the_socket_s_file_goes_with_the_socket_and_a_stale_one_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    drop(UnixListener::bind(&path).expect("listens"));
    assert!(path.exists(), "a listener that is dropped leaves its file");
    let socket = ControlSocket::open(&path).expect("takes the place of the stale one");
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn a_live_socket_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let _live = ControlSocket::open(&path).expect("listens");
    assert!(matches!(ControlSocket::open(&path), Err(ControlError::InUse(_))));
    assert!(UnixStream::connect(&path).is_ok());
}

#[test]
fn a_file_that_is_no_socket_is_never_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    fs::write(&path, "precious").expect("writes");
    assert!(matches!(ControlSocket::open(&path), Err(ControlError::NotASocket(_))));
    assert_eq!(fs::read_to_string(&path).expect("reads"), "precious");
}

#[test]
fn asking_where_nobody_listens_names_the_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nobody");
    let error = ask(&path, &EmulatorCommand::Stats).expect_err("nobody").to_string();
    assert!(error.contains("nobody"), "{error}");
}
