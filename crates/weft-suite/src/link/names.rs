//! Network namespaces, one per server, joined to this machine by a bridge, each behind a
//! rate-limited link.
//!
//! All names carry the number of this process; what an earlier process left that is gone is removed
//! first.

use std::io::Write;
use std::process::Command;

use crate::SuiteError;
use crate::volume::run;

/// What a link keeps waiting before it drops, in milliseconds of its rate: many clients send to one
/// server at once.
const QUEUE: &str = "300ms";
/// What a link may pass at once; the kernel hands it segments of up to 64 KiB.
const BURST: &str = "128kb";
/// Reserved for measurements (RFC 2544), so no host has an address there.
const NETWORK: &str = "198.18";

/// Namespaces of servers; removed when dropped.
#[derive(Debug)]
pub(crate) struct Names {
    process: u32,
    subnet: u32,
    servers: u32,
}

impl Names {
    /// Makes a namespace for each server. `None` where this machine or its rights do not allow it.
    pub(crate) fn make(servers: u32, bytes_per_second: u64) -> Option<Names> {
        if !rustix::process::geteuid().is_root() || servers > 200 {
            return None;
        }
        remove_orphans();
        let names = Names {
            process: std::process::id(),
            subnet: free_subnet()?,
            servers,
        };
        match names.build(bytes_per_second) {
            Ok(()) => Some(names),
            Err(error) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "weft: no network namespaces, so servers limit themselves: {error}"
                );
                None
            }
        }
    }

    /// The address of this machine on the bridge.
    pub(crate) fn own_address(&self) -> String {
        format!("{NETWORK}.{}.254", self.subnet)
    }

    /// The address of a server.
    pub(crate) fn address(&self, server: u32) -> String {
        format!("{NETWORK}.{}.{}", self.subnet, server + 1)
    }

    /// The namespace of a server.
    pub(crate) fn name(&self, server: u32) -> String {
        format!("weft-{}-{server}", self.process)
    }

    /// This machine's end of a server's link.
    fn near(&self, server: u32) -> String {
        format!("wv{}-{server}", self.process)
    }

    fn bridge(&self) -> String {
        format!("wb{}", self.process)
    }

    fn build(&self, bytes_per_second: u64) -> Result<(), SuiteError> {
        let (bridge, own) = (self.bridge(), format!("{}/24", self.own_address()));
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["addr", "add", &own, "dev", &bridge])?;
        ip(&["link", "set", &bridge, "up"])?;
        let rate = format!("{bytes_per_second}bps");
        for server in 0..self.servers {
            let name = self.name(server);
            let near = self.near(server);
            let address = format!("{}/24", self.address(server));
            ip(&["netns", "add", &name])?;
            ip(&[
                "link", "add", &near, "type", "veth", "peer", "name", "eth0", "netns", &name,
            ])?;
            ip(&["link", "set", &near, "master", &bridge])?;
            ip(&["link", "set", &near, "up"])?;
            ip(&["-n", &name, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            limit(&[], &near, &rate)?;
            limit(&["-n", &name], "eth0", &rate)?;
        }
        Ok(())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // A namespace takes its link with it only when nothing holds it any more, and the socket of
        // a server that was just stopped may: so the links go first. What was not made cannot be
        // removed, and need not.
        for server in 0..self.servers {
            ip(&["link", "del", &self.near(server)]).ok();
            ip(&["netns", "del", &self.name(server)]).ok();
        }
        ip(&["link", "del", &self.bridge()]).ok();
    }
}

fn ip(words: &[&str]) -> Result<Vec<u8>, SuiteError> {
    run(Command::new("ip").args(words))
}

fn limit(namespace: &[&str], device: &str, rate: &str) -> Result<(), SuiteError> {
    let mut tc = Command::new("tc");
    tc.args(namespace)
        .args(["qdisc", "add", "dev", device, "root", "tbf", "rate", rate])
        .args(["burst", BURST, "latency", QUEUE]);
    run(&mut tc).map(|_| ())
}

/// A part of the network in which this machine has no address yet.
fn free_subnet() -> Option<u32> {
    let addresses = ip(&["-o", "addr"]).ok()?;
    let addresses = String::from_utf8_lossy(&addresses);
    let first = std::process::id() % 256;
    (0..256)
        .map(|i| (first + i) % 256)
        .find(|subnet| !addresses.contains(&format!(" {NETWORK}.{subnet}.")))
}

/// Removes the namespaces and devices of processes that no longer run.
fn remove_orphans() {
    let gone = |process: &str| {
        process.parse::<u32>().is_ok() && !std::path::Path::new("/proc").join(process).exists()
    };
    let names = ip(&["netns", "list"]).unwrap_or_default();
    for name in String::from_utf8_lossy(&names).split_whitespace() {
        let process = name.strip_prefix("weft-").and_then(|n| n.split_once('-'));
        if process.is_some_and(|(process, _)| gone(process)) {
            ip(&["netns", "del", name]).ok();
        }
    }
    let links = ip(&["-o", "link", "show"]).unwrap_or_default();
    for name in device_names(&String::from_utf8_lossy(&links)) {
        if maker(name).is_some_and(gone) {
            ip(&["link", "del", name]).ok();
        }
    }
}

/// The names in a listing of a line for each device: `7: wv12-0@if2: <BROADCAST,…`.
fn device_names(listing: &str) -> impl Iterator<Item = &str> {
    let names = listing
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    names.map(|name| name.split(['@', ':']).next().unwrap_or(name))
}

/// The process that made a device of this name, if it is one of ours: a bridge, or this machine's
/// end of a link.
fn maker(name: &str) -> Option<&str> {
    match name.strip_prefix("wv") {
        Some(link) => link.split_once('-').map(|(process, _)| process),
        None => name.strip_prefix("wb"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_the_suite_are_recognized_by_their_names() {
        let listing = "1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue state UNKNOWN\\    link/loopback 00:00\n\
                       7: wb4711: <BROADCAST> mtu 1500\n\
                       9: wv4711-12@if2: <BROADCAST> mtu 1500 master wb4711\n\
                       10: wvlan0: <BROADCAST> mtu 1500\n";
        let names: Vec<&str> = device_names(listing).collect();
        assert_eq!(names, ["lo", "wb4711", "wv4711-12", "wvlan0"]);
        let makers: Vec<Option<&str>> = names.into_iter().map(maker).collect();
        assert_eq!(makers, [None, Some("4711"), Some("4711"), None]);
    }
}
