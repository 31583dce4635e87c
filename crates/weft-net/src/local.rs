//! TCP between machines, Unix sockets within one (`docs/design/0016-local-sockets.md`).

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::MetadataExt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use socket2::SockRef;
use tokio::net::{UnixListener, UnixStream};

use crate::env::{Accepted, Listener, Network, Opened};
use crate::local_half;
use crate::tcp::TcpNetwork;

/// Asked of the kernel for each direction; it may grant less. Of a large frame one half is copied
/// in while the other is copied out.
const BUFFER: usize = 1 << 20;

/// Streams over TCP, and over local sockets to and from programs of the same machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemNetwork;

struct SystemListener {
    tcp: Box<dyn Listener>,
    local: Option<LocalListener>,
}

struct LocalListener {
    listener: UnixListener,
    name: String,
}

impl Network for SystemNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        TcpNetwork.connect(address)
    }

    fn connect_local<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Opened>> {
        async move {
            // Whoever can look at a server's machine can listen under its name on another, and pass
            // everything on.
            if !name.ends_with(&format!("-{}", machine()?)) {
                return Err(io::Error::other("it is on another machine"));
            }
            open(UnixStream::connect(abstract_path(name)).await?)
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move {
            let tcp = TcpNetwork.listen(address).await?;
            let local = LocalListener::bind().inspect_err(|error| {
                tracing::warn!(%error, "no local socket: programs on this machine use TCP, too");
            });
            Ok(Box::new(SystemListener {
                tcp,
                local: local.ok(),
            }) as Box<dyn Listener>)
        }
        .boxed()
    }
}

impl LocalListener {
    /// Listens under a name that nobody can know beforehand.
    fn bind() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mut name = "weft-".to_owned();
        for byte in random {
            let _ = write!(name, "{byte:02x}");
        }
        let _ = write!(name, "-{}", machine()?);
        let listener = UnixListener::bind(abstract_path(&name))?;
        Ok(LocalListener { listener, name })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        let (stream, _) = self.listener.accept().await?;
        let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let peer = process.map_or("this machine".into(), |id| format!("process {id} here"));
        let Opened { read, write, .. } = open(stream)?;
        Ok(Accepted {
            read,
            write,
            peer,
            local: true,
        })
    }
}

impl Listener for SystemListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>> {
        async move {
            let Some(local) = &self.local else {
                return self.tcp.accept().await;
            };
            // Both may be dropped while they wait.
            tokio::select! {
                accepted = self.tcp.accept() => accepted,
                accepted = local.accept() => accepted,
            }
        }
        .boxed()
    }

    fn address(&self) -> io::Result<String> {
        self.tcp.address()
    }

    fn local(&self) -> Option<&str> {
        self.local.as_ref().map(|local| local.name.as_str())
    }
}

/// What names can be listened under only once: the network namespace of this process, and the start
/// of its kernel.
fn machine() -> io::Result<String> {
    let namespace = std::fs::metadata("/proc/self/ns/net")?.ino();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(format!("{namespace:x}-{}", boot.trim().replace('-', "")))
}

/// How the runtime is told that a name has no file.
fn abstract_path(name: &str) -> String {
    format!("\0{name}")
}

fn open(stream: UnixStream) -> io::Result<Opened> {
    // As much as the kernel gives.
    let _ = SockRef::from(&stream).set_send_buffer_size(BUFFER);
    local_half::open(stream.into_std()?)
}
