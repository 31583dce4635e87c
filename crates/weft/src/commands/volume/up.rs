use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::{Changes, ConnectOptions, NewLayout, Volume};
use weft_net::Wire;
use weft_parity::Shape;

use super::nodes::StartedNodes;
use super::{format, mount};
use crate::limits::{REPLICAS_MAX, SERVERS_DEFAULT};
use crate::process::private_files::make_folder;
use crate::remote::{connect, servers};
use crate::terminal::output;
use crate::volume_config::{
    ADDRESS, CodeAfter, Config, FILE, FreeAddresses, Marker, MetaSection, NodeName, RebuildAfter,
    ServerName, ServerSection, Size, StartLock, VolumeSection, WIRE, WireSetting, changed,
    check_new_disk, free_addresses, is_start_lock, lock_of,
};

/// Start a volume on this machine in the background, creating it if there is none
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft up /tmp/volume --servers 4        create and start a volume of four servers and a metadata service
  weft up /tmp/volume                    start an existing volume
  weft --volume /tmp/volume ls -l        list its root directory
  weft up /tmp/volume --servers 2 --disks /dev/sdb,/dev/sdc,/mnt/d,/mnt/e      two disks for each server
  weft up /tmp/volume --parity 4+1       five servers with two replicas each, whose files have parity
  weft up /tmp/volume --mount /mnt       start it and mount it
  weft down /tmp/volume                  stop it

The folder holds the configuration (weft.toml), the volume's key, a folder for each node, and the logs.")]
pub(crate) struct Up {
    /// Folder of the volume
    dir: PathBuf,
    /// Number of I/O servers of a new volume [default: 4]
    #[arg(long, value_name = "N")]
    servers: Option<u32>,
    /// Replicas of each server of a new volume, 1 to 4: processes with a store each, of which all
    /// but one can be lost [default: 1]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Parity of the files of a new volume when they are quiet: M pieces for each K, of which any M
    /// can be lost. K + M servers at least, with M + 1 replicas each [default: none]
    #[arg(long, value_name = "K+M")]
    parity: Option<Shape>,
    /// Cache memory of each server of a new volume [default: a share of the memory of the machine
    /// or container]
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
    /// Bytes that each server of a new volume may hold [default: what its disk has]
    #[arg(long, value_name = "SIZE", value_parser = capacity)]
    capacity: Option<Size>,
    /// Limit each server's network to this many bytes per second (`weft bench --link` without
    /// namespaces)
    #[arg(long, hide = true, value_name = "SIZE", value_parser = weft_layout::size::parse_positive)]
    link: Option<u64>,
    /// Folders or block devices for the data of a new volume, assigned to its servers in turn; the
    /// volume's folder then holds no data
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    disks: Vec<PathBuf>,
    /// Seconds to wait until all nodes serve
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
    /// Also mount the volume on this directory; `weft down` unmounts it again
    #[arg(long, value_name = "PATH")]
    mount: Option<PathBuf>,
}

impl Up {
    pub(crate) fn run(self, wire: Option<Wire>) -> Result<ExitCode> {
        let start_lock = StartLock::of_any(&self.dir, Duration::from_secs(self.wait))?;
        let exists = || self.dir.join(FILE).exists();
        let done = self.start(!exists(), wire);
        if done.is_err() && !exists() {
            start_lock.remove();
        }
        done
    }

