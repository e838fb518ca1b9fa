//! Moves packets between the two devices, each at the time that its link computes.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use hdrhistogram::Histogram;
use rand_pcg::Pcg64;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use crate::control::protocol::{EmulatorCommand, Refusal, SetCommand, ShownParameters};
use crate::control::server::ControlSocket;
use crate::device::{PacketLayer, TunDevice};
use crate::link::{Link, PacketFate, Volume};
use crate::mishap;
use crate::packet::PacketFacts;
use crate::parameters::PathParameters;

/// Packets moved one way before the other way gets its turn.
const BATCH: usize = 64;
/// Longest packet that a device carries, in bytes: an IP packet behind an Ethernet header.
const MAX_PACKET_BYTES: usize = 65_535 + 14;
const MAX_LATENESS_NS: u64 = 60_000_000_000;

/// What stays as it is while a path lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Decides what is random: the same seed and packets give the same losses.
    pub seed: u64,
    /// Least time between two wake-ups, in nanoseconds: what a busy path may be late by, to cost less.
    pub quantum_ns: u64,
    /// What packets begin with.
    pub layer: PacketLayer,
}

/// Why the emulator had to stop.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error("device {device} has gone: it was deleted while in use")]
    DeviceGone { device: String },
    #[error("cannot {action}: {source}")]
    Failed { action: &'static str, source: io::Error },
}

/// The counters of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionStats {
    /// Parameters in force.
    pub parameters: ShownParameters,
    /// Packets read from the sending side's device.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets written to the receiving side's device.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets for which the buffer had no room; with a fair queue those that made room.
    pub packets_dropped_buffer: u64,
    /// Their bytes.
    pub bytes_dropped_buffer: u64,
    /// Packets that CoDel dropped.
    pub packets_dropped_codel: u64,
    /// Their bytes.
    pub bytes_dropped_codel: u64,
    /// Packets over the rate that all together are held to.
    pub packets_dropped_police: u64,
    /// Their bytes.
    pub bytes_dropped_police: u64,
    /// UDP packets over the rate that UDP is held to.
    pub packets_dropped_police_udp: u64,
    /// Their bytes.
    pub bytes_dropped_police_udp: u64,
    /// TCP acknowledgements of which a newer one said more.
    pub packets_dropped_thinned: u64,
    /// Their bytes.
    pub bytes_dropped_thinned: u64,
    /// Packets lost at random.
    pub packets_dropped_loss: u64,
    /// Their bytes.
    pub bytes_dropped_loss: u64,
    /// Packets that found the slow receiver's queue full.
    pub packets_dropped_receiver: u64,
    /// Their bytes.
    pub bytes_dropped_receiver: u64,
    /// Packets that came later than those sent after them.
    pub packets_reordered: u64,
    /// Packets whose content became another one.
    pub packets_corrupted: u64,
    /// Packets lost because the direction was down.
    pub packets_dropped_down: u64,
    /// Packets dropped because the emulator held too many bytes.
    pub packets_dropped_memory: u64,
    /// Packets that the receiving side's device refused, such as one whose interface is down.
    pub packets_dropped_device: u64,
    /// Packets that the kernel dropped before this process could read them; any means that the emulation is not true.
    pub packets_overrun: Option<u64>,
    /// Packets held, queued, on the delay line or in the slow receiver's queue.
    pub packets_in_flight: u64,
    /// Bytes queued now.
    pub queue_bytes: u64,
    /// Most bytes ever queued.
    pub queue_bytes_peak: u64,
    /// How long the link is busy with them, in milliseconds.
    pub queue_delay_ms: f64,
    /// How late packets were written.
    pub write_lateness_us: Lateness,
}

/// How long after their due time packets were written, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Half of them were no later.
    pub p50: f64,
    /// All but one in a hundred were no later.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

struct Lane {
    link: Link<Box<[u8]>>,
    lateness_ns: Histogram<u64>,
    refused: Volume,
    packets_corrupted: u64,
}

/// The two devices, the two links and the control socket of a running path.
pub struct Engine {
    devices: [TunDevice; 2],
    // Lane 0 leads from device 0 to device 1, lane 1 back.
    lanes: [Lane; 2],
    control: ControlSocket,
    stop: UnixStream,
    settings: Settings,
    started_ns: u64,
    scratch: Box<[u8]>,
}

