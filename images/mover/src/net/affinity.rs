//! Keeps the process's threads on the CPUs beside its data interfaces.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet, Pid};
use serde::Serialize;

/// Where the kernel shows NUMA nodes and network interfaces.
const SYSFS: &str = "/sys";
/// Passes over the threads: a thread that an unpinned one starts meanwhile is found by the next pass.
const PASSES: usize = 8;

/// Where the threads run, as the endpoint shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Affinity {
    /// NUMA node of the interfaces; none if it is unknown or they have several.
    pub(crate) numa_node: Option<u32>,
    /// CPUs that all threads were pinned to, as the kernel writes lists (`0-3,8`); none if they were left as they were.
    pub(crate) cpus: Option<String>,
}

/// Pins every thread of the process to those of its CPUs that are on the NUMA nodes of `interfaces`. Threads that they start later
/// inherit it. What cannot be pinned stays as it is, with a log line: a transfer works without.
pub(crate) fn pin_beside(interfaces: &[&str], wanted: bool) -> Affinity {
    let root = Path::new(SYSFS);
    let nodes = numa_nodes(root, interfaces);
    let numa_node = match nodes.as_ref().map(BTreeSet::len) {
        Some(1) => nodes.as_ref().and_then(BTreeSet::first).copied(),
        _ => None,
    };
    let Some(nodes) = nodes.filter(|_| wanted) else { return Affinity { numa_node, cpus: None } };
    let allowed = match sched_getaffinity(None) {
        Ok(set) => cpus_in(&set),
        Err(error) => {
            tracing::warn!(%error, "the CPUs that the process may use cannot be read; its threads are not pinned");
            return Affinity { numa_node, cpus: None };
        }
    };
    let beside = nodes.iter().flat_map(|node| cpus_of_node(root, *node)).collect();
    let Some(chosen) = choose(&allowed, &beside) else {
        let (allowed, beside) = (list_of(&allowed), list_of(&beside));
        tracing::info!(
            ?nodes,
            allowed,
            beside,
            "too few of the allowed CPUs are beside the interface; threads are not pinned"
        );
        return Affinity { numa_node, cpus: None };
    };
    match pin_all(&chosen) {
        Ok(()) => {
            let cpus = list_of(&chosen);
            tracing::info!(?interfaces, ?nodes, cpus, "threads are pinned to the CPUs beside the interface");
            Affinity { numa_node, cpus: Some(cpus) }
        }
        Err(error) => {
            tracing::warn!(%error, "threads could not be pinned to the CPUs beside the interface");
            Affinity { numa_node, cpus: None }
        }
    }
}

/// The CPUs to use: the allowed ones on the interfaces' NUMA nodes. None if there are none, or a single one of several that are allowed:
/// a transfer needs more than one, near or far.
fn choose(allowed: &BTreeSet<usize>, beside: &BTreeSet<usize>) -> Option<BTreeSet<usize>> {
    let both: BTreeSet<usize> = allowed.intersection(beside).copied().collect();
    (both.len() > 1 || (both.len() == 1 && allowed.len() == 1)).then_some(both)
}

/// The NUMA node of an interface's device, if it has one.
pub(crate) fn numa_node(interface: &str) -> Option<u32> {
    numa_nodes(Path::new(SYSFS), &[interface])?.first().copied()
}

/// The NUMA nodes of the interfaces; none if that of any is unknown, since its streams run on the same threads.
fn numa_nodes(root: &Path, interfaces: &[&str]) -> Option<BTreeSet<u32>> {
    let node = |name: &&str| {
        let text = std::fs::read_to_string(root.join("class/net").join(name).join("device/numa_node")).ok()?;
        text.trim().parse().ok()
    };
    let nodes: BTreeSet<u32> = interfaces.iter().map(node).collect::<Option<_>>()?;
    (!nodes.is_empty()).then_some(nodes)
}

fn cpus_of_node(root: &Path, node: u32) -> BTreeSet<usize> {
    let text = std::fs::read_to_string(root.join(format!("devices/system/node/node{node}/cpulist")));
    text.ok().and_then(|text| parse_list(&text)).unwrap_or_default()
}

