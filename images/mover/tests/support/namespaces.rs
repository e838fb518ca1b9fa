//! Two network namespaces joined by a virtual cable, for tests that cut it.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::skip;

/// The receiver's and the sender's namespace; gone when dropped.
pub(crate) struct Namespaces {
    pub(crate) receiver: String,
    pub(crate) sender: String,
}

/// The receiver's address.
pub(crate) const ADDRESS: &str = "198.18.77.1";

impl Namespaces {
    /// Nothing where they cannot be made (needs root) and the skip is expected.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("fl{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (receiver, sender) = (format!("{tag}r"), format!("{tag}s"));
        if !ip(&["netns", "add", &receiver]) {
            skip("network namespaces cannot be made here (needs root and iproute2)");
            return None;
        }
        let made = Self { receiver, sender };
        let (receiver, sender) = (made.receiver.as_str(), made.sender.as_str());
        assert!(ip(&["netns", "add", sender]));
        assert!(ip(&[
            "link", "add", "wire0", "netns", receiver, "type", "veth", "peer", "name", "wire0", "netns", sender
        ]));
        for (name, address) in [(receiver, format!("{ADDRESS}/24")), (sender, "198.18.77.2/24".to_owned())] {
            assert!(ip(&["-n", name, "addr", "add", &address, "dev", "wire0"]));
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
            assert!(ip(&["-n", name, "link", "set", "wire0", "up"]));
        }
        Some(made)
    }

    /// From now on everything that comes to the receiver is lost.
    pub(crate) fn cut(&self) -> bool {
        let rule = "table inet cut { chain input { type filter hook input priority 0; policy drop; }; }";
        let status = Command::new("ip").args(["netns", "exec", &self.receiver, "nft", rule]).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.sender]);
        ip(&["netns", "del", &self.receiver]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
