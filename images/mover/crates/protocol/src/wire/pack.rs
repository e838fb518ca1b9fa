//! Packs: what data streams carry. A pack holds one block of a large file, or blocks of many small files together:
//! a 32-byte header, a table of segments, then the segments' bytes in the table's order.

use crate::digest::Digest;
use crate::index::{BlockId, BlockIndex, FileIndex, PackId};
use crate::limits::{PACK_PAYLOAD_BYTES, PACK_SEGMENTS};

/// Bytes of a pack's header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of one line of the segment table.
pub const SEGMENT_BYTES: usize = 48;

const PACK_MAGIC: [u8; 4] = *b"FLPK";
const KIND_DATA: u8 = 1;
const KIND_END: u8 = 2;

/// Start of a pack, or the orderly end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// A pack follows.
    Data {
        /// Number of the pack.
        pack: PackId,
        /// Lines of the segment table.
        segments: u16,
        /// Bytes after the table.
        payload_bytes: u32,
    },
    /// The sender ends the stream on purpose.
    End,
}

/// One line of the table: a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub file: FileIndex,
    /// The block in the file.
    pub block: BlockIndex,
    /// Bytes of the block.
    pub length: u32,
    /// BLAKE3 of those bytes.
    pub digest: Digest,
    /// Whether the block is a hole: zeros that take no space and do not travel.
    pub is_hole: bool,
}

/// Why bytes are not a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// No pack header at this place.
    #[error("a data stream lost its framing")]
    Framing,
    /// A count or length is outside its bound.
    #[error("a pack's length is outside the bounds")]
    Bounds,
}

impl Header {
    /// The header as it travels.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&PACK_MAGIC);
        match *self {
            Self::Data { pack, segments, payload_bytes } => {
                bytes[4] = KIND_DATA;
                bytes[6..8].copy_from_slice(&segments.to_be_bytes());
                bytes[8..12].copy_from_slice(&payload_bytes.to_be_bytes());
                bytes[16..24].copy_from_slice(&pack.0.to_be_bytes());
            }
            Self::End => bytes[4] = KIND_END,
        }
        bytes
    }

    /// Decodes and bounds a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, PackError> {
        let reserved = [bytes[5], bytes[12], bytes[13], bytes[14], bytes[15]];
        if bytes[..4] != PACK_MAGIC || reserved != [0; 5] || bytes[24..] != [0; 8] {
            return Err(PackError::Framing);
        }
        let segments = u16::from_be_bytes([bytes[6], bytes[7]]);
        let payload_bytes = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let mut pack = [0; 8];
        pack.copy_from_slice(&bytes[16..24]);
        match bytes[4] {
            KIND_END => Ok(Self::End),
            KIND_DATA => {
                let bounded = (1..=PACK_SEGMENTS).contains(&segments) && payload_bytes <= PACK_PAYLOAD_BYTES;
                if !bounded {
                    return Err(PackError::Bounds);
                }
                Ok(Self::Data { pack: PackId(u64::from_be_bytes(pack)), segments, payload_bytes })
            }
            _ => Err(PackError::Framing),
        }
    }
}

impl Segment {
    /// Which block it is.
    pub fn id(&self) -> BlockId {
        BlockId::new(self.file, self.block)
    }

    /// Appends the line to a table.
    pub fn encode_into(&self, table: &mut Vec<u8>) {
        table.extend_from_slice(&self.file.0.to_be_bytes());
        table.extend_from_slice(&self.block.0.to_be_bytes());
        table.extend_from_slice(&self.length.to_be_bytes());
        table.extend_from_slice(&u32::from(self.is_hole).to_be_bytes());
        table.extend_from_slice(&self.digest);
    }

    /// Bytes of the block in the pack's payload.
    pub fn payload_bytes(&self) -> u32 {
        if self.is_hole {
            0
        } else {
            self.length
        }
    }

