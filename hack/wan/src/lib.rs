//! A wide-area link between two network namespaces of one machine: rate, delay, a queue, policing, random loss, reordering, corruption,
//! a slow receiver.
//!
//! [`link`] is the model of one direction, without clock or sockets, from a policer ([`police`]), thinning of acknowledgements
//! ([`thin`]), a [`queue`], [`mishap`]s and a [`receiver`]; [`engine`] moves packets between the two [`device`]s by it, of which [`packet`] reads
//! the headers; [`control`] lets other processes watch and change it while it runs.

#![forbid(unsafe_code)]

pub mod control;
pub mod device;
pub mod engine;
pub mod link;
pub mod mishap;
pub mod packet;
pub mod parameters;
pub mod police;
pub mod quantity;
pub mod queue;
pub mod receiver;
pub mod thin;