    fn start(&self, fresh: bool, wire: Option<Wire>) -> Result<ExitCode> {
        let mounted = !fresh && self.is_mounted()?;
        if let Some(path) = self.mount.as_ref().filter(|_| !mounted) {
            // A path that cannot be mounted on must not leave a volume running.
            mount::prepare(path)?;
        }
        // Held until the servers listen.
        let (config, _addresses) = if fresh {
            let addresses = self.addresses()?;
            (self.make(&addresses, wire)?, Some(addresses))
        } else {
            (self.existing(wire)?, None)
        };
        let (nodes, lost) = present(&config);
        config.check_servers(&nodes)?;
        refuse_changes(&config)?;
        config.write_wire_file()?;
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        let mut started = StartedNodes::start(&config, &nodes, self.link)?;
        let all_run = started.is_empty();
        started.wait_for(&config, &nodes, deadline)?;
        // The service may have noted its servers just now.
        config.check_servers(&nodes)?;
        let mut refused = servers::wait_for_servers(&config, &nodes, deadline)?;
        refused.extend(lost);
        started.keep();
        if let Some(parity) = self.parity.filter(|_| fresh) {
            self.give_parity(parity)?;
        }
        let dir = self.dir.display();
        let state = if all_run {
            "is already running"
        } else {
            "is up"
        };
        let meta = match config.meta.folder {
            Some(_) => "and a metadata service at",
            None => "of the volume at",
        };
        output::line(format!(
            "volume {dir} {state}: {} {meta} {}",
            servers_of(&config),
            config.meta.address
        ))?;
        if fresh {
            output::line(format!(
                "list it with `weft --volume {dir} ls -l /`, stop it with `weft down {dir}`"
            ))?;
        }
        if let Some(path) = &self.mount {
            let (path, was) = if mounted {
                let path = fs::canonicalize(path)?;
                mount::record_mount(&config, &path)?;
                (path, "was ")
            } else {
                (mount::with_volume(&config, path)?, "")
            };
            output::line(format!("{was}mounted on {}", path.display()))?;
        }
        for node in &refused {
            output::say(node);
        }
        Ok(if refused.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Gives the files of a new volume parity, unless they or their directories have another.
    fn give_parity(&self, parity: Shape) -> Result<()> {
        let options = ConnectOptions::from_folder(&self.dir)?;
        connect::block_on(async {
            let volume = Volume::connect(options).await?;
            let changes = Changes {
                layout: Some(NewLayout {
                    parity: Some(Some(parity)),
                    ..NewLayout::default()
                }),
                ..Changes::default()
            };
            volume.set_attributes("/", &changes).await?;
            Ok(())
        })
    }

    /// Whether this volume is already mounted there.
    fn is_mounted(&self) -> Result<bool> {
        let Some(path) = &self.mount else {
            return Ok(false);
        };
        mount::is_of_volume(&Config::read(&self.dir)?, path)
    }

    /// The configuration of an existing volume. Options for a new volume must agree with it.
    fn existing(&self, wire: Option<Wire>) -> Result<Config> {
        let config = Config::read(&self.dir)?;
        // Checked before a node starts and fails for the same reason.
        config.key()?;
        let servers = &config.servers;
        let mut other = Vec::new();
        let count = config.server_ids().len();
        if let Some(asked) = self.servers.filter(|n| *n as usize != count) {
            other.push(format!(
                "--servers {asked}, and it has {}",
                output::count(count, "server")
            ));
        }
        if let Some(parity) = self.parity {
            other.push(format!(
                "--parity {parity}, which each directory has for itself (attribute user.weft.layout)"
            ));
        }
        let replicas = servers.iter().map(|s| config.replicas(s.id));
        let (least, most) = (replicas.clone().min(), replicas.max());
        if let Some(asked) = self.replicas
            && (least, most) != (Some(asked as usize), Some(asked as usize))
        {
            let most = most.unwrap_or(1);
            other.push(format!(
                "--replicas {asked}, and its servers have up to {most}"
            ));
        }
        if let Some(asked) = self.cache
            && let Some(server) = servers.iter().find(|s| s.cache != Some(asked))
        {
            let has = server
                .cache
                .map_or_else(|| "the default".to_owned(), |size| format!("'{size}'"));
            other.push(format!(
                "--cache '{asked}', and server-{} has {has}",
                server.id
            ));
        }
        if let Some(asked) = self.capacity
            && let Some(server) = servers.iter().find(|s| s.capacity != Some(asked))
        {
            let has = server.capacity.map_or_else(
                || "the size of its disk".to_owned(),
                |size| format!("'{size}'"),
            );
            other.push(format!(
                "--capacity '{asked}', and server-{} has {has}",
                server.id
            ));
        }
        let known = |disk: &PathBuf| {
            let disk = std::path::absolute(disk).unwrap_or_else(|_| disk.clone());
            let mut disks = servers.iter().flat_map(|s| &s.disks);
            disks.any(|known| config.at(known) == disk)
        };
        if let Some(disk) = self.disks.iter().find(|disk| !known(disk)) {
            let disk = disk.display();
            other.push(format!("--disks {disk}, which is not one of its disks"));
        }
        if let Some(asked) = wire.filter(|wire| *wire != config.volume.wire.0) {
            other.push(format!(
                "--wire {asked}, and it has {}",
                config.volume.wire.0
            ));
        }
        if !other.is_empty() {
            let dir = self.dir.display();
            bail!(
                "the volume {dir} exists with another configuration: {}. These options are for a new volume: leave them out, or stop \
                 the volume and edit {dir}/{FILE}",
                other.join("; ")
            );
        }
        Ok(config)
    }

    fn count(&self) -> u32 {
        let needed = self.parity.map_or(0, Shape::pieces);
        self.servers.unwrap_or(SERVERS_DEFAULT.max(needed))
    }

    fn replica_count(&self) -> u32 {
        let needed = self.parity.map_or(1, |parity| parity.parity() + 1);
        self.replicas.unwrap_or(needed)
    }

    /// The processes of the servers of a new volume.
    fn processes(&self) -> usize {
        (self.count() * self.replica_count()) as usize
    }

    /// The addresses of a new volume, for its nodes and their metrics.
    fn addresses(&self) -> Result<FreeAddresses> {
        let (count, replicas) = (self.count(), self.replica_count());
        if let Some(parity) = self.parity
            && (count < parity.pieces() || replicas <= parity.parity())
        {
            let (servers, copies) = (parity.pieces(), parity.parity() + 1);
            bail!("--parity {parity} needs {servers} servers with {copies} replicas each");
        }
        if count == 0 || count > 256 {
            bail!("--servers {count} is outside 1 to 256 (more: `weft format` and `weft serve`)");
        }
        if replicas == 0 || replicas > REPLICAS_MAX {
            bail!("--replicas {replicas} is outside 1 to {REPLICAS_MAX}");
        }
        free_addresses(2 * (self.processes() + 1))
    }

    /// Writes the configuration of a new volume and formats it.
    fn make(&self, addresses: &FreeAddresses, wire: Option<Wire>) -> Result<Config> {
        let (count, processes) = (self.count(), self.processes());
        if !self.disks.is_empty() && self.disks.len() < processes {
            bail!(
                "--disks names {}, too few for {}: each server, or replica of one, needs at least one",
                output::count(self.disks.len(), "disk"),
                output::count(processes, "process")
            );
        }
        let disks = self.disks.iter().map(std::path::absolute);
        let disks = disks.collect::<std::io::Result<Vec<_>>>()?;
        if let Some(disk) = disks.iter().find(|disk| !disk.exists()) {
            let disk = disk.display();
            bail!(
                "{disk} does not exist: mount the disk there, or make the folder (mkdir -p {disk})"
            );
        }
        let mut known = Vec::with_capacity(disks.len());
        for disk in &disks {
            let real = fs::canonicalize(disk)
                .with_context(|| format!("cannot look at {}", disk.display()))?;
            if known.contains(&real) {
                bail!(
                    "--disks names {} twice: a disk belongs to one server",
                    disk.display()
                );
            }
            known.push(real);
        }
        for disk in &disks {
            // Checked before any disk gets its label, so that a refused disk leaves the others
            // unused.
            check_new_disk(disk)?;
        }
        let holds = fs::read_dir(&self.dir)
            .with_context(|| format!("cannot look at {}", self.dir.display()))?;
        if holds
            .flatten()
            .any(|entry| !is_start_lock(&entry.file_name()))
        {
            bail!(
                "{} is not empty and holds no volume (no {FILE}): choose another folder, or empty it if a failed `weft up` left \
                 these files",
                self.dir.display()
            );
        }
        make_folder(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        let base = fs::canonicalize(&self.dir)?;
        let (addresses, metrics) = addresses.addresses.split_at(processes + 1);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let name = base
            .file_name()
            .map_or_else(|| "weft".into(), |n| n.to_string_lossy().into());
        let servers = (0..processes).map(|n| {
            let name = ServerName {
                id: n as u32 % count,
                replica: n as u32 / count,
            };
            ServerSection {
                id: name.id,
                replica: name.replica,
                address: addresses[n + 1].clone(),
                bind: None,
                folder: name.to_string().into(),
                metrics: Some(metrics[n + 1].clone()),
                data: self.disks.is_empty(),
                disks: disks.iter().skip(n).step_by(processes).cloned().collect(),
                capacity: self.capacity,
                cache: self.cache,
                threads: (cores / processes).clamp(1, 8),
            }
        });
        let config = Config {
            volume: VolumeSection {
                name,
                key: "volume.key".into(),
                local_sockets: true,
                shallow_idle: true,
                rebuild_rate: None,
                rebuild_after: RebuildAfter::default(),
                code_after: CodeAfter::default(),
                wire: wire.map_or_else(WireSetting::default, WireSetting),
            },
            meta: MetaSection {
                address: addresses[0].clone(),
                bind: None,
                folder: Some("meta".into()),
                metrics: Some(metrics[0].clone()),
                cache: None,
            },
            servers: servers.collect(),
            path: base.join(FILE),
            base,
        };
        // Written last: a folder with a configuration is a complete volume.
        let made = format::volume(&config, &config.nodes()).and_then(|()| config.write());
        made.inspect_err(|_| remove_unfinished(&config))?;
        Ok(config)
    }
}

/// The nodes that can be started. A replica without its folder does not stop the others of its
/// server: what to do about it.
fn present(config: &Config) -> (Vec<NodeName>, Vec<String>) {
    let (mut nodes, mut lost) = (Vec::new(), Vec::new());
    for node in config.nodes() {
        let has_others = match node {
            NodeName::Meta => false,
            NodeName::Server(name) => config.replicas(name.id) > 1,
        };
        let is_here = node
            .folder(config)
            .is_ok_and(|folder| Marker::exists(&folder));
        if has_others && !is_here {
            let dir = config.base.display();
            lost.push(format!(
                "{node} was not started: its folder is not there; mount its disk, or give it a successor with `weft --volume {dir} server replace {node}`"
            ));
        } else {
            nodes.push(node);
        }
    }
    (nodes, lost)
}

/// How many servers there are, and how many processes if they have replicas.
fn servers_of(config: &Config) -> String {
    let all = config.servers.len();
    let servers = config.server_ids().len();
    let text = output::count(servers, "server");
    if servers == all {
        return text;
    }
    format!("{text} with replicas ({all} processes)")
}

/// Removes an unfinished volume, so that `weft up` can try again. Disks that already have a label
/// keep it.
fn remove_unfinished(config: &Config) {
    for node in config.nodes() {
        if let Ok(folder) = node.folder(config) {
            let _ = fs::remove_dir_all(folder);
        }
    }
    for file in [
        Path::new(FILE),
        Path::new(ADDRESS),
        Path::new(WIRE),
        &config.volume.key,
    ] {
        let _ = fs::remove_file(config.at(file));
    }
    let _ = fs::remove_dir(&config.base);
}

/// A server without capacity would fail only at the first write, so it is refused here.
fn capacity(text: &str) -> Result<Size, String> {
    weft_layout::size::parse_positive(text).map(Size)
}

/// Refuses to go on with nodes whose settings differ from the configuration, and names the
/// differences.
fn refuse_changes(config: &Config) -> Result<()> {
    let mut other = Vec::new();
    for node in config.nodes() {
        let Some(running) = lock_of(config, node)?.filter(|running| !running.settings.is_empty())
        else {
            continue;
        };
        for difference in changed(&running.settings, config, node)? {
            other.push(format!("{node}: {difference}"));
        }
    }
    if other.is_empty() {
        return Ok(());
    }
    let dir = config.base.display();
    bail!(
        "the volume {dir} runs with another configuration than {} has now:\n  {}\nto apply the new one, run `weft down {dir}` and \
         `weft up {dir}`",
        config.path.display(),
        other.join("\n  ")
    )
}
