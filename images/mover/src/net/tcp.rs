//! TCP sockets with the options the transfer needs, each read back where the kernel may choose otherwise.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlead_protocol::liveness::PATIENCE;
use fairlead_protocol::{Fault, Reason};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::pacing::gate::Gate;
use crate::progress::Progress;

/// Time without acknowledgement, or with a full window, after which the kernel gives a connection up. Longer than the session's own
/// patience: a receiver whose disk is slow is not gone, and the session says what it waits for.
const USER_TIMEOUT: Duration = Duration::from_secs(2 * PATIENCE.as_secs());
/// Unsent bytes above which a blocking writer waits: keeps queues short, so that caps and switches take effect soon.
const NOTSENT_LOWAT_BYTES: u32 = 512 << 10;

/// What the user wants of the sockets on a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Binding {
    /// Interface that they use.
    pub(crate) interface: Option<String>,
    /// Own address of theirs.
    pub(crate) address: Option<IpAddr>,
}

/// Options of every connection.
pub(crate) fn tune(socket: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&keepalive.with_retries(3))
}

/// Sets both buffers before the connection is made, so that the window's scale fits; the kernel may grant less.
pub(crate) fn set_buffers(socket: &Socket, bytes: Option<u32>) -> io::Result<()> {
    let Some(bytes) = bytes else { return Ok(()) };
    socket.set_send_buffer_size(bytes as usize)?;
    socket.set_recv_buffer_size(bytes as usize)
}

/// Connects, with interface, address, congestion control and buffers as far as they are given.
pub(crate) fn connect(
    peer: SocketAddr,
    binding: &Binding,
    congestion_control: Option<&str>,
    buffer_bytes: Option<u32>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
    set_buffers(&socket, buffer_bytes)?;
    if let Some(interface) = &binding.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(address) = binding.address {
        socket.bind(&SocketAddr::new(address, 0).into())?;
    }
    if let Some(name) = congestion_control {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    socket.connect_timeout(&peer.into(), timeout.max(Duration::from_millis(1)))?;
    let stream = TcpStream::from(socket);
    tune(&stream)?;
    Ok(stream)
}

/// The congestion control that a socket really uses.
pub(crate) fn congestion_control(socket: &TcpStream) -> io::Result<String> {
    let name = SockRef::from(socket).tcp_congestion()?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Sets a congestion control and reads it back.
pub(crate) fn set_congestion_control(socket: &TcpStream, name: &str) -> io::Result<String> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())?;
    congestion_control(socket)
}

/// Congestion controls the kernel has loaded in this network namespace.
pub(crate) fn available_congestion_controls() -> Vec<String> {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

/// Tries a congestion control on a socket of its own, before any connection depends on it.
pub(crate) fn check_congestion_control(name: &str) -> Result<(), Fault> {
    let attempt = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    attempt.map_err(|error| Fault::new(Reason::CongestionControlUnavailable, remedy(name, &error)))
}

fn remedy(name: &str, error: &io::Error) -> String {
    let offered = available_congestion_controls().join(", ");
    let name: String = name.chars().filter(|c| !c.is_control()).take(32).collect();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "the kernel has the congestion control {name} but does not allow it to this process; add it to the sysctl \
             net.ipv4.tcp_allowed_congestion_control on the node (loaded: {offered})"
        ),
        io::ErrorKind::NotFound => format!(
            "the kernel does not offer the congestion control {name}; choose one of net.ipv4.tcp_available_congestion_control \
             ({offered}) or load its module on the node"
        ),
        _ => format!("the congestion control {name} cannot be set: {error} (loaded: {offered})"),
    }
}

/// Limits a socket's rate in bits per second; nothing lifts the limit.
pub(crate) fn pace(socket: impl AsFd, rate_bps: Option<u64>) -> io::Result<()> {
    let bytes = rate_bps.map_or(u64::MAX, |rate| (rate / 8).max(1));
    fairlead_sys::set_max_pacing_rate(socket, bytes)
}

