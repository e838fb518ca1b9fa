//! Control messages. Unknown fields are ignored, so that later versions can add some.
#![allow(missing_docs)]

use prost::{Enumeration, Message, Oneof};

/// First message of every connection, from the sender.
#[derive(Clone, PartialEq, Message)]
pub struct Hello {
    #[prost(string, tag = "1")]
    pub job: String,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    #[prost(enumeration = "Purpose", tag = "3")]
    pub purpose: i32,
    /// Data connections, and control connections that go on with a session: the token of the first control connection's `Welcome`.
    #[prost(bytes = "vec", tag = "4")]
    pub token: Vec<u8>,
    /// Data connections: number of the stream.
    #[prost(uint32, tag = "5")]
    pub stream: u32,
    /// Control connections: whether data connections are encrypted. Both ends must want the same.
    #[prost(enumeration = "Encryption", tag = "6")]
    pub encryption: i32,
    /// Control connections: the source is made up in memory, so that nobody misses its digests.
    #[prost(bool, tag = "7")]
    pub source_is_memory: bool,
    /// Control connections: the sender's wall clock in milliseconds of Unix time; 0 from a version that does not say it.
    #[prost(uint64, tag = "16")]
    pub wall_ms: u64,
    /// Control connections: both ends check what they can and move nothing. Both must want the same.
    #[prost(bool, tag = "17")]
    pub check_only: bool,
    /// Control connections: what carries the data. Both ends must want the same.
    #[prost(enumeration = "DataProtocol", tag = "18")]
    pub protocol: i32,
    /// Control connections that go on with a session: messages that the sender has received in it.
    #[prost(uint64, optional, tag = "8")]
    pub received: Option<u64>,
}

/// What carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum DataProtocol {
    Tcp = 0,
    Quic = 1,
    Udt = 2,
}

/// Whether data connections are encrypted. The control connection always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Encryption {
    Unknown = 0,
    Required = 1,
    /// Authenticated and keyed, in the clear.
    None = 2,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Purpose {
    Unknown = 0,
    Control = 1,
    Data = 2,
}

