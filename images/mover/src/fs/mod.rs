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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod samples {
    //! Listings for tests.

    use fairlead_protocol::listing::{Entry, Kind, Listing, ListingBuilder, Version};

    pub(crate) fn entry(path: &str, kind: Kind, size: u64) -> Entry {
        Entry {
            path: path.into(),
            kind,
            mode: 0o644,
            mtime_s: 0,
            mtime_ns: 0,
            size,
            target: Vec::new(),
            version: Version::default(),
            hole_bytes: 0,
        }
    }

    pub(crate) fn listing(entries: &[Entry]) -> Listing {
        let mut builder = ListingBuilder::default();
        entries.iter().for_each(|entry| builder.push(entry).unwrap());
        builder.finish()
    }

    /// Directories, and files of that size.
    pub(crate) fn listing_of(names: &[(&str, Kind)], size: u64) -> Listing {
        let size_of = |kind| if kind == Kind::File { size } else { 0 };
        listing(&names.iter().map(|(path, kind)| entry(path, *kind, size_of(*kind))).collect::<Vec<_>>())
    }
}
