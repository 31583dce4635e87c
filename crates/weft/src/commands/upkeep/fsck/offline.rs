//! Runs a stopped volume inside this process, where no other process can reach it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use weft_client::{ConnectOptions, Fault, Finding, Found, ServerState, Volume};
use weft_kv::{DamagedFile, FjallKv, FjallOptions, KvError, OnLoss, Remedy};
use weft_meta::Namespace;
use weft_net::{Bounds, Env, Identity, VolumeKey, Wire};
use weft_proto::meta::HeartbeatRequest;
use weft_proto::session::Role;
use weft_server::{Blocking, MetaRole, Node, NodeConfig, NodeError};
use weft_store::{FolderStorage, RepairMode, has_log, log_reaches};

use super::rows::Row;
use super::words;
use crate::limits::{OFFLINE_START_TIMEOUT, SERVER_MAP_POLL_INTERVAL};
use crate::remote::servers;
use crate::terminal::output;
use crate::volume_config::{
    self, Config, Lock, Marker, NodeName, ServerSection, clean_shutdown, io_role,
};

/// The address of the nodes.
const HERE: &str = "127.0.0.1:0";

/// A stopped volume that this process runs.
pub(super) struct Offline {
    pub(super) volume: Volume,
    /// The findings that prevented stores from opening.
    pub(super) obstacles: Vec<Row>,
    config: Config,
    servers: Vec<Node>,
    meta: Node,
    namespace: (PathBuf, Arc<FjallKv>),
    _locks: Vec<Lock>,
}

impl Offline {
    /// Takes the locks of all nodes and starts them with a temporary key. A store that does not
    /// open is examined, and with `repair` repaired.
    pub(super) async fn open(dir: &Path, repair: bool) -> Result<Offline> {
        let config = Config::read(dir)?;
        let id = volume_config::volume_id(&config.key()?);
        let mut locks = Vec::new();
        let mut lock = |node: NodeName| -> Result<PathBuf> {
            let folder = node.folder(&config)?;
            Marker::new(id, node).check(&folder)?;
            let lock = Lock::take(&config, node);
            locks.push(
                lock.context("--offline checks only a stopped volume: stop it with `weft down`")?,
            );
            Ok(folder)
        };
        let meta_folder = lock(NodeName::Meta)?.join("namespace");
        let mut sections = Vec::new();
        for section in &config.servers {
            sections.push((section.clone(), lock(NodeName::Server(section.name()))?));
        }
        let env = Env::system();
        let mut key = [0; 32];
        env.entropy.fill(&mut key);
        let key = VolumeKey(key);
        let identity = Identity {
            key: key.clone(),
            volume: id,
            role: Role::Unspecified,
            client: 0,
            wire: Wire::Mac,
        };
        let options = FjallOptions {
            cache: config
                .meta
                .cache
                .map_or_else(|| config.share().engine(), |size| size.0),
            ..FjallOptions::default()
        };
        let mut obstacles = Vec::new();
        obstacles.extend(tables(&meta_folder, None)?);
        if let Some(lost) = journal(&meta_folder, None, None, repair)? {
            clean_shutdown::forget(&meta_folder)?;
            obstacles.push(lost);
        }
        obstacles.extend(indexes(&sections, repair)?);
        let kv = Arc::new(FjallKv::open(&meta_folder, options)?);
        clean_shutdown::check(&meta_folder, kv.as_ref())?;
        let meta = MetaRole {
            alone: true,
            kv: kv.clone(),
            blocking: Blocking::Threads,
        };
        let meta = Node::start(env.clone(), node(&identity, Some(meta), None)).await?;
        let mut servers = Vec::new();
        for (section, folder) in &sections {
            let start = StoreStart {
                config: &config,
                section,
                folder,
                identity: &identity,
                meta: meta.address(),
            };
            servers.push(start.start(&env, repair, &mut obstacles).await?);
        }
        let mut options = ConnectOptions::new(meta.address(), key);
        options.volume = id;
        let volume = Volume::connect(options).await?;
        wait_for(&volume, &servers).await?;
        Ok(Offline {
            volume,
            obstacles,
            config,
            servers,
            meta,
            namespace: (meta_folder, kv),
            _locks: locks,
        })
    }

