//! The listening side: a thread reads requests and hands them to the engine, which alone touches the path.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::EventfdFlags;
use serde_json::Value;

use super::protocol::{self, EmulatorCommand, Refusal, MAX_REQUEST_BYTES};

/// How long a client may take to send its request or to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ControlError {
    #[error("another emulator listens on {}: stop it or choose another --control", .0.display())]
    InUse(PathBuf),
    #[error("{} exists and is not a socket: choose another --control", .0.display())]
    NotASocket(PathBuf),
    #[error("cannot listen on {}: {source}", .socket.display())]
    Failed { socket: PathBuf, source: io::Error },
}

/// A request that waits for the engine.
pub struct Question {
    /// What is asked.
    pub command: EmulatorCommand,
    reply: SyncSender<Result<Value, Refusal>>,
}

impl Question {
    /// Answers it; the client may have gone, which is no fault of ours.
    pub fn answer(self, answer: Result<Value, Refusal>) {
        let _gone = self.reply.send(answer);
    }
}

/// The control socket; its file goes away with it.
pub struct ControlSocket {
    path: PathBuf,
    wake: Arc<OwnedFd>,
    questions: Receiver<Question>,
}

impl ControlSocket {
    /// Listens at `path`, taking the place of a socket that nobody listens on any more.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Failed { socket: path.to_owned(), source };
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let wake = Arc::new(wake);
        let (sender, questions) = mpsc::channel();
        let serving = Arc::clone(&wake);
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || serve(&listener, &sender, &serving))
            .map_err(failed)?;
        Ok(Self { path: path.to_owned(), wake, questions })
    }

    /// Readable when a question waits.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The next question that waits, if one does.
    pub fn next_question(&self) -> Option<Question> {
        if let Ok(question) = self.questions.try_recv() {
            return Some(question);
        }
        // Cleared before the last look, so that a question arriving in between is seen or wakes again.
        let _already_clear = rustix::io::read(&self.wake, &mut [0u8; 8]);
        self.questions.try_recv().ok()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _already_gone = fs::remove_file(&self.path);
    }
}

fn remove_stale(path: &Path) -> Result<(), ControlError> {
    let failed = |source| ControlError::Failed { socket: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(ControlError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed),
        Err(error) => Err(failed(error)),
        Ok(_) => Err(ControlError::InUse(path.to_owned())),
    }
}

fn serve(listener: &UnixListener, questions: &Sender<Question>, wake: &OwnedFd) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                // A client that breaks off harms only itself.
                let _broken_off = converse(stream, questions, wake);
            }
            // Out of descriptors or memory: accepting again at once would only spin.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn converse(stream: UnixStream, questions: &Sender<Question>, wake: &OwnedFd) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writing = stream.try_clone()?;
    let mut reading = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reading.by_ref().take(MAX_REQUEST_BYTES).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let answer = match protocol::decode_request(&line) {
            Ok(command) => {
                let (reply, answer) = mpsc::sync_channel(1);
                questions.send(Question { command, reply }).map_err(io::Error::other)?;
                rustix::io::write(wake, &1u64.to_ne_bytes())?;
                answer.recv().map_err(io::Error::other)?
            }
            Err(refusal) => Err(refusal),
        };
        writing.write_all(protocol::encode_answer(&answer).as_bytes())?;
    }
}
