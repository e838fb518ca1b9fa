//! The send buffers of data connections in mid-transfer: what the kernel may be asked for, and what it grows to when it is left alone.

use std::io;
use std::net::TcpStream;
use std::sync::OnceLock;

use serde::Serialize;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::net::wire::buffers;

/// Larger than any kernel grants, so that what it does grant can be read back.
const BEYOND_BYTES: usize = 1 << 30;

/// Who settled the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum SetBy {
    /// Nobody: the kernel grows each buffer with its window.
    Kernel,
    /// `--socket-buffer`; nothing else is taken then.
    User,
    /// The mover, from the rate and RTT that it knew before the data.
    Mover,
    /// `PATCH /v1/transport`.
    Advisor,
}

/// What is asked of every data connection, in the bytes that `SO_SNDBUF` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendBuffer {
    pub(crate) bytes: Option<u32>,
    pub(crate) set_by: SetBy,
}

impl SendBuffer {
    /// Left to the kernel.
    pub(crate) const AUTOMATIC: Self = Self { bytes: None, set_by: SetBy::Kernel };

    /// What is in force before the data: the user's choice, else the mover's, else the kernel's.
    pub(crate) fn before_data(user_bytes: Option<u32>, planned_bytes: Option<u32>) -> Self {
        match (user_bytes, planned_bytes) {
            (Some(bytes), _) => Self { bytes: Some(bytes), set_by: SetBy::User },
            (None, Some(bytes)) => Self { bytes: Some(bytes), set_by: SetBy::Mover },
            (None, None) => Self::AUTOMATIC,
        }
    }
}

/// The kernel's limits in this network namespace, in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SendBufferLimits {
    /// To which a buffer grows by itself (`net.ipv4.tcp_wmem`, third number), in the kernel's accounting; 0 if not known.
    automatic_bytes: u64,
    /// The most that may be asked for (`net.core.wmem_max`); the accounting has twice that.
    settable_bytes: u64,
}

/// The limits, found out once: by asking, as a namespace of its own may not show them.
pub(crate) fn limits() -> SendBufferLimits {
    static LIMITS: OnceLock<SendBufferLimits> = OnceLock::new();
    *LIMITS.get_or_init(|| SendBufferLimits {
        automatic_bytes: buffers::automatic_send_bytes(),
        settable_bytes: granted(BEYOND_BYTES).unwrap_or(0) as u64,
    })
}

/// What the kernel makes of a request for `bytes`, in the same measure.
fn granted(bytes: usize) -> io::Result<usize> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_send_buffer_size(bytes)?;
    Ok(socket.send_buffer_size()? / 2)
}

/// Asks for a buffer on a live connection, which ends its growth by the kernel; nothing is asked with None.
pub(crate) fn apply(socket: &TcpStream, buffer: SendBuffer) -> io::Result<()> {
    buffer.bytes.map_or(Ok(()), |bytes| SockRef::from(socket).set_send_buffer_size(bytes as usize))
}

/// The size of a connection's buffer now, in the kernel's accounting; 0 if it is not known.
pub(crate) fn in_force_bytes(socket: &TcpStream) -> u64 {
    SockRef::from(socket).send_buffer_size().unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_choice_comes_first_then_the_movers_then_the_kernel() {
        let cases = [
            (Some(1), Some(2), Some(1), SetBy::User),
            (None, Some(2), Some(2), SetBy::Mover),
            (None, None, None, SetBy::Kernel),
        ];
        for (user, planned, bytes, set_by) in cases {
            assert_eq!(SendBuffer::before_data(user, planned), SendBuffer { bytes, set_by });
        }
    }

    #[test]
    fn what_may_be_asked_for_is_granted_on_a_live_connection_and_no_more() -> io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let socket = TcpStream::connect(listener.local_addr()?)?;
        let most = limits().settable_bytes;
        assert!(most > 4096, "{most}");
        let automatic = in_force_bytes(&socket);
        apply(&socket, SendBuffer::AUTOMATIC)?;
        assert_eq!(in_force_bytes(&socket), automatic);
        for asked in [most / 2, most, 2 * most] {
            apply(&socket, SendBuffer { bytes: u32::try_from(asked).ok(), set_by: SetBy::Advisor })?;
            assert_eq!(in_force_bytes(&socket), 2 * asked.min(most), "{asked}");
        }
        Ok(())
    }
}