    /// Stops the nodes and restores the servers' addresses in the namespace.
    pub(super) async fn close(self) -> Result<()> {
        drop(self.volume);
        for node in self.servers {
            node.stop().await.map_err(anyhow::Error::msg)?;
        }
        self.meta.stop().await.map_err(anyhow::Error::msg)?;
        let (folder, kv) = self.namespace;
        let namespace = Namespace::open(kv.clone())?;
        for section in &self.config.servers {
            let request = HeartbeatRequest {
                id: section.id,
                replica: section.replica,
                address: section.address.clone(),
                metrics: section.metrics.clone().unwrap_or_default(),
                ..HeartbeatRequest::default()
            };
            namespace.heartbeat(0, &request)?;
        }
        namespace.close()?;
        clean_shutdown::leave(&folder, kv.as_ref())
    }
}

/// What starting one server needs.
struct StoreStart<'a> {
    config: &'a Config,
    section: &'a ServerSection,
    folder: &'a Path,
    identity: &'a Identity,
    meta: &'a str,
}

impl StoreStart<'_> {
    /// Starts the server. A store that does not open is examined, and with `repair` repaired;
    /// losses are accepted only as a last resort.
    async fn start(&self, env: &Env, repair: bool, obstacles: &mut Vec<Row>) -> Result<Node> {
        let why = match Node::start(env.clone(), self.node(false)?).await {
            Ok(node) => return Ok(node),
            Err(NodeError::Store(why)) => why.to_string(),
            Err(other) => return Err(other.into()),
        };
        obstacles.extend(recover_store(self.config, self.section, self.folder, repair).await?);
        let mut again = Node::start(env.clone(), self.node(false)?).await;
        if repair && let Err(NodeError::Store(_)) = &again {
            again = Node::start(env.clone(), self.node(true)?).await;
            if again.is_ok() {
                obstacles.push(abandoned_blocks(self.section.id, why.clone()));
            }
        }
        again.map_err(|again| {
            let again = again.to_string();
            let reason = if again.contains(&why) {
                again
            } else {
                format!("{again} (at first: {why})")
            };
            stuck(self.section.id, &reason, obstacles, repair)
        })
    }

    fn node(&self, accept_loss: bool) -> Result<NodeConfig> {
        let mut node = server(
            self.config,
            self.section,
            self.folder,
            self.identity,
            self.meta,
        )?;
        if let Some(role) = &mut node.io {
            role.store.accept_loss = accept_loss;
        }
        Ok(node)
    }
}

fn node(
    identity: &Identity,
    meta: Option<MetaRole>,
    io: Option<weft_server::IoRole>,
) -> NodeConfig {
    NodeConfig {
        identity: identity.clone(),
        address: HERE.to_owned(),
        public_address: None,
        io,
        meta,
        bounds: Bounds::default(),
    }
}

fn server(
    config: &Config,
    section: &ServerSection,
    folder: &Path,
    identity: &Identity,
    meta: &str,
) -> Result<NodeConfig> {
    let name = NodeName::Server(section.name());
    let marker = Marker::new(identity.volume, name).check(folder)?;
    let mut role = io_role(config, section, folder, marker.store)?;
    meta.clone_into(&mut role.meta_address);
    role.metrics_address.clear();
    Ok(node(identity, None, Some(role)))
}

/// Findings in the engines of all servers. If several cannot be examined, all errors are reported.
fn indexes(sections: &[(ServerSection, PathBuf)], repair: bool) -> Result<Vec<Row>> {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (section, folder) in sections {
        match index(folder, section.id, repair) {
            Ok(found) => rows.extend(found),
            Err(error) => failed.push(error),
        }
    }
    let Some(last) = failed.pop() else {
        return Ok(rows);
    };
    for error in failed {
        output::say(format_args!("weft: {}", output::error(&error)));
    }
    say(&rows);
    Err(last)
}

/// Findings in the engine of a server's index.
fn index(folder: &Path, server: u32, repair: bool) -> Result<Vec<Row>> {
    let (index, server) = (folder.join("index"), Some(server));
    let mut found = tables(&index, server)?;
    let store = FolderStorage::open(&folder.join("store"))?;
    let log = has_log(&store)?.then_some(&store);
    found.extend(journal(&index, server, log, repair)?);
    Ok(found)
}

/// Damaged files of an engine. Those that have a good copy are restored, as by any start.
fn tables(folder: &Path, server: Option<u32>) -> Result<Vec<Row>> {
    let bad = FjallKv::verify_folder(folder)?;
    let mends = !bad.is_empty() && bad.iter().all(|bad| bad.remedy != Remedy::None);
    if mends {
        FjallKv::repair_folder(folder)?;
    }
    let row = |bad: &DamagedFile| {
        let mut finding = weft_meta::index_finding(bad);
        finding.server = server;
        let done = match bad.remedy {
            Remedy::RestoreCopy => "restored from its copy",
            Remedy::Recopy | Remedy::None => "dropped; the next start rebuilds it",
        };
        words::row(Found {
            finding,
            done: mends.then(|| done.to_owned()),
        })
    };
    Ok(bad.iter().map(row).collect())
}