/// Bounds what a socket holds unsent; nothing restores the usual bound, which is also the largest.
pub(crate) fn bound_unsent(socket: impl AsFd, bytes: Option<u64>) -> io::Result<()> {
    let bytes = bytes.map_or(NOTSENT_LOWAT_BYTES, |bytes| bytes.min(u64::from(NOTSENT_LOWAT_BYTES)) as u32);
    SockRef::from(&socket).set_tcp_notsent_lowat(bytes)
}

/// A socket that counts what passes and keeps an absolute deadline while one is set.
pub(crate) struct Metered {
    socket: TcpStream,
    progress: Arc<Progress>,
    deadline: Option<Instant>,
    gate: Option<Arc<Gate>>,
}

impl Metered {
    pub(crate) fn new(socket: TcpStream, progress: Arc<Progress>, deadline: Option<Instant>) -> Self {
        Self { socket, progress, deadline, gate: None }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Ends the deadline; each read or write may take `timeout` from now on.
    pub(crate) fn authenticated(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.deadline = None;
        self.socket.set_read_timeout(timeout)?;
        self.socket.set_write_timeout(timeout)
    }

    /// What is written from now on waits for its turn under the transfer's cap.
    pub(crate) fn paced(&mut self, gate: Arc<Gate>) {
        self.gate = Some(gate);
    }

    /// Reads what is there, at least a byte; 0 at the end.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Whether bytes can be read, without waiting for them. A connection that the peer ended, or that broke, is an error.
    pub(crate) fn peek(&self) -> io::Result<bool> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket, &mut [0; 1], flags) {
            Ok((_, 0)) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the peer went away from an idle stream"))
            }
            Ok(_) => Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn remaining(&self) -> io::Result<Option<Duration>> {
        match self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")),
            remaining => Ok(remaining),
        }
    }

    fn count(&self, bytes: usize) {
        self.progress.counters.work.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(remaining) = self.remaining()? {
            self.socket.set_read_timeout(Some(remaining))?;
        }
        let bytes = self.socket.read(buffer)?;
        self.count(bytes);
        Ok(bytes)
    }
}

impl Write for Metered {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        if let Some(remaining) = self.remaining()? {
            self.socket.set_write_timeout(Some(remaining))?;
        }
        let bytes = match &self.gate {
            Some(gate) => gate.write(&self.socket, buffers)?,
            None => self.socket.write_vectored(buffers)?,
        };
        self.count(bytes);
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{poll, PollFd, PollFlags};

    #[test]
    fn an_unknown_congestion_control_names_the_remedy() {
        let fault = check_congestion_control("nonsense").unwrap_err();
        assert_eq!(fault.reason, Reason::CongestionControlUnavailable);
        assert!(fault.message.contains("tcp_available_congestion_control"));
        assert!(!fault.retry);
        let denied = remedy("cubic", &io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(denied.contains("net.ipv4.tcp_allowed_congestion_control"));
    }

    #[test]
    fn a_peek_tells_silence_from_bytes_from_the_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut metered = Metered::new(listener.accept().unwrap().0, Arc::new(Progress::new()), None);
        let await_event = |metered: &Metered| {
            let mut polled = [PollFd::new(metered.socket(), PollFlags::IN)];
            poll(&mut polled, None).unwrap();
        };
        assert!(!metered.peek().unwrap());
        peer.write_all(b"x").unwrap();
        await_event(&metered);
        assert!(metered.peek().unwrap());
        assert_eq!(metered.receive(&mut [0; 8]).unwrap(), 1);
        drop(peer);
        await_event(&metered);
        assert!(metered.peek().is_err());
    }

    #[test]
    fn a_slow_peer_cannot_stretch_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = listener.accept().unwrap().0;
        let started = Instant::now();
        let deadline = Some(started + Duration::from_millis(50));
        let mut metered = Metered::new(socket, Arc::new(Progress::new()), deadline);
        assert!(metered.read(&mut [0]).is_err());
        assert!(metered.read(&mut [0]).is_err());
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
