//! Damages one block on its way, for tests of what happens then. Compiled only with the feature `fault-injection`.

/// Flips a bit in the pack named by `FAIRLEAD_FAULT_DAMAGE_PACK`, after its digest was taken.
pub(crate) fn damage(pack: u64, bytes: &mut [u8]) {
    let wanted = std::env::var("FAIRLEAD_FAULT_DAMAGE_PACK").ok().and_then(|text| text.parse::<u64>().ok());
    if wanted == Some(pack) {
        bytes[0] ^= 1;
    }
}
