//! A peer over s2n-quic: `receive ADDRESS CONNECTIONS CERTIFICATE` and `send ADDRESS CONNECTIONS BYTES CERTIFICATE`. Zeros from memory go
//! into nothing, over so many connections with a stream each, under CUBIC. Whoever receives writes its certificate to the file and then
//! prints `ready`; at the end it prints how many bytes came, and in how many seconds from the first to the last.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::connection::{Connection, Handle};
use s2n_quic::provider::congestion_controller::Cubic;
use s2n_quic::provider::io::tokio::Provider as Io;
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

const NAME: &str = "peer";
const PIECE_BYTES: usize = 64 << 10;
/// What a connection may hold unread: as the mover's.
const WINDOW_BYTES: u64 = 64 << 20;
/// Socket buffers that are asked for: as the mover's.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// What a stream takes ahead of the path: more than the path holds.
const SEND_BUFFER_BYTES: u32 = 8 << 20;
/// Time for the sender to close a connection of which everything has come.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", address, connections, certificate] => {
            receive(address.parse()?, connections.parse()?, certificate).await
        }
        ["send", address, connections, bytes, certificate] => {
            send(address.parse()?, connections.parse()?, bytes.parse()?, certificate).await
        }
        _ => Err("receive ADDRESS CONNECTIONS CERTIFICATE | send ADDRESS CONNECTIONS BYTES CERTIFICATE".into()),
    }
}

fn io(address: SocketAddr) -> Result<Io, Failure> {
    let io = Io::builder().with_receive_address(address)?;
    Ok(io.with_recv_buffer_size(SOCKET_BUFFER_BYTES)?.with_send_buffer_size(SOCKET_BUFFER_BYTES)?.build()?)
}

fn limits() -> Result<Limits, Failure> {
    let limits = Limits::new().with_data_window(WINDOW_BYTES)?.with_unidirectional_data_window(WINDOW_BYTES)?;
    Ok(limits.with_max_send_buffer_size(SEND_BUFFER_BYTES)?)
}

/// What came over a connection.
struct Came {
    bytes: u64,
    first: Instant,
    last: Instant,
}

async fn receive(address: SocketAddr, connections: usize, certificate: &str) -> Result<(), Failure> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (pem, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let server = Server::builder().with_tls((pem.as_str(), key.as_str()))?.with_io(io(address)?)?;
    let mut server = server.with_limits(limits()?)?.with_congestion_controller(Cubic::default())?.start()?;
    std::fs::write(certificate, pem)?;
    println!("ready");
    let mut under_way = JoinSet::new();
    for _ in 0..connections {
        under_way.spawn(drain(server.accept().await.ok_or("the endpoint was closed")?));
    }
    let mut came = Vec::new();
    while let Some(one) = under_way.join_next().await {
        came.push(one??);
    }
    let first = came.iter().map(|one| one.first).min().ok_or("no connection")?;
    let last = came.iter().map(|one| one.last).max().ok_or("no connection")?;
    println!("{}\n{:.6}", came.iter().map(|one| one.bytes).sum::<u64>(), (last - first).as_secs_f64());
    Ok(())
}

async fn drain(mut connection: Connection) -> Result<Came, Failure> {
    let mut stream = connection.accept_receive_stream().await?.ok_or("the connection had no stream")?;
    let (mut bytes, mut first) = (0, None);
    while let Some(piece) = stream.receive().await? {
        first = first.or_else(|| Some(Instant::now()));
        bytes += piece.len() as u64;
    }
    let (first, last) = (first.ok_or("nothing came")?, Instant::now());
    // However it ends, everything has come: this only leaves it to the sender to say that it knows so.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.accept_receive_stream()).await;
    Ok(Came { bytes, first, last })
}

async fn send(address: SocketAddr, connections: usize, bytes: u64, certificate: &str) -> Result<(), Failure> {
    let pem = std::fs::read_to_string(certificate)?;
    let any: SocketAddr = ([0, 0, 0, 0], 0).into();
    let client = Client::builder().with_tls(pem.as_str())?.with_io(io(any)?)?;
    let mut client = client.with_limits(limits()?)?.with_congestion_controller(Cubic::default())?.start()?;
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(client.connect(Connect::new(address).with_server_name(NAME)).await?.handle());
    }
    let (count, mut under_way) = (connections as u64, JoinSet::new());
    for (number, connection) in (0_u64..).zip(opened) {
        under_way.spawn(fill(connection, bytes / count + u64::from(number < bytes % count)));
    }
    while let Some(one) = under_way.join_next().await {
        one??;
    }
    Ok(client.wait_idle().await?)
}

async fn fill(mut connection: Handle, bytes: u64) -> Result<(), Failure> {
    let mut stream = connection.open_send_stream().await?;
    let (piece, mut left) = (Bytes::from_static(&[0; PIECE_BYTES]), bytes);
    while left > 0 {
        let length = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
        stream.send(piece.slice(..length)).await?;
        left -= length as u64;
    }
    stream.close().await?;
    connection.close(0_u8.into());
    Ok(())
}
