//! TUN and TAP devices in network namespaces.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;
use serde::Serialize;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

const CLONE_DEVICE: &str = "/dev/net/tun";
const NAMESPACES: &str = "/run/netns";
/// Longest name of an interface, in bytes.
const MAX_NAME_BYTES: usize = 15;

/// One end of the path, written `NETNS:DEVICE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    /// The namespace's file: `/run/netns/NETNS`, or the path given.
    pub namespace: PathBuf,
    /// The device's name in it.
    pub device: String,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, device) = text
            .rsplit_once(':')
            .filter(|(namespace, device)| !namespace.is_empty() && !device.is_empty())
            .ok_or_else(|| format!("{text:?} is not NETNS:DEVICE, such as left:wan0"))?;
        if device.len() > MAX_NAME_BYTES || device.contains(|c: char| c == '/' || c.is_whitespace()) {
            return Err(format!(
                "{device:?} cannot be an interface's name: 1 to {MAX_NAME_BYTES} bytes without / or spaces"
            ));
        }
        let namespace =
            if namespace.contains('/') { PathBuf::from(namespace) } else { Path::new(NAMESPACES).join(namespace) };
        Ok(Self { namespace, device: device.to_owned() })
    }
}

/// Why a device cannot be used; each names the end and the remedy, and none goes away by itself but [`DeviceError::Busy`].
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DeviceError {
    #[error("{0} is missing: the kernel has no TUN support, or the container was not given the device")]
    NoTunSupport(&'static str),
    #[error("no network namespace at {}: create it with `ip netns add`", .0.display())]
    NoNamespace(PathBuf),
    #[error("{} is not a network namespace", .0.display())]
    NotANamespace(PathBuf),
    #[error("not permitted to {action}: run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN)")]
    NotPermitted { action: String },
    #[error("device {} in {} is busy: another process is attached to it", .0.device, .0.namespace.display())]
    Busy(Endpoint),
    #[error("device {} in {} exists and is not a {kind} device of one queue (`ip tuntap add NAME mode {kind}`)", .endpoint.device, .endpoint.namespace.display())]
    WrongKind { endpoint: Endpoint, kind: PacketLayer },
    #[error("cannot {action}: {source}")]
    Failed { action: String, source: io::Error },
}

/// What a packet begins with, which decides the kind of both devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketLayer {
    /// An IP header: TUN devices.
    Ip,
    /// An Ethernet header: TAP devices, so that ARP and any number of MAC addresses pass.
    Ethernet,
}

impl PacketLayer {
    /// Bytes before the IP header, which the rate and the buffer do not count.
    pub fn header_bytes(self) -> usize {
        match self {
            Self::Ip => 0,
            Self::Ethernet => 14,
        }
    }
}

impl fmt::Display for PacketLayer {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        output.write_str(match self {
            Self::Ip => "tun",
            Self::Ethernet => "tap",
        })
    }
}

/// A TUN or TAP device that this process is attached to; it never blocks.
pub struct TunDevice {
    tun: SyncDevice,
    endpoint: Endpoint,
    interface_table: File,
    drops_before: u64,
}

impl TunDevice {
    /// Attaches to the device, creating one that lasts as long as this process if there is none.
    pub fn attach(endpoint: &Endpoint, layer: PacketLayer) -> Result<Self, DeviceError> {
        if !Path::new(CLONE_DEVICE).exists() {
            return Err(DeviceError::NoTunSupport(CLONE_DEVICE));
        }
        // A thread of its own enters the namespace and ends there; no other thread ever leaves home.
        let attached = std::thread::scope(|scope| scope.spawn(|| attach_inside(endpoint, layer)).join());
        attached.unwrap_or_else(|_| {
            let action = format!("attach to {}", endpoint.device);
            Err(DeviceError::Failed { action, source: io::Error::other("the attaching thread panicked") })
        })
    }

    /// Which device in which namespace this is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The descriptor to wait on.
    pub fn tun(&self) -> &SyncDevice {
        &self.tun
    }

    /// Packets the kernel dropped because this process did not read them in time.
    pub fn overruns(&mut self) -> io::Result<u64> {
        Ok(read_drops(&mut self.interface_table, &self.endpoint.device)?.saturating_sub(self.drops_before))
    }
}

fn read_drops(interface_table: &mut File, device: &str) -> io::Result<u64> {
    let mut table = String::new();
    interface_table.rewind()?;
    interface_table.read_to_string(&mut table)?;
    transmit_drops(&table, device).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{device} is gone")))
}

/// The dropped packets of `device`'s sending side in the text of `/proc/net/dev`.
pub fn transmit_drops(table: &str, device: &str) -> Option<u64> {
    const TRANSMIT_DROP_COLUMN: usize = 11;
    let (_, counters) =
        table.lines().filter_map(|line| line.trim().split_once(':')).find(|(name, _)| *name == device)?;
    counters.split_whitespace().nth(TRANSMIT_DROP_COLUMN)?.parse().ok()
}

fn attach_inside(endpoint: &Endpoint, layer: PacketLayer) -> Result<TunDevice, DeviceError> {
    let path = &endpoint.namespace;
    let namespace = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DeviceError::NoNamespace(path.clone()),
        _ => failed(format!("open {}", path.display()), error),
    })?;
    let entering = format!("enter {}", path.display());
    let net = Some(LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), net).map_err(
        |errno| match errno {
            Errno::INVAL => DeviceError::NotANamespace(path.clone()),
            _ => failed(entering, errno.into()),
        },
    )?;
    let attaching = format!("attach to {} in {}", endpoint.device, path.display());
    let tun = DeviceBuilder::new()
        .name(&endpoint.device)
        .layer(match layer {
            PacketLayer::Ip => Layer::L3,
            PacketLayer::Ethernet => Layer::L2,
        })
        .packet_information(false)
        // Without offloads the kernel cuts large segments up: packets of the MTU's size come out, as on a wire.
        .offload(false)
        .inherit_enable_state()
        .build_sync()
        .map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::BUSY) => DeviceError::Busy(endpoint.clone()),
            Some(Errno::INVAL) => DeviceError::WrongKind { endpoint: endpoint.clone(), kind: layer },
            _ => failed(attaching.clone(), error),
        })?;
    tun.set_nonblocking(true).map_err(|error| failed(attaching.clone(), error))?;
    // The open file goes on showing this namespace's interfaces after the thread has ended.
    let mut interface_table =
        File::open("/proc/thread-self/net/dev").map_err(|error| failed(attaching.clone(), error))?;
    let drops_before = read_drops(&mut interface_table, &endpoint.device).map_err(|error| failed(attaching, error))?;
    Ok(TunDevice { tun, endpoint: endpoint.clone(), interface_table, drops_before })
}

fn failed(action: String, source: io::Error) -> DeviceError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => DeviceError::NotPermitted { action },
        _ => DeviceError::Failed { action, source },
    }
}
