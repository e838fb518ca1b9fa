//! Asking a running emulator.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::protocol::{self, EmulatorCommand, Refusal};

/// Longer than an emulator on a busy machine takes to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a question is asked again that the emulator hung up on.
const REPEATS: usize = 5;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there.
    #[error("no emulator listens on {}: {source}", .socket.display())]
    Unreachable {
        /// The socket asked.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The emulator refused, and changed nothing.
    #[error("{}{}", .0.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default(), .0.message)]
    Refused(Refusal),
}

/// Sends `command` to the emulator behind `socket` and waits for its answer, a minute at most.
pub fn ask(socket: &Path, command: &EmulatorCommand) -> Result<Value, AskError> {
    let request = protocol::encode_request(command);
    let mut answer = exchange(socket, &request);
    // The emulator gives up on whoever connects and then says nothing for two seconds, as where this process stands still. A command that
    // comes twice does what it does once: a change gives values, and no differences.
    for _ in 0..REPEATS {
        if answer.as_ref().is_err_and(is_hung_up) {
            answer = exchange(socket, &request);
        }
    }
    let line = answer.map_err(|source| AskError::Unreachable { socket: socket.to_owned(), source })?;
    protocol::decode_answer(&line).map_err(AskError::Refused)
}

fn is_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn exchange(socket: &Path, request: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut line = String::new();
    if BufReader::new(stream).read_line(&mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection without an answer"));
    }
    Ok(line)
}
