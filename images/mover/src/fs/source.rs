//! The source tree: listed once, read beneath its root, watched for change.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use fairlead_protocol::digest::{self, Digest};
use fairlead_protocol::fault::show;
use fairlead_protocol::index::FileIndex;
use fairlead_protocol::listing::{Entry, Kind, Version, MODE_MASK};
use fairlead_protocol::name::check_path;
use fairlead_protocol::schedule::BlockRef;
use fairlead_protocol::{Fault, Reason};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{Access, AtFlags, FileType, SeekFrom};
use rustix::io::Errno;

use super::names::Names;
use super::root::{hash_file, Root};
use super::trouble;
use super::volume_path::{OpenError, VolumePath};

/// Which names of the source take part.
pub(crate) struct Filter {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl Filter {
    /// Patterns without a slash match at any depth; others are relative to the root. A matched directory stands for its content.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Self, globset::Error> {
        let set = |patterns: &[String]| {
            let mut builder = GlobSetBuilder::new();
            for pattern in patterns {
                let anchored = match pattern.strip_prefix('/') {
                    Some(rest) => rest.to_owned(),
                    None if pattern.contains('/') => pattern.clone(),
                    None => format!("**/{pattern}"),
                };
                builder.add(GlobBuilder::new(anchored.trim_end_matches('/')).literal_separator(true).build()?);
            }
            builder.build()
        };
        let include = if include.is_empty() { None } else { Some(set(include)?) };
        Ok(Self { include, exclude: set(exclude)? })
    }

    fn excludes(&self, path: &[u8]) -> bool {
        self.exclude.is_match(Path::new(std::ffi::OsStr::from_bytes(path)))
    }

    fn includes(&self, path: &[u8]) -> bool {
        self.include.as_ref().is_none_or(|set| set.is_match(Path::new(std::ffi::OsStr::from_bytes(path))))
    }
}

/// The source directory.
pub(crate) struct SourceTree {
    root: Root,
    filter: Filter,
}

/// A directory on the way from the root to where the walk is.
struct Level {
    path: Vec<u8>,
    names: Names,
    next: usize,
    included: bool,
    /// Open only while its own names are visited, so that no depth runs out of descriptors.
    open: Option<OwnedFd>,
}

/// What a walk met beside the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Files with more than one name. Each name is an entry of its own.
    pub(crate) hard_linked: u64,
    /// Modification time of the root: whole seconds since 1970, nanoseconds of the second.
    pub(crate) root_mtime: Option<(i64, u32)>,
}

