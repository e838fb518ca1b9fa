//! What each end knows of a transfer and does next.

pub mod assembly;
pub mod kept;
pub mod liveness;
pub mod receiver;
pub mod schedule;
pub mod sender;
