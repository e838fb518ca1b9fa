//! The session of a transfer at each end: state machines that take messages and results, and return messages and effects.

pub mod assembly;
pub mod kept;
pub mod liveness;
pub(crate) mod path_loads;
pub mod receiver;
pub mod replay;
pub mod schedule;
pub mod sender;