/// The receiver's answer to `Hello`: a refusal if `refusal` is not empty.
#[derive(Clone, PartialEq, Message)]
pub struct Welcome {
    #[prost(string, tag = "1")]
    pub refusal: String,
    #[prost(bytes = "vec", tag = "2")]
    pub token: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub echo_key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    pub echo_port: u32,
    /// Blocks carry no digests: the wire is protected by TLS or tags, they come from memory, and they are stored nowhere.
    #[prost(bool, tag = "5")]
    pub undigested: bool,
    /// The receiver checks everything and stores nothing.
    #[prost(bool, tag = "7")]
    pub discards: bool,
    /// A refusal that no further attempt with the same settings can change.
    #[prost(bool, tag = "6")]
    pub is_final: bool,
    /// Control connections: the receiver's wall clock in milliseconds of Unix time; 0 from a version that does not say it.
    #[prost(uint64, tag = "16")]
    pub wall_ms: u64,
    /// Control connections: what carries the data; a version that knows none but TCP says that.
    #[prost(enumeration = "DataProtocol", tag = "17")]
    pub protocol: i32,
    /// To a control connection that goes on with a session: messages that the receiver has received in it.
    #[prost(uint64, tag = "8")]
    pub received: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ControlMessage {
    #[prost(oneof = "Body", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16")]
    pub body: Option<Body>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Body {
    /// Sender: some entries of the tree, in order.
    #[prost(message, tag = "1")]
    Listing(ListingMessage),
    /// Sender: the listing is complete.
    #[prost(message, tag = "2")]
    ListingEnd(ListingEnd),
    /// Receiver: files that exist with the same size; their digests are wanted.
    #[prost(message, tag = "3")]
    Compare(Numbers),
    /// Sender: digests of those files.
    #[prost(message, tag = "4")]
    Digests(FileDigests),
    /// Receiver: files that need not be sent.
    #[prost(message, tag = "5")]
    Plan(Numbers),
    /// Receiver: packs whose blocks are verified and handed to the file system.
    #[prost(message, tag = "6")]
    Stored(Packs),
    /// Receiver: packs with a block that failed its check; to be sent again.
    #[prost(message, tag = "7")]
    Damaged(Packs),
    /// Sender: every pack was stored; the root to verify.
    #[prost(message, tag = "8")]
    Complete(Complete),
    /// Receiver: verified, durable and under the final names.
    #[prost(message, tag = "9")]
    Published(Complete),
    /// Either end: the transfer failed here.
    #[prost(message, tag = "10")]
    Failure(Failure),
    /// Either end: still alive.
    #[prost(message, tag = "11")]
    Heartbeat(Heartbeat),
    /// Receiver, before `Plan`: blocks that earlier attempts left, which need not be sent if their digests still hold.
    #[prost(message, tag = "12")]
    Kept(Kept),
    /// Receiver, instead of `Published`: blocks that the disk gave back damaged; to be sent again.
    #[prost(message, tag = "13")]
    Again(Blocks),
    /// Receiver, instead of `Plan`, where both ends only check: what the listing needs is there.
    #[prost(message, tag = "16")]
    Checked(Checked),
}

impl Body {
    /// Name of the message, for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Listing(_) => "Listing",
            Self::ListingEnd(_) => "ListingEnd",
            Self::Compare(_) => "Compare",
            Self::Digests(_) => "Digests",
            Self::Plan(_) => "Plan",
            Self::Stored(_) => "Stored",
            Self::Damaged(_) => "Damaged",
            Self::Complete(_) => "Complete",
            Self::Published(_) => "Published",
            Self::Failure(_) => "Failure",
            Self::Heartbeat(_) => "Heartbeat",
            Self::Kept(_) => "Kept",
            Self::Again(_) => "Again",
            Self::Checked(_) => "Checked",
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct EntryMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub path: Vec<u8>,
    #[prost(enumeration = "EntryKind", tag = "2")]
    pub kind: i32,
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    #[prost(sint64, tag = "4")]
    pub mtime_s: i64,
    #[prost(uint32, tag = "5")]
    pub mtime_ns: u32,
    #[prost(uint64, tag = "6")]
    pub size: u64,
    #[prost(bytes = "vec", tag = "7")]
    pub target: Vec<u8>,
    #[prost(sint64, tag = "8")]
    pub ctime_s: i64,
    #[prost(uint32, tag = "9")]
    pub ctime_ns: u32,
    #[prost(uint64, tag = "10")]
    pub inode: u64,
    /// Bytes of a regular file that are holes.
    #[prost(uint64, tag = "11")]
    pub hole_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum EntryKind {
    Unknown = 0,
    File = 1,
    Directory = 2,
    Symlink = 3,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListingMessage {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<EntryMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ListingEnd {
    #[prost(uint64, tag = "1")]
    pub files: u64,
    #[prost(uint64, tag = "2")]
    pub directories: u64,
    #[prost(uint64, tag = "3")]
    pub symlinks: u64,
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
    /// Modification time of the source directory itself; absent where there is none, and from a version that does not say it.
    #[prost(sint64, optional, tag = "5")]
    pub root_mtime_s: Option<i64>,
    #[prost(uint32, tag = "6")]
    pub root_mtime_ns: u32,
}

/// Indices into the listing, in one or more frames.
#[derive(Clone, PartialEq, Message)]
pub struct Numbers {
    #[prost(uint32, repeated, tag = "1")]
    pub numbers: Vec<u32>,
    #[prost(bool, tag = "2")]
    pub last: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct FileDigests {
    #[prost(message, repeated, tag = "1")]
    pub digests: Vec<FileDigest>,
    #[prost(bool, tag = "2")]
    pub last: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct FileDigest {
    #[prost(uint32, tag = "1")]
    pub file: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub digest: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Packs {
    #[prost(uint64, repeated, tag = "1")]
    pub packs: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Kept {
    #[prost(message, repeated, tag = "1")]
    pub runs: Vec<KeptRun>,
}

/// Consecutive blocks of a file.
#[derive(Clone, PartialEq, Message)]
pub struct KeptRun {
    #[prost(uint32, tag = "1")]
    pub file: u32,
    #[prost(uint32, tag = "2")]
    pub first: u32,
    /// The blocks' digests, one after the other.
    #[prost(bytes = "vec", tag = "3")]
    pub digests: Vec<u8>,
}

/// Single blocks: the n-th file and the n-th block belong together.
#[derive(Clone, PartialEq, Message)]
pub struct Blocks {
    #[prost(uint32, repeated, tag = "1")]
    pub files: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    pub blocks: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Complete {
    #[prost(bytes = "vec", tag = "1")]
    pub root: Vec<u8>,
    /// `Published`: the disk was read again and gave the same bytes back.
    #[prost(bool, tag = "2")]
    pub disk: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Checked {}

#[derive(Clone, PartialEq, Message)]
pub struct Failure {
    #[prost(string, tag = "1")]
    pub reason: String,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(bool, tag = "3")]
    pub retry: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Heartbeat {
    /// Grows with whatever this end gets done: bytes read, sent, received, hashed, synced.
    #[prost(uint64, tag = "1")]
    pub work: u64,
    /// Whether this end waits on purpose, so that no progress is expected.
    #[prost(bool, tag = "2")]
    pub waiting: bool,
    /// Milliseconds that the oldest operation on this end's disk has been under way; 0 without one.
    #[prost(uint64, tag = "3")]
    pub disk_ms: u64,
    /// From the receiver: bytes that the verify phase is done with.
    #[prost(uint64, tag = "4")]
    pub bytes_verified: u64,
    /// From the sender, when that changed: milliseconds for which it holds all data back from now on; 0 ends that.
    #[prost(uint64, optional, tag = "5")]
    pub quiet_ms: Option<u64>,
    /// Messages that this end has received in the session: the other need not keep them any more.
    #[prost(uint64, tag = "6")]
    pub received: u64,
}
