//! Every bound of the protocol, with its arithmetic.

use std::time::Duration;

/// First bytes of every greeting: in TLS, after its handshake.
pub const MAGIC: [u8; 4] = *b"FLMV";
/// Version of the wire format; both ends must agree.
pub const VERSION: u16 = 4;

/// Bytes of a file covered by one digest; the last block of a file is shorter.
pub const BLOCK_BYTES: u32 = 1 << 20;
/// Most payload bytes in one pack: a whole block.
pub const PACK_PAYLOAD_BYTES: u32 = BLOCK_BYTES;
/// Most segments in one pack: 4 KiB files fill a pack with 256, smaller ones stop here.
pub const PACK_SEGMENTS: u16 = 1024;

/// Largest control frame; listings and plans are sent in several frames.
pub const CONTROL_FRAME_BYTES: usize = 256 << 10;
/// Largest first frame of a connection, read before anything is known of the peer.
pub const HELLO_FRAME_BYTES: usize = 1 << 10;
/// Bytes of a listing frame at which the sender starts the next one: half of the bound leaves room for one longest entry.
pub const LISTING_FRAME_TARGET_BYTES: usize = CONTROL_FRAME_BYTES / 2;
/// Most numbers in one plan or comparison frame: 5 bytes each in the worst case, 40 with a digest.
pub const NUMBERS_PER_FRAME: usize = 4096;

/// Longest path below the root (`PATH_MAX` less its NUL).
pub const PATH_BYTES: usize = 4095;
/// Longest component of a path (`NAME_MAX`).
pub const NAME_BYTES: usize = 255;
/// Longest symbolic link target (`PATH_MAX` less its NUL).
pub const TARGET_BYTES: usize = 4095;
/// Most entries of one transfer.
pub const ENTRIES: usize = 16_000_000;
/// Most blocks of one transfer: 4 PiB in blocks of 1 MiB.
pub const BLOCKS: u64 = 1 << 32;
/// Longest quiet period that a sender may be asked for.
pub const QUIET: Duration = Duration::from_secs(15);
/// Quiet that a sender may be asked for in all, beside a tenth of the time since it started: what one long look at a path takes,
/// twice.
pub const QUIET_CREDIT: Duration = Duration::from_secs(30);
/// Of how many parts of a sender's time one may be quiet.
pub const QUIET_PARTS: u32 = 10;
/// Most data streams, over all paths.
pub const STREAMS: u16 = 64;
/// Most paths of one transfer.
pub const PATHS: usize = 8;
/// Bytes of control messages that are kept until the peer has them. Beyond, the session does not survive its connection.
pub const KEPT_BYTES: usize = 64 << 20;
/// Bytes of the token that joins a data connection to its control connection.
pub const TOKEN_BYTES: usize = 16;
/// Bytes of the key of the echo service.
pub const ECHO_KEY_BYTES: usize = 16;
/// Prefix of names that belong to the mover at the destination's root.
pub const RESERVED_PREFIX: &[u8] = b".fairlead-";
/// Longest job name: it is part of a file name and of a DNS label.
pub const JOB_BYTES: usize = 63;
/// Longest message of a fault that is sent to the peer or stored from it, in bytes.
pub const FAULT_MESSAGE_BYTES: usize = 1024;
