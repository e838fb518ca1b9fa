//! Sequence numbers: 31 bits on the wire, which wrap, and here the number of a packet since the first, which does not.

/// How many sequence numbers there are.
pub const SEQUENCES: u32 = 1 << 31;

const MASK: u32 = SEQUENCES - 1;

/// One direction's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    first: u32,
}

impl Sequence {
    /// Starts with this number on the wire.
    pub(crate) fn new(first: u32) -> Self {
        Self { first: first & MASK }
    }

    pub(crate) fn on_wire(self, number: u64) -> u32 {
        self.first.wrapping_add(number as u32) & MASK
    }

    /// The number nearest to `near` that is `wire` on the wire; nothing if that is before the first.
    pub(crate) fn number(self, wire: u32, near: u64) -> Option<u64> {
        let ahead = wire.wrapping_sub(self.on_wire(near)) & MASK;
        if ahead < SEQUENCES / 2 {
            near.checked_add(u64::from(ahead))
        } else {
            near.checked_sub(u64::from(SEQUENCES - ahead))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_go_on_where_those_on_the_wire_wrap() {
        let sequence = Sequence::new(MASK - 1);
        assert_eq!([0, 1, 2, 3].map(|number| sequence.on_wire(number)), [MASK - 1, MASK, 0, 1]);
        assert_eq!(sequence.number(1, 1), Some(3));
        assert_eq!(sequence.number(MASK, 3), Some(1));
        assert_eq!(sequence.number(MASK - 2, 0), None, "before the first");
    }

    proptest! {
        #[test]
        fn what_is_near_is_found_again(first: u32, near in 0u64..1 << 40, off in -100_000i64..100_000) {
            let sequence = Sequence::new(first);
            let number = near.checked_add_signed(off);
            prop_assume!(number.is_some());
            prop_assert_eq!(sequence.number(sequence.on_wire(number.unwrap()), near), number);
        }
    }
}