impl SourceTree {
    /// Opens the directory and makes sure that it holds something.
    pub(crate) fn open(path: &VolumePath, filter: Filter) -> Result<Self, Fault> {
        let shown = path.shown();
        let root = path.open().map_err(|error| match error {
            OpenError::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => Fault::new(
                    Reason::SourceMissing,
                    format!("the source {shown} does not exist; check the volume and the path"),
                ),
                io::ErrorKind::NotADirectory => Fault::new(
                    Reason::SourceNotDirectory,
                    format!("the source {shown} is not a directory; name a directory"),
                ),
                _ => unreadable(&format!("the source {shown}"), &error),
            },
            refused => Fault::new(Reason::SourceUnreadable, format!("the source {shown}: {refused}")),
        })?;
        let source = Self { root, filter };
        if !source.holds_something()? {
            return Err(empty(&shown.to_string()));
        }
        Ok(source)
    }

    /// Whether something in the root takes part. What cannot be transferred there is found now, before anybody is connected to.
    fn holds_something(&self) -> Result<bool, Fault> {
        let open = self.open_directory(b"")?;
        let names = Names::read(&open, || {}).map_err(|error| listing_fault(b"", &error.into()))?;
        let mut any = false;
        for name in (0..).map_while(|place| names.get(place)).filter(|name| !self.filter.excludes(name)) {
            check_path(name).map_err(|error| error.fault(name))?;
            self.entry(&open, name, name.to_vec())?;
            any = true;
        }
        Ok(any)
    }

    /// Walks the tree in listing order and hands every entry that takes part to `emit`. `work` is called for every name, also of those
    /// that take no part.
    pub(crate) fn walk(
        &self,
        work: &dyn Fn(),
        mut emit: impl FnMut(Entry) -> Result<(), Fault>,
    ) -> Result<Walked, Fault> {
        let root = rustix::fs::fstat(&self.root).map_err(|error| listing_fault(b"", &error.into()))?;
        let root_mtime = Some((root.st_mtime, root.st_mtime_nsec as u32));
        let mut walked = Walked { root_mtime, ..Walked::default() };
        let mut stack = vec![self.level(Vec::new(), self.filter.include.is_none(), work)?];
        // Directories are listed only once something in them takes part; without includes that is at once.
        let mut pending: Vec<Entry> = Vec::new();
        while let Some(top) = stack.last_mut() {
            let Some(name) = top.names.get(top.next) else {
                stack.pop();
                continue;
            };
            top.next += 1;
            work();
            let path = if top.path.is_empty() { name.to_vec() } else { [&top.path, &b"/"[..], name].concat() };
            if self.filter.excludes(&path) {
                continue;
            }
            check_path(&path).map_err(|error| error.fault(&path))?;
            if top.open.is_none() {
                top.open = Some(self.open_directory(&top.path)?);
            }
            let Some(open) = &top.open else { continue };
            let included = top.included || self.filter.includes(&path);
            let (entry, links) = self.entry(open, name, path)?;
            let depth = stack.len() - 1;
            pending.retain(|directory| directory.path.iter().filter(|b| **b == b'/').count() < depth);
            if entry.kind == Kind::Directory {
                let level = self.level(entry.path.clone(), included, work)?;
                stack.iter_mut().for_each(|level| level.open = None);
                stack.push(level);
                pending.push(entry);
                if !included {
                    continue;
                }
            } else if included {
                self.check_readable(&entry)?;
                walked.hard_linked += u64::from(entry.kind == Kind::File && links > 1);
                pending.push(entry);
            } else {
                continue;
            }
            pending.drain(..).try_for_each(&mut emit)?;
        }
        Ok(walked)
    }

    fn level(&self, path: Vec<u8>, included: bool, work: &dyn Fn()) -> Result<Level, Fault> {
        let open = self.open_directory(&path)?;
        let names = Names::read(&open, work).map_err(|error| listing_fault(&path, &error.into()))?;
        Ok(Level { path, names, next: 0, included, open: Some(open) })
    }

    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Fault> {
        self.root.open_readable_directory(path).map_err(|error| listing_fault(path, &error))
    }

    fn entry(&self, directory: impl std::os::fd::AsFd, name: &[u8], path: Vec<u8>) -> Result<(Entry, u64), Fault> {
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| listing_fault(&path, &error.into()))?;
        let mut target = Vec::new();
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => {
                target = rustix::fs::readlinkat(directory, name, Vec::new())
                    .map_err(|error| unreadable(&show(&path), &error.into()))?
                    .into_bytes();
                Kind::Symlink
            }
            other => {
                let text = format!("{} is a {}, which cannot be transferred; exclude it", show(&path), special(other));
                return Err(Fault::new(Reason::NameNotAllowed, text));
            }
        };
        let size = if kind == Kind::File { stat.st_size as u64 } else { 0 };
        let (mtime_s, mtime_ns) = (stat.st_mtime, stat.st_mtime_nsec as u32);
        let (ctime_s, ctime_ns) = (stat.st_ctime, stat.st_ctime_nsec as u32);
        let version = match kind {
            Kind::File => Version { ctime_s, ctime_ns, inode: stat.st_ino },
            Kind::Directory | Kind::Symlink => Version::default(),
        };
        let hole_bytes = size.saturating_sub(stat.st_blocks as u64 * 512);
        let mode = stat.st_mode & MODE_MASK;
        let entry = Entry { path, kind, mode, mtime_s, mtime_ns, size, target, version, hole_bytes };
        Ok((entry, stat.st_nlink as u64))
    }

    fn check_readable(&self, entry: &Entry) -> Result<(), Fault> {
        if entry.kind != Kind::File {
            return Ok(());
        }
        rustix::fs::accessat(&self.root, &*entry.path, Access::READ_OK, AtFlags::EACCESS)
            .map_err(|error| unreadable(&show(&entry.path), &error.into()))
    }

    fn open_file(&self, entry: &Entry) -> Result<File, Fault> {
        let file = self.root.open_file(&entry.path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => unreadable(&show(&entry.path), &error),
            _ if trouble::may_pass(&error) => unreadable(&show(&entry.path), &error),
            _ => changed(&entry.path, &format!("it cannot be opened any more ({error})")),
        })?;
        // A fifo, a device or a directory can be opened too, and would fail in a way that does not name the cause.
        let is_file = file.metadata().map_err(|error| unreadable(&show(&entry.path), &error))?.is_file();
        if is_file {
            Ok(file)
        } else {
            Err(changed(&entry.path, "it is no regular file any more"))
        }
    }

    fn check_unchanged(&self, file: &File, entry: &Entry) -> Result<(), Fault> {
        let now = file.metadata().map_err(|error| unreadable(&show(&entry.path), &error))?;
        let version = Version { ctime_s: now.ctime(), ctime_ns: now.ctime_nsec() as u32, inode: now.ino() };
        let same = version == entry.version
            && now.len() == entry.size
            && now.mtime() == entry.mtime_s
            && now.mtime_nsec() == i64::from(entry.mtime_ns);
        if same {
            Ok(())
        } else {
            Err(changed(&entry.path, "its size, time of modification or of change is not what was listed"))
        }
    }

    /// Digest of a whole file, to compare it with the destination's.
    pub(crate) fn hash(&self, entry: &Entry, buffer: &mut Vec<u8>, work: impl Fn(u64)) -> Result<Digest, Fault> {
        let file = self.open_file(entry)?;
        let digest =
            hash_file(&file, entry.size, buffer, work).map_err(|error| unreadable(&show(&entry.path), &error))?;
        self.check_unchanged(&file, entry)?;
        digest.ok_or_else(|| changed(&entry.path, "it became shorter while it was read"))
    }
}

