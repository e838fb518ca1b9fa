//! Files: the source tree, the destination tree, the partial files between them. Everything is opened beneath one directory.

pub(crate) mod block_source;
pub(crate) mod metadata;
mod names;
pub(crate) mod partial;
pub(crate) mod publish;
pub(crate) mod readback;
pub(crate) mod root;
pub(crate) mod source;
pub(crate) mod survey;
mod trouble;
pub(crate) mod volume_path;