impl Engine {
    /// Joins the devices; a byte to read from `stop` ends [`Engine::run`].
    pub fn new(
        devices: [TunDevice; 2],
        parameters: PathParameters,
        settings: Settings,
        control: ControlSocket,
        stop: UnixStream,
    ) -> Result<Self, EngineError> {
        let lane = |parameters, stream: u128| -> Result<Lane, EngineError> {
            let lateness_ns = Histogram::new_with_bounds(1, MAX_LATENESS_NS, 2)
                .map_err(|error| EngineError::Failed { action: "make a histogram", source: io::Error::other(error) })?;
            Ok(Lane {
                link: Link::new(parameters, Pcg64::new(u128::from(settings.seed), stream)),
                lateness_ns,
                refused: Volume::default(),
                packets_corrupted: 0,
            })
        };
        Ok(Self {
            lanes: [lane(parameters.ab, 0)?, lane(parameters.ba, 1)?],
            devices,
            control,
            stop,
            settings,
            started_ns: now_ns(),
            scratch: vec![0; MAX_PACKET_BYTES].into_boxed_slice(),
        })
    }

    /// Moves packets until told to stop.
    pub fn run(&mut self) -> Result<(), EngineError> {
        // The kernel may otherwise add 50 µs to every wait, to save wake-ups.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
            .map_err(|errno| EngineError::Failed { action: "set the timer slack", source: errno.into() })?;
        loop {
            let ready = self.wait()?;
            let woken_ns = now_ns();
            if ready.stop {
                return Ok(());
            }
            if ready.question {
                while let Some(question) = self.control.next_question() {
                    let answer = self.answer(&question.command);
                    question.answer(answer);
                }
            }
            for lane in 0..2 {
                self.deliver(lane)?;
                if ready.readable[lane] {
                    self.collect(lane)?;
                }
            }
            // Packets gather meanwhile, and one wake-up serves them all; after a pause there is nothing to wait for.
            pause(self.settings.quantum_ns.saturating_sub(now_ns() - woken_ns))?;
        }
    }

