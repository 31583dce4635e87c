use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use weft_kv::{FjallKv, FjallOptions, OnLoss};
use weft_meta::Namespace;
use weft_net::{Bounds, Env, Identity, TcpNetwork, Wire};
use weft_proto::session::Role;
use weft_server::{Blocking, MetaRole, Node, NodeConfig, serve_metrics};

use super::rebuild::replace_lost;
use crate::process::processors::shallow_idle;
use crate::process::{log, threads};
use crate::volume_config::{
    self, Config, Lock, Marker, NodeName, ServerName, ServerSection, clean_shutdown, io_role,
};

/// Keeps a reserve on the metadata service's disk, so that files can be deleted when the disk is
/// full.
const NAMESPACE: FjallOptions = FjallOptions {
    cache: 64 << 20,
    memtable: 64 << 20,
    reserve: 64 << 20,
    loss: OnLoss::Refuse,
};

/// Run a node of a volume (metadata service or I/O server) in the foreground
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft serve --config /srv/weft/weft.toml --role meta
  weft serve --config /srv/weft/weft.toml --role io --server 2
  weft serve --config /srv/weft/weft.toml --role io,meta --server 0     both behind server 0's address

WEFT_LOG sets the log level, e.g. WEFT_LOG=debug or WEFT_LOG=weft_server=trace.")]
pub(crate) struct Serve {
    /// The configuration, or the folder that holds it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// What this process serves
    #[arg(long, value_delimiter = ',', required = true)]
    role: Vec<NodeRole>,
    /// The server's id; needed with the role `io`
    #[arg(long, value_name = "ID")]
    server: Option<u32>,
    /// Which of the server's replicas this process is
    #[arg(long, value_name = "N", default_value_t = 0)]
    replica: u32,
    /// Leave the terminal's session (`weft up` starts its nodes so)
    #[arg(long, hide = true)]
    detach: bool,
    /// Limit the network to this many bytes per second (`weft bench --link` without
    /// namespaces)
    #[arg(long, hide = true, value_name = "SIZE", value_parser = weft_layout::size::parse_positive)]
    link: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NodeRole {
    /// The metadata service
    Meta,
    /// An I/O server
    Io,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.detach {
            // Fails only if this process already leads a group; then it is detached enough.
            let _ = rustix::process::setsid();
        }
        log::start("warn,weft=info,weft_server=info", self.detach);
        let descriptors = raise_descriptors();
        let config = Config::read(&self.config)?;
        let io = self.role.contains(&NodeRole::Io);
        let meta = self.role.contains(&NodeRole::Meta);
        let server = self.section(&config)?;
        runtime(server.as_ref().map_or(2, |s| s.threads))?.block_on(async {
            let key = config.key()?;
            let volume = volume_config::volume_id(&key);
            let mut locks = Vec::new();
            let mut lock = |node: NodeName| -> Result<PathBuf> {
                let folder = node.folder(&config)?;
                Marker::new(volume, node).check(&folder)?;
                locks.push(Lock::take(&config, node)?);
                volume_config::close_to_others(&config, node)?;
                Ok(folder)
            };
            let mut namespace = None;
            let meta_role = if meta {
                let node_folder = lock(NodeName::Meta)?;
                let folder = node_folder.join("namespace");
                let default = config.share().engine();
                let cache = config.meta.cache.map_or(default, |size| size.0);
                let options = FjallOptions { cache, ..NAMESPACE };
                let kv = Arc::new(FjallKv::open(&folder, options)?);
                clean_shutdown::check(&folder, kv.as_ref())?;
                let marker = Marker::new(volume, NodeName::Meta);
                marker.note_servers(&node_folder, &Namespace::servers_of(kv.as_ref())?)?;
                namespace = Some((folder, kv.clone()));
                Some(MetaRole { kv, blocking: Blocking::Threads, alone: false })
            } else {
                None
            };
            let io_role = match &server {
                Some(section) => {
                    let folder = lock(NodeName::Server(section.name()))?;
                    let marker = Marker::new(volume, NodeName::Server(section.name()));
                    let store_id = marker.store_id(&folder)?;
                    Some(io_role(&config, section, &folder, store_id)?)
                }
                None => None,
            };
            let (address, bind) = match &server {
                Some(s) => (&s.address, &s.bind),
                None => (&config.meta.address, &config.meta.bind),
            };
            if meta && io && *address != config.meta.address {
                bail!("with both roles in one process, [meta] and the server must have the same address");
            }
            let own_metrics = server.as_ref().and_then(|s| s.metrics.clone());
            let metrics_address = own_metrics.or_else(|| meta.then(|| config.meta.metrics.clone())?);
            let env = env(&config, self.link.filter(|_| io));
            let node = Node::start(
                env,
                NodeConfig {
                    identity: Identity {
                        key,
                        volume,
                        role: Role::Unspecified,
                        client: 0,
                        wire: config.volume.wire.0,
                    },
                    address: bind.as_ref().unwrap_or(address).clone(),
                    public_address: Some(address.clone()),
                    io: io_role,
                    meta: meta_role,
                    bounds: Bounds {
                        windows: config.share().windows(),
                        ..Bounds::default().within(descriptors)
                    },
                },
            )
            .await?;
            if let Some(address) = &metrics_address {
                let listener = tokio::net::TcpListener::bind(address)
                    .await
                    .with_context(|| format!("cannot serve metrics on {address}"))?;
                tokio::spawn(serve_metrics(listener, node.metrics().clone(), node.measured()));
            }
            for lock in &mut locks {
                lock.ready(&config)?;
            }
            replace_lost(&node, &config, server);
            let wire = config.volume.wire.0;
            tracing::info!(address = node.address(), %wire, "serving");
            if wire == Wire::Plain {
                tracing::warn!("wire = \"plain\": connections are not authenticated, and machines on the network path can alter messages");
            }
            asked_to_stop().await?;
            tracing::info!("stopping");
            node.stop().await.map_err(anyhow::Error::msg)?;
            if let Some((folder, kv)) = namespace {
                clean_shutdown::leave(&folder, kv.as_ref())?;
            }
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Serve {
    /// The server's section of the configuration, if this process is an I/O server.
    fn section(&self, config: &Config) -> Result<Option<ServerSection>> {
        match (self.role.contains(&NodeRole::Io), self.server) {
            (true, Some(id)) => {
                let replica = self.replica;
                Ok(Some(config.server(ServerName { id, replica })?.clone()))
            }
            (true, None) => bail!("the role io needs a server: give --server ID"),
            (false, _) => Ok(None),
        }
    }
}

fn runtime(threads: usize) -> Result<Runtime> {
    if threads == 1 {
        return threads::lasting(&mut Builder::new_current_thread());
    }
    threads::lasting(Builder::new_multi_thread().worker_threads(threads))
}

async fn asked_to_stop() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Lets this process have as many descriptors as the administrator allows, and returns how many:
/// the soft limit exists for programs that use select(2).
fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, most) {
        Ok(()) => maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files");
            current.unwrap_or(u64::MAX)
        }
    }
}

/// The environment of a node. With `link`, its network is limited to so many bytes per second.
fn env(config: &Config, link: Option<u64>) -> Env {
    let mut env = Env::system();
    env.processors = shallow_idle(config.volume.shallow_idle);
    if !config.volume.local_sockets {
        env.network = Arc::new(TcpNetwork);
    }
    if let Some(rate) = link {
        env.network = Arc::new(weft_suite::LimitedNetwork::new(env.network, rate));
    }
    env
}
