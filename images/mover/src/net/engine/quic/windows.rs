//! What the receiver's connections may hold unread: memory of this process, which the pod's limit bounds. So it is divided, and a
//! connection that nobody reads holds little.

use std::sync::{Arc, Mutex};

use fairlead_protocol::limits::STREAMS;
use quinn::{Connection, VarInt};

use crate::threads::lock;

/// Of one connection at most: twice 2.5 Gb/s x 100 ms.
pub(super) const MOST_BYTES: u64 = 64 << 20;
/// Of all connections together, beside what those hold that have not been read so far: twice 10 Gb/s x 100 ms.
const ALL_BYTES: u64 = 256 << 20;
/// Of a connection until so much of it has been read.
pub(super) const FIRST_BYTES: u64 = ALL_BYTES / STREAMS as u64;

/// The connections that have been read from.
#[derive(Default)]
pub(super) struct UnreadWindows(Mutex<Vec<Connection>>);

/// A connection's part; ends when dropped.
pub(super) struct UnreadWindow {
    windows: Arc<UnreadWindows>,
    connection: Connection,
    /// Bytes to be read before it grows; nothing once it has.
    unread: Option<u64>,
}

/// What each of so many connections may hold.
fn share(connections: usize) -> u64 {
    (ALL_BYTES / (connections as u64).max(1)).min(MOST_BYTES)
}

impl UnreadWindows {
    fn change(&self, change: impl FnOnce(&mut Vec<Connection>)) {
        let mut connections = lock(&self.0);
        change(&mut connections);
        let window = VarInt::from_u64(share(connections.len())).unwrap_or(VarInt::MAX);
        connections.iter().for_each(|connection| connection.set_receive_window(window));
    }
}

impl UnreadWindow {
    pub(super) fn new(windows: &Arc<UnreadWindows>, connection: Connection) -> Self {
        Self { windows: Arc::clone(windows), connection, unread: Some(FIRST_BYTES) }
    }

    /// So much was read.
    pub(super) fn read(&mut self, bytes: usize) {
        let Some(unread) = self.unread else { return };
        self.unread = unread.checked_sub(bytes as u64).filter(|left| *left > 0);
        if self.unread.is_none() {
            self.windows.change(|connections| connections.push(self.connection.clone()));
        }
    }
}

impl Drop for UnreadWindow {
    fn drop(&mut self) {
        if self.unread.is_none() {
            let own = self.connection.stable_id();
            self.windows.change(|connections| connections.retain(|other| other.stable_id() != own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_divide_what_there_is() {
        assert_eq!((share(0), share(1), share(4)), (MOST_BYTES, MOST_BYTES, MOST_BYTES));
        assert_eq!(share(usize::from(STREAMS)), FIRST_BYTES);
        for connections in 1..=usize::from(STREAMS) {
            assert!(share(connections) * connections as u64 <= ALL_BYTES, "{connections}");
        }
    }
}