/// Reads blocks for one stream and keeps the last file open.
#[derive(Default)]
pub(crate) struct BlockReader {
    open: Option<(FileIndex, File)>,
}

impl BlockReader {
    /// Digest of a block that is a hole of its file, so that nothing of it has to be read or sent.
    pub(crate) fn hole(
        &mut self,
        source: &SourceTree,
        entry: &Entry,
        block: &BlockRef,
    ) -> Result<Option<Digest>, Fault> {
        if entry.hole_bytes == 0 {
            return Ok(None);
        }
        let start = block.block.offset();
        let file = self.file(source, entry, block.file)?;
        let is_hole = match rustix::fs::seek(file, SeekFrom::Data(start)) {
            Ok(data) => data >= start + u64::from(block.length),
            Err(Errno::NXIO) => true,
            // A file system that does not know its holes.
            Err(_) => false,
        };
        source.check_unchanged(file, entry)?;
        Ok(is_hole.then(|| digest::of_zeros(block.length)))
    }

    fn file(&mut self, source: &SourceTree, entry: &Entry, index: FileIndex) -> Result<&File, Fault> {
        match &self.open {
            Some((open, _)) if *open == index => {}
            _ => self.open = Some((index, source.open_file(entry)?)),
        }
        let open = self.open.as_ref().map(|(_, file)| file);
        open.ok_or_else(|| Fault::new(Reason::InternalError, "a file that was opened is not open"))
    }

    /// Fills `bytes` with a block and returns its digest, taken while the bytes are in the cache.
    pub(crate) fn read(
        &mut self,
        source: &SourceTree,
        entry: &Entry,
        block: &BlockRef,
        bytes: &mut [u8],
    ) -> Result<Digest, Fault> {
        let file = self.file(source, entry, block.file)?;
        file.read_exact_at(bytes, block.block.offset()).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(&entry.path, "it became shorter while it was read"),
            _ => unreadable(&show(&entry.path), &error),
        })?;
        let digest = digest::of_block(bytes);
        source.check_unchanged(file, entry)?;
        Ok(digest)
    }
}

/// The fault for an error while the source is listed; the empty path is the source itself.
fn listing_fault(path: &[u8], error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => changed(path, "it vanished while the source was listed"),
        _ if path.is_empty() => unreadable("the source directory", error),
        _ => unreadable(&show(path), error),
    }
}

/// Nothing takes part in the transfer.
pub(crate) fn empty(what: &str) -> Fault {
    let text = format!(
        "the source {what} holds no file, directory or symbolic link to transfer; check the path and the patterns"
    );
    Fault::new(Reason::SourceEmpty, text)
}

fn changed(path: &[u8], how: &str) -> Fault {
    let text = format!("{} changed during the transfer: {how}; send it again when nobody writes to it", show(path));
    Fault::new(Reason::SourceChanged, text)
}

fn unreadable(what: &str, error: &io::Error) -> Fault {
    if trouble::may_pass(error) {
        let text = format!("{what} cannot be read: {error}; {}", trouble::REMEDY);
        return Fault { retry: true, ..Fault::new(Reason::SourceUnreadable, text) };
    }
    let uid = rustix::process::geteuid().as_raw();
    let text = format!("{what} cannot be read by user {uid}: {error}; grant read access or exclude it");
    Fault::new(Reason::SourceUnreadable, text)
}

