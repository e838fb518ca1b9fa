//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairlead_wan::device::{Endpoint, PacketLayer};
use fairlead_wan::engine::Settings;
use fairlead_wan::parameters::{Direction, PathParameters, WrittenChange};
use fairlead_wan::quantity::{self, FieldError};

const MAX_QUANTUM_NS: u64 = 10_000_000;

/// A wide-area link between two network namespaces: rate, delay, a queue, policing, random loss, reordering, a slow receiver.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct EmulatorCli {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Join two TUN devices (with --ethernet: TAP devices) until SIGTERM or SIGINT; prints `ready` once packets flow.
    Run(Box<RunArguments>),
    /// Print the counters and parameters of a running link as JSON.
    Stats {
        /// The control socket of the running link.
        #[arg(long)]
        control: PathBuf,
    },
    /// Change a running link; prints the parameters then in force as JSON.
    Set(Box<Set>),
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// One end, NETNS:DEVICE; NETNS is a name under /run/netns or a path.
    #[arg(long, value_name = "NETNS:DEVICE")]
    pub(crate) a: Endpoint,
    /// The other end.
    #[arg(long, value_name = "NETNS:DEVICE")]
    pub(crate) b: Endpoint,
    /// Where the control socket is made.
    #[arg(long)]
    pub(crate) control: PathBuf,
    /// Decides what is random: the same seed and packets give the same losses.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Least time between two wake-ups, up to 10ms: packets may be that late, and a fast path costs half; 0 is exact.
    #[arg(long, default_value = "50us")]
    quantum: String,
    /// Carry Ethernet frames between TAP devices, so that ARP, bridges and macvlan work over them.
    #[arg(long)]
    ethernet: bool,
    #[command(flatten)]
    both: Quantities,
    #[command(flatten)]
    ab: FromAToB,
    #[command(flatten)]
    ba: FromBToA,
}

#[derive(Debug, Args)]
struct Quantities {
    /// Rate of each direction in bits per second, such as 200M; `unlimited` (the default) never queues.
    #[arg(long)]
    rate: Option<String>,
    /// One-way delay, such as 30ms [default: 0].
    #[arg(long)]
    delay: Option<String>,
    /// Buffer in bytes, such as 3MB or 1.0BDP [default: 1BDP, at least 64KiB].
    #[arg(long)]
    buffer: Option<String>,
    /// drop-tail, drop-tail-packets, codel[:target=5ms,interval=100ms] or fq-codel[:…,flows=1024,quantum=1500] [default: drop-tail].
    #[arg(long, value_name = "KIND")]
    queue: Option<String>,
    /// Drop what comes faster, such as 50M or 50M,64kB [default: unlimited; a burst of 10 ms, at least 15kB].
    #[arg(long, value_name = "RATE[,BURST]")]
    police: Option<String>,
    /// Drop UDP that comes faster, as --police does for everything.
    #[arg(long, value_name = "RATE[,BURST]")]
    police_udp: Option<String>,
    /// Of bare TCP acknowledgements of a flow let each N-th pass, holding none for longer [default: 1, which drops none; 5ms].
    #[arg(long, value_name = "N[,HOLD]")]
    thin_acks: Option<String>,
    /// Share of packets lost at random, 0 to 1 [default: 0].
    #[arg(long)]
    loss: Option<String>,
    /// Share of packets that come EXTRA later than the others, such as 0.01,5ms [default: 0].
    #[arg(long, value_name = "SHARE,EXTRA")]
    reorder: Option<String>,
    /// Share of packets that come with other content, which no checksum of TCP, UDP or IP shows [default: 0].
    #[arg(long)]
    corrupt: Option<String>,
    /// Work of the receiving host for each packet, and packets that may wait for it [default: 0, which takes them as they come; 1000].
    #[arg(long, value_name = "COST[,PACKETS]")]
    receiver: Option<String>,
}

/// The options of [`Quantities`] for one direction.
macro_rules! one_way {
    ($name:ident, $suffix:literal, $way:literal, [$($field:ident = $option:literal),+]) => {
        #[derive(Debug, Args)]
        struct $name {
            $(
                #[arg(
                    id = concat!($option, $suffix),
                    long = concat!($option, $suffix),
                    value_name = "VALUE",
                    help = concat!("`--", $option, "` ", $way),
                )]
                $field: Option<String>,
            )+
        }

        impl $name {
            fn change(&self) -> WrittenChange {
                WrittenChange { $($field: self.$field.clone(),)+ ..WrittenChange::default() }
            }
        }
    };
    ($name:ident, $suffix:literal, $way:literal) => {
        one_way!($name, $suffix, $way, [
            rate = "rate", delay = "delay", buffer = "buffer", queue = "queue", police = "police",
            police_udp = "police-udp", thin_acks = "thin-acks", loss = "loss", reorder = "reorder", corrupt = "corrupt",
            receiver = "receiver"
        ]);
    };
}

one_way!(FromAToB, "-ab", "from A to B");
one_way!(FromBToA, "-ba", "from B to A");

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The control socket of the running link.
    #[arg(long)]
    pub(crate) control: PathBuf,
    /// Which way the change applies.
    #[arg(long, value_enum, default_value_t = Way::Both)]
    direction: Way,
    #[command(flatten)]
    quantities: Quantities,
    /// `true` cuts the link, `false` restores it.
    #[arg(long)]
    down: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Way {
    Ab,
    Ba,
    Both,
}

impl RunArguments {
    /// What stays as it is while the path lives.
    pub(crate) fn settings(&self) -> Result<Settings, FieldError> {
        let quantum_ns = quantity::parse_delay_ns("quantum", &self.quantum)?;
        if quantum_ns > MAX_QUANTUM_NS {
            return Err(FieldError::new("quantum", format!("{:?} is over 10ms", self.quantum)));
        }
        let layer = if self.ethernet { PacketLayer::Ethernet } else { PacketLayer::Ip };
        Ok(Settings { seed: self.seed, quantum_ns, layer })
    }

    /// The parameters that the options ask for.
    pub(crate) fn parameters(&self) -> Result<PathParameters, FieldError> {
        let both = self.both.change(None).parse("")?;
        let ab = self.ab.change().parse("-ab")?;
        let ba = self.ba.change().parse("-ba")?;
        PathParameters::initial(both.overridden_by(ab), both.overridden_by(ba))
    }
}

impl Set {
    /// The change asked for, as written: the running link judges it.
    pub(crate) fn change(&self) -> (Direction, WrittenChange) {
        let direction = match self.direction {
            Way::Ab => Direction::Ab,
            Way::Ba => Direction::Ba,
            Way::Both => Direction::Both,
        };
        (direction, self.quantities.change(self.down.clone()))
    }
}

impl Quantities {
    fn change(&self, down: Option<String>) -> WrittenChange {
        WrittenChange {
            rate: self.rate.clone(),
            delay: self.delay.clone(),
            buffer: self.buffer.clone(),
            queue: self.queue.clone(),
            police: self.police.clone(),
            police_udp: self.police_udp.clone(),
            thin_acks: self.thin_acks.clone(),
            loss: self.loss.clone(),
            reorder: self.reorder.clone(),
            corrupt: self.corrupt.clone(),
            receiver: self.receiver.clone(),
            down,
        }
    }
}
