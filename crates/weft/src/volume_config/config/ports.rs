//! Free addresses on this machine.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::{Result, bail};
use weft_net::Env;

/// Below the system's range of ports for outgoing connections, which could occupy a port.
const PORTS: std::ops::Range<u16> = 17_000..32_000;

/// Free addresses, reserved while this value exists: servers begin to listen some moments after
/// their addresses were chosen, and other volumes may be created meanwhile.
pub(crate) struct FreeAddresses {
    pub(crate) addresses: Vec<String>,
    /// Sockets in the abstract namespace, one named after each port: they leave nothing behind.
    _taken: Vec<UnixListener>,
}

fn take(port: u64) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("weft-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// `count` loopback addresses that are free now.
pub(crate) fn free_addresses(count: usize) -> Result<FreeAddresses> {
    let env = Env::system();
    let span = u64::from(PORTS.end - PORTS.start);
    let mut found: Vec<(UnixListener, String)> = Vec::new();
    for _ in 0..10_000 {
        if found.len() == count {
            break;
        }
        let port = u64::from(PORTS.start) + env.random_u64() % span;
        let address = format!("127.0.0.1:{port}");
        if let Some(taken) = take(port)
            && TcpListener::bind(&address).is_ok()
        {
            found.push((taken, address));
        }
    }
    if found.len() < count {
        bail!(
            "cannot find {count} free ports between {} and {}: stop other services, or configure addresses with `weft format`",
            PORTS.start,
            PORTS.end
        );
    }
    let (taken, addresses) = found.into_iter().unzip();
    Ok(FreeAddresses {
        addresses,
        _taken: taken,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn volumes_created_at_the_same_time_get_different_addresses() {
        let all: Vec<_> = (0..10).map(|_| free_addresses(40).unwrap()).collect();
        let addresses = all.iter().flat_map(|free| &free.addresses);
        assert_eq!(addresses.collect::<BTreeSet<_>>().len(), 400);
    }
}