/// Checks whether an engine's journal lost entries that were on stable storage. With `repair` they
/// are dropped, together with all later ones if a log still has those.
fn journal(
    folder: &Path,
    server: Option<u32>,
    log: Option<&FolderStorage>,
    repair: bool,
) -> Result<Option<Row>> {
    let lost = match FjallKv::check(folder) {
        Ok(()) => return Ok(None),
        Err(lost @ KvError::Lost { .. }) if repair => lost.cause(),
        Err(other) => return Err(other.into()),
    };
    let on_loss = log.map_or(OnLoss::Skip, |_| OnLoss::RollBack);
    let kv = FjallKv::open(
        folder,
        FjallOptions {
            loss: on_loss,
            ..FjallOptions::default()
        },
    )?;
    let reaches = log.map(|log| log_reaches(&kv, log)).transpose()?;
    drop(kv);
    let finding = Finding {
        fault: Fault::IndexRecord as i32,
        server,
        text: lost,
        ..Finding::default()
    };
    let done = match reaches {
        Some(true) => {
            "went back to the state before them; the server's log replays the later changes"
        }
        Some(false) => {
            "went back to the state before them; the server's log does not reach back that far"
        }
        None => "went on without them",
    };
    let kept = "the damaged journal is kept beside it as N.damaged";
    let done = Some(format!("{done}; {kept}"));
    Ok(Some(words::row(Found { finding, done })))
}

/// Prints findings and repairs if there will be no report.
fn say(rows: &[Row]) {
    for row in rows {
        let done = row.repaired.as_ref();
        let done = done.map_or(String::new(), |done| format!(" -- repaired: {done}"));
        let place = words::place(row);
        output::say(format_args!("weft: {place}: {}{done}", row.what));
    }
}

/// The error of a server that cannot be opened. Prints its findings.
fn stuck(server: u32, reason: &str, obstacles: &[Row], repair: bool) -> anyhow::Error {
    say(obstacles);
    let hint = if repair { "" } else { "; --repair may help" };
    anyhow!("server {server} cannot be opened: {reason}{hint}")
}

/// The row of a store that opens only without its unreadable blocks.
fn abandoned_blocks(server: u32, why: String) -> Row {
    let finding = Finding {
        fault: Fault::Unreadable as i32,
        server: Some(server),
        text: why,
        ..Finding::default()
    };
    let done = "dropped unreadable blocks, with their entries in the log";
    words::row(Found {
        finding,
        done: Some(done.to_owned()),
    })
}

/// Finds what prevents a store from opening, and repairs it with `repair`.
async fn recover_store(
    config: &Config,
    section: &ServerSection,
    folder: &Path,
    repair: bool,
) -> Result<Vec<Row>> {
    let role = io_role(config, section, folder, String::new())?;
    let mode = if repair {
        RepairMode::Repair
    } else {
        RepairMode::Check
    };
    let found = weft_store::repair_closed(&role.store, mode).await?;
    let rows = found.into_iter().map(|obstacle| {
        let mut finding = match obstacle.finding {
            Some(finding) => weft_server::finding_on_the_wire(finding, None),
            None => Finding {
                fault: Fault::IndexRecord as i32,
                ..Finding::default()
            },
        };
        finding.server = Some(section.id);
        finding.text = obstacle.reason;
        words::row(Found {
            finding,
            done: obstacle.repaired.then(|| obstacle.done.to_owned()),
        })
    });
    Ok(rows.collect())
}

async fn wait_for(volume: &Volume, nodes: &[Node]) -> Result<()> {
    let started = Instant::now();
    loop {
        let map = volume.server_map().await?;
        let count = |state: ServerState| map.servers.iter().filter(move |s| s.state() == state);
        if map.rolled_back {
            bail!(servers::SERVICE_REFUSED);
        }
        // The map may still hold the address of a process that was killed a moment ago.
        let registered = |node: &&Node| count(ServerState::Up).any(|s| s.address == node.address());
        if nodes.iter().filter(registered).count() == nodes.len() {
            return Ok(());
        }
        if let Some(refused) = count(ServerState::RolledBack).next() {
            bail!("{}", servers::refusal(refused));
        }
        if started.elapsed() > OFFLINE_START_TIMEOUT {
            bail!(
                "the servers did not register within {} s",
                OFFLINE_START_TIMEOUT.as_secs()
            );
        }
        tokio::time::sleep(SERVER_MAP_POLL_INTERVAL).await;
    }
}