fn special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "file of an unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlead_protocol::listing::ListingBuilder;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/deep")).unwrap();
        std::fs::create_dir(root.path().join("a-empty")).unwrap();
        std::fs::write(root.path().join("a/deep/x.txt"), "x").unwrap();
        std::fs::write(root.path().join("a/y.log"), "y").unwrap();
        std::fs::write(root.path().join("z.txt"), "z").unwrap();
        symlink("/etc", root.path().join("link")).unwrap();
        root
    }

    fn list(root: &Path, include: &[&str], exclude: &[&str]) -> Result<Vec<String>, Fault> {
        let owned = |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        let filter = Filter::new(&owned(include), &owned(exclude)).unwrap();
        let mut builder = ListingBuilder::default();
        SourceTree::open(&VolumePath::new(root, None).unwrap(), filter)?.walk(&|| {}, |entry| builder.push(&entry))?;
        Ok(builder.finish().iter().map(|(_, e)| String::from_utf8(e.path).unwrap()).collect())
    }

    #[test]
    fn the_walk_keeps_listing_order_and_does_not_enter_links() {
        let root = tree();
        let all = ["a", "a/deep", "a/deep/x.txt", "a/y.log", "a-empty", "link", "z.txt"];
        assert_eq!(list(root.path(), &[], &[]).unwrap(), all);
    }

    #[test]
    fn a_walk_counts_names_that_take_no_part() {
        let root = tree();
        let source = SourceTree::open(
            &VolumePath::new(root.path(), None).unwrap(),
            Filter::new(&["none".to_owned()], &[]).unwrap(),
        );
        let work = std::cell::Cell::new(0);
        source.unwrap().walk(&|| work.set(work.get() + 1), |entry| panic!("{entry:?}")).unwrap();
        assert!(work.get() >= 7, "{}", work.get());
    }

    #[test]
    fn patterns_choose_what_takes_part() {
        let root = tree();
        let cases: [(&[&str], &[&str], &[&str]); 5] = [
            (&["*.txt"], &[], &["a", "a/deep", "a/deep/x.txt", "z.txt"]),
            (&[], &["a"], &["a-empty", "link", "z.txt"]),
            (&[], &["*.txt", "link"], &["a", "a/deep", "a/y.log", "a-empty"]),
            (&["a/deep"], &[], &["a", "a/deep", "a/deep/x.txt"]),
            (&["/z.*"], &[], &["z.txt"]),
        ];
        for (include, exclude, expected) in cases {
            assert_eq!(list(root.path(), include, exclude).unwrap(), expected, "{include:?} {exclude:?}");
        }
    }

    #[test]
    fn unusable_sources_have_their_reasons() {
        let root = tempfile::tempdir().unwrap();
        let reason = |path: &Path| list(path, &[], &[]).unwrap_err().reason;
        assert_eq!(reason(&root.path().join("none")), Reason::SourceMissing);
        assert_eq!(reason(root.path()), Reason::SourceEmpty);
        std::fs::write(root.path().join("file"), "").unwrap();
        assert_eq!(reason(&root.path().join("file")), Reason::SourceNotDirectory);
        std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
        let fault = list(root.path(), &[], &[]).unwrap_err();
        assert_eq!(fault.reason, Reason::NameNotAllowed);
        assert!(fault.message.contains("socket"));
    }

    #[test]
    fn a_source_whose_server_or_disk_fails_is_worth_another_attempt_and_one_without_rights_is_not() {
        for (error, passes) in [(Errno::STALE, true), (Errno::IO, true), (Errno::MFILE, true), (Errno::ACCESS, false)] {
            let fault = unreadable("\"a\"", &error.into());
            assert_eq!((fault.reason, fault.retry), (Reason::SourceUnreadable, passes), "{fault}");
            assert_eq!(fault.message.contains("grant read access"), !passes, "{fault}");
        }
    }

    #[test]
    fn a_file_that_changes_after_the_listing_is_named() {
        let root = tree();
        let source =
            SourceTree::open(&VolumePath::new(root.path(), None).unwrap(), Filter::new(&[], &[]).unwrap()).unwrap();
        let mut entries = Vec::new();
        source
            .walk(&|| {}, |entry| {
                entries.push(entry);
                Ok(())
            })
            .unwrap();
        let path = root.path().join("z.txt");
        std::fs::write(&path, "longer").unwrap();
        let index = entries.iter().position(|entry| entry.path == b"z.txt").unwrap();
        let block =
            BlockRef { file: FileIndex(index as u32), block: fairlead_protocol::index::BlockIndex(0), length: 1 };
        let fault = || BlockReader::default().read(&source, &entries[index], &block, &mut [0]).unwrap_err();
        assert_eq!(fault().reason, Reason::SourceChanged);
        assert!(fault().message.contains("z.txt"));

        std::fs::remove_file(&path).unwrap();
        std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(fault().reason, Reason::SourceChanged);

        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert_eq!(fault().reason, Reason::SourceChanged);
        assert!(fault().message.contains("no regular file"), "{}", fault().message);

        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(fault().reason, Reason::SourceChanged);
    }
}