    fn decode(line: &[u8; SEGMENT_BYTES]) -> Option<Self> {
        let number = |at: usize| u32::from_be_bytes([line[at], line[at + 1], line[at + 2], line[at + 3]]);
        let mut digest = [0; 32];
        digest.copy_from_slice(&line[16..48]);
        let is_hole = match number(12) {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { file: FileIndex(number(0)), block: BlockIndex(number(4)), length: number(8), digest, is_hole })
    }
}

/// Decodes a table into `segments`; the lengths of all but holes must add up to the payload and none may be empty.
pub fn decode_table(table: &[u8], payload_bytes: u32, segments: &mut Vec<Segment>) -> Result<(), PackError> {
    segments.clear();
    let mut sum = 0u64;
    for line in table.chunks_exact(SEGMENT_BYTES) {
        let line: &[u8; SEGMENT_BYTES] = line.try_into().map_err(|_| PackError::Framing)?;
        let segment = Segment::decode(line).ok_or(PackError::Framing)?;
        if segment.length == 0 {
            return Err(PackError::Bounds);
        }
        sum += u64::from(segment.payload_bytes());
        segments.push(segment);
    }
    if sum == u64::from(payload_bytes) {
        Ok(())
    } else {
        Err(PackError::Bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_round_trip(pack in any::<u64>().prop_map(PackId), segments in 1..=PACK_SEGMENTS, payload_bytes in 0..=PACK_PAYLOAD_BYTES) {
            let header = Header::Data { pack, segments, payload_bytes };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn tables_round_trip(lines in proptest::collection::vec((any::<u32>(), any::<u32>(), 1..5000u32, any::<[u8; 32]>(), any::<bool>()), 1..40)) {
            let segment = |(file, block, length, digest, is_hole)| {
                Segment { file: FileIndex(file), block: BlockIndex(block), length, digest, is_hole }
            };
            let expected: Vec<Segment> = lines.into_iter().map(segment).collect();
            let (mut table, mut decoded) = (Vec::new(), Vec::new());
            expected.iter().for_each(|segment| segment.encode_into(&mut table));
            let sum = expected.iter().map(Segment::payload_bytes).sum();
            prop_assert_eq!(decode_table(&table, sum, &mut decoded), Ok(()));
            prop_assert_eq!(&decoded, &expected);
            prop_assert_eq!(decode_table(&table, sum + 1, &mut decoded), Err(PackError::Bounds));
        }

        #[test]
        fn hostile_headers_never_exceed_the_bounds(bytes: [u8; HEADER_BYTES]) {
            if let Ok(Header::Data { segments, payload_bytes, .. }) = Header::decode(&bytes) {
                prop_assert!(segments <= PACK_SEGMENTS && payload_bytes <= PACK_PAYLOAD_BYTES);
            }
        }
    }

    #[test]
    fn only_holes_have_no_bytes_and_nothing_unknown_is_taken() {
        let hole = Segment { file: FileIndex(0), block: BlockIndex(0), length: 9, digest: [1; 32], is_hole: true };
        let (mut table, mut segments) = (Vec::new(), Vec::new());
        hole.encode_into(&mut table);
        assert_eq!(decode_table(&table, 0, &mut segments), Ok(()));
        assert_eq!(decode_table(&table, 9, &mut segments), Err(PackError::Bounds));
        table[15] = 2;
        assert_eq!(decode_table(&table, 0, &mut segments), Err(PackError::Framing));
    }

    #[test]
    fn counts_outside_the_bounds_are_refused() {
        for (segments, payload_bytes) in [(0, 1), (PACK_SEGMENTS + 1, 1), (1, PACK_PAYLOAD_BYTES + 1)] {
            let header = Header::Data { pack: PackId(0), segments, payload_bytes };
            assert_eq!(Header::decode(&header.encode()), Err(PackError::Bounds));
        }
        assert_eq!(Header::decode(&Header::End.encode()), Ok(Header::End));
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), Err(PackError::Framing));
    }
}
