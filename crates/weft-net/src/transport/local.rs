//! TCP between machines, Unix sockets within one (`docs/design/0016-local-sockets.md`).

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::MetadataExt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use socket2::SockRef;
use tokio::net::{UnixListener, UnixStream};

use super::local_stream;
use super::network::{Accepted, Listener, Network, Opened};
use super::tcp::TcpNetwork;
use crate::limits::LOCAL_SOCKET_BUFFER;

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
            // An attacker who knows the name can listen under it on another machine and relay, so
            // only a name of this machine is trusted.
            if !name.ends_with(&format!("-{}", machine_id()?)) {
                return Err(io::Error::other("the socket is on another machine"));
            }
            open(UnixStream::connect(abstract_path(name)).await?)
        }
        .boxed()
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        async move {
            let tcp = TcpNetwork.listen(address).await?;
            let local = LocalListener::bind().inspect_err(|error| {
                tracing::warn!(%error, "cannot open a local socket; programs on this machine use TCP");
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
    /// Listens under an unpredictable name.
    fn bind() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mut name = "weft-".to_owned();
        for byte in random {
            let _ = write!(name, "{byte:02x}");
        }
        let _ = write!(name, "-{}", machine_id()?);
        let listener = UnixListener::bind(abstract_path(&name))?;
        Ok(LocalListener { listener, name })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        let (stream, _) = self.listener.accept().await?;
        let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let peer = process.map_or("this machine".into(), |id| format!("process {id} here"));
        // 0: a process of another namespace.
        let process = process.and_then(|id| u32::try_from(id).ok().filter(|id| *id > 0));
        let Opened { read, write, .. } = open(stream)?;
        Ok(Accepted {
            read,
            write,
            peer,
            local: true,
            process,
        })
    }
}

impl Listener for SystemListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Accepted>> {
        async move {
            let Some(local) = &self.local else {
                return self.tcp.accept().await;
            };
            // Both futures may be dropped while they wait.
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

/// Identifies the scope in which a name of the abstract namespace is unique: the network namespace
/// of this process and the boot of its kernel.
fn machine_id() -> io::Result<String> {
    let namespace = std::fs::metadata("/proc/self/ns/net")?.ino();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(format!("{namespace:x}-{}", boot.trim().replace('-', "")))
}

/// The path by which std and tokio name a socket of the abstract namespace.
fn abstract_path(name: &str) -> String {
    format!("\0{name}")
}

fn open(stream: UnixStream) -> io::Result<Opened> {
    // The kernel may grant less or refuse; both only cost speed.
    let _ = SockRef::from(&stream).set_send_buffer_size(LOCAL_SOCKET_BUFFER);
    local_stream::open(stream.into_std()?)
}
