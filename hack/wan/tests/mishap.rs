//! Packets that come late or with other content.

use fairlead_wan::mishap::{corrupt, parse_reordering, Reordering};
use proptest::prelude::*;

/// The Internet checksum of words (RFC 1071, section 1).
fn internet_checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0)));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[test]
fn a_share_and_how_late() {
    let reordering = |share, extra_ns| Ok(Some(Reordering { share, extra_ns }));
    assert_eq!(parse_reordering("reorder", "0.01,5ms"), reordering(0.01, 5_000_000));
    assert_eq!(parse_reordering("reorder", "1,1s"), reordering(1.0, 1_000_000_000));
    assert_eq!(parse_reordering("reorder", "0"), Ok(None));
    assert_eq!(parse_reordering("reorder", "0,5ms"), Ok(None));
}

#[test]
fn what_is_no_share_or_not_late_is_refused_with_the_field() {
    for text in ["", "0.1", "2,5ms", "0.1,0", "0.1,2s", "0.1,", "x,5ms", "0.1,5"] {
        assert_eq!(parse_reordering("reorder-ab", text).expect_err(text).field, "reorder-ab");
    }
}

#[test]
fn what_is_short_or_the_same_throughout_stays_as_it_is() {
    for mut packet in [vec![], (0..127).collect(), vec![7; 1500]] {
        let before = packet.clone();
        assert!(!corrupt(&mut packet, 1));
        assert_eq!(packet, before);
    }
}

proptest! {
    #[test]
    fn corruption_changes_the_second_half_alone_and_no_checksum_shows_it(
        before in prop::collection::vec(any::<u8>(), 128..1_600),
        draw in any::<u64>(),
    ) {
        let mut packet = before.clone();
        prop_assert!(corrupt(&mut packet, draw));
        prop_assert_ne!(&packet, &before);
        prop_assert_eq!(internet_checksum(&packet), internet_checksum(&before));
        let unchanged = before.len() / 4 * 2;
        prop_assert_eq!(&packet[..unchanged], &before[..unchanged]);
        prop_assert_eq!(packet.iter().zip(&before).filter(|(one, other)| one != other).count() <= 4, true);
    }
}