/// CPUs of a list as the kernel writes it, `0-3,8`; none if it is malformed.
fn parse_list(text: &str) -> Option<BTreeSet<usize>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

fn list_of(cpus: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

fn cpus_in(set: &CpuSet) -> BTreeSet<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn pin_all(cpus: &BTreeSet<usize>) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)?;
    let mut pinned = BTreeSet::new();
    for _ in 0..PASSES {
        let threads: Vec<Pid> =
            threads()?.into_iter().filter(|thread| !pinned.contains(&thread.as_raw_pid())).collect();
        if threads.is_empty() {
            break;
        }
        for thread in threads {
            match sched_setaffinity(Some(thread), &set) {
                // One that has ended meanwhile needs nothing.
                Ok(()) | Err(rustix::io::Errno::SRCH) => pinned.insert(thread.as_raw_pid()),
                Err(error) => return Err(error.into()),
            };
        }
    }
    Ok(())
}

fn threads() -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> BTreeSet<usize> {
        cpus.iter().copied().collect()
    }

    fn sysfs(interfaces: &[(&str, &str)], nodes: &[(u32, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, node) in interfaces {
            let device = root.path().join("class/net").join(name).join("device");
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("numa_node"), node).unwrap();
        }
        for (node, cpus) in nodes {
            let folder = root.path().join(format!("devices/system/node/node{node}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cpulist"), cpus).unwrap();
        }
        root
    }

    #[test]
    fn lists_of_cpus_are_read_and_written_as_the_kernel_does() {
        for (text, cpus) in [("0-3,8\n", &[0, 1, 2, 3, 8][..]), ("5", &[5]), ("\n", &[]), ("0-1,3-4", &[0, 1, 3, 4])] {
            assert_eq!(parse_list(text), Some(set(cpus)));
            assert_eq!(list_of(&set(cpus)), text.trim());
        }
        for wrong in ["a", "3-1", "0-99999999", "1,,x", "-1"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_allowed_cpus_of_the_node_are_chosen_unless_one_alone_is_left_of_several() {
        for (allowed, beside, chosen) in [
            (&[0, 1, 2, 3][..], &[2, 3, 4, 5][..], Some(&[2, 3][..])),
            (&[0, 1], &[0, 1], Some(&[0, 1])),
            (&[0, 1, 2], &[2, 3], None),
            (&[2], &[2, 3], Some(&[2])),
            (&[0, 1], &[2, 3], None),
            (&[0, 1], &[], None),
        ] {
            assert_eq!(choose(&set(allowed), &set(beside)), chosen.map(set), "{allowed:?} beside {beside:?}");
        }
    }

    #[test]
    fn nodes_are_known_only_if_that_of_every_interface_is() {
        let root = sysfs(&[("a", "0\n"), ("b", "1\n"), ("virtual", "-1\n")], &[(0, "0-1\n"), (1, "2-3\n")]);
        let nodes = |names: &[&str]| numa_nodes(root.path(), names).map(|nodes| nodes.into_iter().collect::<Vec<_>>());
        assert_eq!(nodes(&["b"]), Some(vec![1]));
        assert_eq!(nodes(&["a", "b"]), Some(vec![0, 1]));
        for unknown in [&["a", "virtual"][..], &["not-there"], &[]] {
            assert_eq!(nodes(unknown), None);
        }
        assert_eq!(cpus_of_node(root.path(), 1), set(&[2, 3]));
        assert_eq!(cpus_of_node(root.path(), 7), set(&[]));
    }

    #[test]
    fn threads_that_run_already_are_pinned_and_those_that_they_start_inherit_it() {
        let before = sched_getaffinity(None).unwrap();
        let one = set(&[*cpus_in(&before).first().unwrap()]);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let earlier = std::thread::spawn(move || {
            wait.recv().unwrap();
            let child = std::thread::spawn(|| sched_getaffinity(None).unwrap());
            (cpus_in(&sched_getaffinity(None).unwrap()), cpus_in(&child.join().unwrap()))
        });
        pin_all(&one).unwrap();
        go.send(()).unwrap();
        let found = earlier.join().unwrap();
        pin_all(&cpus_in(&before)).unwrap();
        assert_eq!(found, (one.clone(), one));
    }
}
