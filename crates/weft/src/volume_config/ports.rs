//! Free addresses on this machine.

use std::net::TcpListener;

use anyhow::{Result, bail};
use weft_net::Env;

/// Below the range from which the system takes ports of outgoing connections, so that none of those is in the way.
const PORTS: std::ops::Range<u16> = 17_000..32_000;

/// `count` loopback addresses on which nobody listens now.
pub(crate) fn free_addresses(count: usize) -> Result<Vec<String>> {
    let env = Env::system();
    let span = u64::from(PORTS.end - PORTS.start);
    let mut found: Vec<(TcpListener, String)> = Vec::new();
    for _ in 0..10_000 {
        if found.len() == count {
            break;
        }
        let port = u64::from(PORTS.start) + env.random_u64() % span;
        let address = format!("127.0.0.1:{port}");
        if let Ok(listener) = TcpListener::bind(&address) {
            found.push((listener, address));
        }
    }
    if found.len() < count {
        bail!(
            "cannot find {count} free ports between {} and {}",
            PORTS.start,
            PORTS.end
        );
    }
    Ok(found.into_iter().map(|(_, address)| address).collect())
}
