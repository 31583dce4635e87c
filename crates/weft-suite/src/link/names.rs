//! Network namespaces, one per server, joined to this machine by a bridge, each behind a rate-limited link.
//!
//! All names carry the number of this process; what an earlier process left that is gone is removed first.

use std::process::Command;

use crate::SuiteError;
use crate::volume::run;

/// What a link keeps waiting before it drops, in milliseconds of its rate: many clients send to one server at once.
const QUEUE: &str = "300ms";
/// What a link may pass at once; the kernel hands it segments of up to 64 KiB.
const BURST: &str = "128kb";
/// Set aside for measurements (RFC 2544), so that nobody has an address there.
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
                eprintln!("weft: no network namespaces, so servers limit themselves: {error}");
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
            let near = format!("wv{}-{server}", self.process);
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
        // A namespace takes its link with it. What was not made cannot be removed, and need not.
        for server in 0..self.servers {
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

/// Removes what processes that are gone have left.
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
    let bridges = ip(&["-o", "link", "show", "type", "bridge"]).unwrap_or_default();
    for word in String::from_utf8_lossy(&bridges).split_whitespace() {
        let name = word.trim_end_matches(':');
        if name.strip_prefix("wb").is_some_and(gone) {
            ip(&["link", "del", name]).ok();
        }
    }
}
