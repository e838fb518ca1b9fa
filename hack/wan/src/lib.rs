//! A wide-area link between two network namespaces of one machine: rate, delay, drop-tail buffer, random loss.
//!
//! [`link`] is the model of one direction, without clock or sockets; [`engine`] moves packets between the two
//! [`device`]s by it; [`control`] lets other processes watch and change it while it runs.

#![forbid(unsafe_code)]

pub mod control;
pub mod device;
pub mod engine;
pub mod link;
pub mod parameters;
pub mod quantity;
