//! Names of devices, and what the kernel says about them.

use std::path::Path;

use fairlead_wan::device::{transmit_drops, DeviceError, Endpoint, PacketLayer, TunDevice};

#[test]
fn an_endpoint_is_a_namespace_and_a_device() {
    let named: Endpoint = "left:wan0".parse().expect("good");
    assert_eq!((named.namespace.as_path(), named.device.as_str()), (Path::new("/run/netns/left"), "wan0"));
    let by_path: Endpoint = "/proc/1/ns/net:wan0".parse().expect("good");
    assert_eq!(by_path.namespace.as_path(), Path::new("/proc/1/ns/net"));
}

#[test]
fn what_is_no_endpoint_is_refused() {
    for text in ["", "left", ":wan0", "left:", "left:a name", "left:sixteen-bytes-xx"] {
        assert!(text.parse::<Endpoint>().is_err(), "{text:?} was accepted");
    }
}

#[test]
fn drops_are_read_from_the_sending_side_of_the_right_device() {
    let table = "Inter-|   Receive                            |  Transmit\n \
        face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n    \
        lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
        wan0: 100 2 0 3 0 0 0 0 200 4 0 77 0 0 0 0\n";
    assert_eq!(transmit_drops(table, "wan0"), Some(77));
    assert_eq!(transmit_drops(table, "wan"), None);
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    let missing: Endpoint = "fairlead-wan-no-such-namespace:wan0".parse().expect("good");
    match TunDevice::attach(&missing, PacketLayer::Ip) {
        Err(error @ (DeviceError::NoNamespace(_) | DeviceError::NoTunSupport(_))) => {
            let message = error.to_string();
            assert!(
                message.contains("fairlead-wan-no-such-namespace") || message.contains("/dev/net/tun"),
                "{message}"
            );
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it attached to nothing"),
    }
}
