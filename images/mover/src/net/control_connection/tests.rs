//! A control connection over the loopback.

use std::net::TcpListener;
use std::sync::mpsc::sync_channel;

use rustls::StreamOwned;
use time::OffsetDateTime;

use super::*;
use crate::net::connect::identity::{Identity, Role};

const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn a_message_that_came_with_the_greeting_is_delivered_though_nothing_comes_after_it() {
    let folder = tempfile::tempdir().unwrap();
    crate::credentials::make(folder.path(), "job", 1, OffsetDateTime::now_utc()).unwrap();
    let identity = |role: Role| Identity::load(&folder.path().join(role.name()), role, None, None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut receiver = StreamOwned::new(identity(Role::Receiver).accept().unwrap(), listener.accept().unwrap().0);
    let message = ControlMessage { body: Some(Body::Heartbeat(Heartbeat { work: 7, ..Heartbeat::default() })) };
    let greets = std::thread::spawn(move || {
        // One record, so that both come together.
        receiver.write_all(&[&[1][..], &encode(&message)].concat()).unwrap();
        receiver.flush().unwrap();
        receiver
    });
    let mut sender = StreamOwned::new(identity(Role::Sender).connect().unwrap(), socket);
    sender.read_exact(&mut [0]).unwrap();
    let _receiver = greets.join().unwrap();
    let (inbox, events) = sync_channel(1);
    let (tls, socket) = sender.into_parts();
    let _connection = ControlConnection::start::<ConnectionEvent>(tls.into(), socket, inbox, true).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, ConnectionEvent::Message(Body::Heartbeat(Heartbeat { work: 7, .. }))), "{event:?}");
}
