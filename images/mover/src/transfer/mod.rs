//! One end of a transfer, from the command line to the verdict: it drives the session and has the work done.

pub(crate) mod receive;
pub(crate) mod send;
mod session;

use std::sync::Arc;

use crate::control::http::Pages;
use crate::net::connect::identity::Identity;
use crate::progress::Progress;
use crate::signal::Stop;

/// Everything a transfer needs from outside.
pub(crate) struct TransferContext {
    pub(crate) identity: Arc<Identity>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) stop: Stop,
}
