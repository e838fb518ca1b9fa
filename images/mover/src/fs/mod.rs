//! Files: the source tree, the destination tree, the partial files between them. Everything is opened beneath one directory.

pub(crate) mod metadata;
pub(crate) mod origin;
pub(crate) mod partial;
pub(crate) mod publish;
pub(crate) mod readback;
pub(crate) mod root;
pub(crate) mod source;
pub(crate) mod survey;