    /// Sleeps until the next packet is due or a descriptor is ready.
    fn wait(&self) -> Result<Ready, EngineError> {
        let mut descriptors = [
            PollFd::new(self.devices[0].tun(), PollFlags::IN),
            PollFd::new(self.devices[1].tun(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.control.wake(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
        ];
        let next_due_ns = self.lanes.iter().filter_map(|lane| lane.link.next_due_ns()).min();
        let timeout = next_due_ns.map(|due_ns| timespec(due_ns.saturating_sub(now_ns())));
        match rustix::event::poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(EngineError::Failed { action: "wait for packets", source: errno.into() }),
        }
        let state = |index: usize| descriptors[index].revents();
        for device in 0..2 {
            if state(device).intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                return Err(self.gone(device));
            }
        }
        Ok(Ready {
            readable: [state(0).contains(PollFlags::IN), state(1).contains(PollFlags::IN)],
            question: !state(2).is_empty(),
            stop: !state(3).is_empty(),
        })
    }

    /// Writes what is due on `lane`.
    fn deliver(&mut self, lane: usize) -> Result<(), EngineError> {
        let to = 1 - lane;
        let header_bytes = self.settings.layer.header_bytes();
        for _ in 0..BATCH {
            let now_ns = now_ns();
            let Lane { link, lateness_ns, refused, packets_corrupted } = &mut self.lanes[lane];
            let Some(mut arrival) = link.pop_due(now_ns) else { return Ok(()) };
            lateness_ns.saturating_record(now_ns - arrival.due_ns);
            if let (Some(draw), Some(packet)) = (arrival.corruption, arrival.payload.get_mut(header_bytes..)) {
                *packets_corrupted += u64::from(mishap::corrupt(packet, draw));
            }
            if let Err(error) = self.devices[to].tun().send(&arrival.payload) {
                if is_gone(&error) {
                    return Err(self.gone(to));
                }
                refused.add(arrival.payload.len().saturating_sub(header_bytes));
            }
        }
        Ok(())
    }

    /// Reads what waits on the sending device of `lane` and offers it to the link.
    fn collect(&mut self, lane: usize) -> Result<(), EngineError> {
        let header_bytes = self.settings.layer.header_bytes();
        for _ in 0..BATCH {
            let size = match self.devices[lane].tun().recv(&mut self.scratch) {
                Ok(size) => size,
                Err(error) if is_gone(&error) => return Err(self.gone(lane)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(())
                }
                Err(source) => return Err(EngineError::Failed { action: "read a packet", source }),
            };
            let packet = &self.scratch[..size];
            let ip_bytes = size.saturating_sub(header_bytes);
            let facts = PacketFacts::of(self.settings.layer, packet);
            let _counted: PacketFate = self.lanes[lane].link.offer(now_ns(), ip_bytes, &facts, packet.into());
        }
        Ok(())
    }

    fn gone(&self, device: usize) -> EngineError {
        EngineError::DeviceGone { device: self.devices[device].endpoint().device.clone() }
    }

    fn answer(&mut self, command: &EmulatorCommand) -> Result<Value, Refusal> {
        match command {
            EmulatorCommand::Stats => Ok(self.stats()),
            EmulatorCommand::Measure => {
                self.lanes.iter_mut().for_each(|lane| lane.lateness_ns.reset());
                Ok(self.stats())
            }
            EmulatorCommand::Set(set) => self.set(set),
        }
    }

    fn set(&mut self, SetCommand { direction, change }: &SetCommand) -> Result<Value, Refusal> {
        let current =
            PathParameters { ab: self.lanes[0].link.parameters().clone(), ba: self.lanes[1].link.parameters().clone() };
        let changed = current.changed(*direction, change.parse("")?)?;
        let shown = json!({"ab": ShownParameters::from(&changed.ab), "ba": ShownParameters::from(&changed.ba)});
        let now_ns = now_ns();
        self.lanes[0].link.set_parameters(now_ns, changed.ab);
        self.lanes[1].link.set_parameters(now_ns, changed.ba);
        Ok(shown)
    }

    fn stats(&mut self) -> Value {
        let now_ns = now_ns();
        json!({
            "uptime_seconds": (now_ns - self.started_ns) as f64 / 1e9,
            "seed": self.settings.seed,
            "quantum_us": self.settings.quantum_ns as f64 / 1e3,
            "a": self.devices[0].endpoint(),
            "b": self.devices[1].endpoint(),
            "ab": self.direction_stats(0, now_ns),
            "ba": self.direction_stats(1, now_ns),
        })
    }

    fn direction_stats(&mut self, lane: usize, now_ns: u64) -> DirectionStats {
        let packets_overrun = self.devices[lane].overruns().ok();
        let Lane { link, lateness_ns, refused, packets_corrupted } = &mut self.lanes[lane];
        let (queue_bytes, queue_delay_ns) = (link.queue_bytes(now_ns), link.queue_delay_ns(now_ns));
        let counters = link.counters();
        DirectionStats {
            parameters: link.parameters().into(),
            packets_in: counters.offered.packets,
            bytes_in: counters.offered.bytes,
            packets_out: counters.delivered.packets - refused.packets,
            bytes_out: counters.delivered.bytes - refused.bytes,
            packets_dropped_buffer: counters.dropped_by_buffer.packets,
            bytes_dropped_buffer: counters.dropped_by_buffer.bytes,
            packets_dropped_codel: counters.dropped_by_codel.packets,
            bytes_dropped_codel: counters.dropped_by_codel.bytes,
            packets_dropped_police: counters.dropped_by_police.packets,
            bytes_dropped_police: counters.dropped_by_police.bytes,
            packets_dropped_police_udp: counters.dropped_by_police_udp.packets,
            bytes_dropped_police_udp: counters.dropped_by_police_udp.bytes,
            packets_dropped_thinned: counters.dropped_by_thinning.packets,
            bytes_dropped_thinned: counters.dropped_by_thinning.bytes,
            packets_dropped_loss: counters.dropped_by_loss.packets,
            bytes_dropped_loss: counters.dropped_by_loss.bytes,
            packets_dropped_receiver: counters.dropped_by_receiver.packets,
            bytes_dropped_receiver: counters.dropped_by_receiver.bytes,
            packets_reordered: counters.reordered.packets,
            packets_corrupted: *packets_corrupted,
            packets_dropped_down: counters.dropped_by_down.packets,
            packets_dropped_memory: counters.dropped_by_memory.packets,
            packets_dropped_device: refused.packets,
            packets_overrun,
            packets_in_flight: link.held_packets() as u64,
            queue_bytes,
            queue_bytes_peak: link.queue_peak_bytes(),
            queue_delay_ms: queue_delay_ns as f64 / 1e6,
            write_lateness_us: Lateness {
                p50: lateness_ns.value_at_quantile(0.5) as f64 / 1e3,
                p99: lateness_ns.value_at_quantile(0.99) as f64 / 1e3,
                max: lateness_ns.max() as f64 / 1e3,
            },
        }
    }
}

struct Ready {
    readable: [bool; 2],
    question: bool,
    stop: bool,
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::BADFD | Errno::BADF))
}

fn pause(ns: u64) -> Result<(), EngineError> {
    if ns == 0 {
        return Ok(());
    }
    match rustix::event::poll(&mut [], Some(&timespec(ns))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(EngineError::Failed { action: "pause", source: errno.into() }),
    }
}

/// Nanoseconds since boot, never running back.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
