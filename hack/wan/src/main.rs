//! The command `fairlead-wan`.

#![forbid(unsafe_code)]

mod cli;

use std::error::Error;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Parser;
use fairlead_wan::control::client;
use fairlead_wan::control::protocol::{EmulatorCommand, SetCommand};
use fairlead_wan::control::server::ControlSocket;
use fairlead_wan::device::TunDevice;
use fairlead_wan::engine::Engine;
use fairlead_wan::parameters::WrittenChange;
use fairlead_wan::quantity::FieldError;

use cli::{Action, EmulatorCli, RunArguments, Set};

const FAILED: u8 = 1;
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let done = match EmulatorCli::parse().action {
        Action::Run(run) => join(&run),
        Action::Stats { control } => {
            client::ask(&control, &EmulatorCommand::Stats).map_err(Into::into).and_then(|stats| print(&stats))
        }
        Action::Set(set) => change(&set),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairlead-wan: {error}");
            ExitCode::from(if error.is::<FieldError>() { BAD_USAGE } else { FAILED })
        }
    }
}

fn join(run: &RunArguments) -> Result<(), Box<dyn Error>> {
    let (parameters, settings) = (run.parameters()?, run.settings()?);
    if run.a == run.b {
        return Err(FieldError::new("b", "is the same device as --a").into());
    }
    let (stop, signalled) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    let control = ControlSocket::open(&run.control)?;
    let layer = settings.layer;
    let devices = [TunDevice::attach(&run.a, layer)?, TunDevice::attach(&run.b, layer)?];
    let mut engine = Engine::new(devices, parameters, settings, control, stop)?;
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    output.flush()?;
    engine.run()?;
    Ok(())
}

fn change(set: &Set) -> Result<(), Box<dyn Error>> {
    let (direction, change) = set.change();
    if change == WrittenChange::default() {
        let message = "nothing to change: give --rate, --delay, --buffer, --queue, --police, --police-udp, --thin-acks, --loss, --reorder, --corrupt, --receiver or --down";
        return Err(FieldError::new("set", message).into());
    }
    print(&client::ask(&set.control, &EmulatorCommand::Set(Box::new(SetCommand { direction, change })))?)
}

fn print(value: &serde_json::Value) -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "{value:#}")?;
    Ok(())
}
