//! A node that joins a running volume from this machine: shared by `weft join` and `weft server`.
//!
//! Every step can be repeated: the id of the new store is durable before the metadata service is
//! asked, the same store gets the same name again, and its marker says until the end what it joins
//! as.

use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use anyhow::{Context, Result, bail};
use clap::Args;
use weft_client::{ConnectOptions, JoinServerReply, JoinServerRequest, ServerMapReply, Volume};

use super::nodes::StartedNodes;
use crate::limits::{JOIN_PORTS, SERVER_MAP_POLL_INTERVAL};
use crate::process::private_files::write_durably;
use crate::remote::connect;
use crate::remote::servers::{NodeState, state_of};
use crate::volume_config::{
    ADDRESS, CodeAfter, Config, FILE, FreeAddresses, JOINING, Marker, MetaSection, NodeName,
    RebuildAfter, ServerName, ServerSection, Size, VolumeSection, WireSetting, add_section,
    check_new_disk, free_addresses, hex, label_disks, volume_id,
};

/// How the new node is set up.
#[derive(Args)]
pub(super) struct NewNode {
    /// Address where it listens, as other machines reach it [default: the address of this machine
    /// towards the metadata service, and the first free port from 4700 on]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Failure domain, such as a rack: no two replicas of a server are in one
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    domain: String,
    /// Folders or block devices for its data [default: its folder]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    disks: Vec<PathBuf>,
    /// Bytes that it may hold on each disk that is a folder [default: what the file system has]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,
    /// Cache memory [default: a share of the memory of the machine or container]
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
    /// Seconds to wait until it serves
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    wait: u64,
}

/// What the new node becomes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A server that holds files of its own.
    NewServer,
    /// A replica of this server.
    ReplicaOf(u32),
    /// A replica that this server lacks.
    Missing(u32),
    /// A replica in the place of this one.
    Instead(ServerName),
}

impl Place {
    /// The place that an attempt in this folder was about to take, if one was.
    pub(super) fn of_last(folder: &Path) -> Result<Option<Place>> {
        let Some(place) = Marker::unfinished(folder) else {
            return Ok(None);
        };
        let mut words = place.split(' ');
        let found = words.find_map(|word| {
            let name: ServerName = word.parse().ok()?;
            let of_name = [Place::Instead(name), Place::Missing(name.id)];
            of_name.into_iter().find(|known| known.to_string() == place)
        });
        found.map(Some).with_context(|| {
            format!(
                "{} is left from an attempt to join as {place}: repeat that one",
                folder.display()
            )
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::NewServer => f.write_str("a new server"),
            Place::ReplicaOf(id) => write!(f, "a replica of server {id}"),
            Place::Missing(id) => write!(f, "a replica that server {id} lacks"),
            Place::Instead(name) => write!(f, "a replica in the place of {name}"),
        }
    }
}

/// The server of `--replica-of`: a number, or `any` for the one with the fewest replicas.
pub(super) fn server_of(text: &str, map: &ServerMapReply) -> Result<u32> {
    if text != "any" {
        let number = text.strip_prefix("server-").unwrap_or(text);
        return number.parse().with_context(|| {
            format!(
                "{text:?} is no server: give its number, as `weft server list` shows it, or `any`"
            )
        });
    }
    let stay = |s: &weft_client::Server| s.replicas.iter().filter(|r| !r.leaving).count().max(1);
    let fewest = map
        .servers
        .iter()
        .min_by_key(|server| (stay(server), server.id));
    Ok(fewest.context("the volume has no server")?.id)
}

/// Where the node is kept on this machine.
pub(super) enum Home {
    /// In the folder of a volume that runs here, whose configuration gets its section.
    Volume(Box<Config>),
    /// In a folder of its own.
    Folder(PathBuf),
}

impl Home {
    /// The section of the node whose join has not ended.
    fn section(&self) -> Option<ServerSection> {
        let node = Marker::unfinished_node(self.base())?;
        let config = Config::read(self.base()).ok()?;
        let mut sections = config.servers.into_iter();
        sections.find(|section| section.name().to_string() == node)
    }

    fn base(&self) -> &Path {
        match self {
            Home::Volume(config) => &config.base,
            Home::Folder(folder) => folder,
        }
    }
}

/// A node that has joined.
pub(super) struct Joined {
    pub(super) name: ServerName,
    pub(super) config: Config,
    pub(super) volume: String,
}

impl NewNode {
    /// How long the node may take until it serves.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// Lets a new node join the volume and starts it. Returns when it serves.
    pub(super) fn join(
        &self,
        options: &ConnectOptions,
        place: impl FnOnce(&ServerMapReply) -> Result<Place>,
        home: Home,
    ) -> Result<Joined> {
        let deadline = Instant::now() + Duration::from_secs(self.wait);
        let disks = self.disks.iter().map(std::path::absolute);
        let disks = disks.collect::<std::io::Result<Vec<_>>>()?;
        let known = home.section();
        if !Marker::is_joining(home.base()) {
            for disk in &disks {
                check_new_disk(disk)?;
            }
        }
        let (address, metrics, _held) = match &known {
            // An earlier attempt has come so far.
            Some(section) => (section.address.clone(), section.metrics.clone(), None),
            None => self.addresses(&options.address)?,
        };
        let volume = volume_id(&options.key);
        let (reply, begun, marker) = connect::block_on(async {
            let connected = Volume::connect(options.clone()).await?;
            let place = place(&connected.server_map().await?)?;
            // The volume answers, and nothing is left behind if it does not.
            let (begun, marker) = Marker::joining(home.base(), volume, &place.to_string())?;
            let (server, replaces) = match place {
                Place::NewServer => (None, None),
                Place::ReplicaOf(server) | Place::Missing(server) => (Some(server), None),
                Place::Instead(name) => (Some(name.id), Some(name.replica)),
            };
            let request = JoinServerRequest {
                address: address.clone(),
                store: marker.store.clone().into_bytes().into(),
                server,
                replaces,
                domain: self.domain.clone(),
                missing: matches!(place, Place::Missing(_)),
            };
            let reply = connected.join_server(request).await;
            if reply.is_err() && marker.node == JOINING {
                // It was refused, or nobody knows: the same id of a store would be asked for again.
                let refused = !matches!(
                    reply,
                    Err(weft_client::Error::Unreachable { .. }
                        | weft_client::Error::MayHaveHappened { .. })
                );
                if refused {
                    let _ = fs::remove_dir_all(&begun);
                }
            }
            Ok((reply?, begun, marker))
        })?;
        let reply: JoinServerReply = reply;
        let name = ServerName {
            id: reply.server,
            replica: reply.replica,
        };
        let node = NodeName::Server(name);
        let processes = match &home {
            Home::Volume(config) => config.servers.len() + 1,
            Home::Folder(_) => 1,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let section = ServerSection {
            id: name.id,
            replica: name.replica,
            address,
            bind: None,
            folder: name.to_string().into(),
            data: disks.is_empty(),
            disks,
            metrics,
            capacity: self.capacity,
            cache: self.cache,
            threads: (cores / processes).clamp(1, 8),
        };
        let folder = home.base().join(&section.folder);
        let marker = marker.named(node);
        marker.write(&begun)?;
        if begun != folder {
            fs::rename(&begun, &folder).with_context(|| {
                format!("cannot rename {} to {}", begun.display(), folder.display())
            })?;
        }
        // The configuration is written last: with it the node is complete.
        let config = match home {
            Home::Volume(config) if config.server(name).is_ok() => *config,
            Home::Volume(config) => {
                let mut with = (*config).clone();
                with.servers.push(section.clone());
                label(&with, name)?;
                add_section(&config, &section)?
            }
            Home::Folder(folder) if known.is_some() => Config::read(&folder)?,
            Home::Folder(folder) => new_config(&folder, options, &reply.volume, section)?,
        };
        let started = StartedNodes::start(&config, &[node], None)?;
        wait_until_up(options, name, started, &config, deadline)?;
        marker.joined().write(&folder)?;
        Ok(Joined {
            name,
            config,
            volume: reply.volume,
        })
    }

    /// The node's address, that of its metrics, and what keeps others from taking them until it
    /// listens.
    fn addresses(&self, meta: &str) -> Result<(String, Option<String>, Option<FreeAddresses>)> {
        if let Some(listen) = &self.listen {
            let port = listen.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(_))) {
                bail!("{listen:?} is not an address: write HOST:PORT");
            }
            // Before the volume counts with it.
            TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
            return Ok((listen.clone(), None, None));
        }
        let here = towards(meta)?;
        if here.is_loopback() {
            let free = free_addresses(2)?;
            let (address, metrics) = (free.addresses[0].clone(), free.addresses[1].clone());
            return Ok((address, Some(metrics), Some(free)));
        }
        let host = match here {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        Ok((free_address(&host)?, None, None))
    }
}

/// A free address of this machine.
pub(super) fn free_address(host: &str) -> Result<String> {
    let mut addresses = JOIN_PORTS.map(|port| format!("{host}:{port}"));
    let free = addresses.find(|address| TcpListener::bind(address).is_ok());
    free.with_context(|| {
        format!(
            "no port from {} to {} of {host} is free: name one by --listen",
            JOIN_PORTS.start,
            JOIN_PORTS.end - 1
        )
    })
}

/// The address of this machine that the metadata service sees.
fn towards(meta: &str) -> Result<IpAddr> {
    let bound = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"));
    let found = bound.and_then(|socket| {
        socket.connect(meta)?;
        socket.local_addr()
    });
    let found = found.with_context(|| {
        format!("cannot tell the address of this machine towards {meta}: name it by --listen")
    })?;
    Ok(found.ip().to_canonical())
}

/// The configuration of a node in a folder of its own.
fn new_config(
    folder: &Path,
    options: &ConnectOptions,
    volume: &str,
    section: ServerSection,
) -> Result<Config> {
    let config = Config {
        volume: VolumeSection {
            name: volume.to_owned(),
            key: "volume.key".into(),
            local_sockets: true,
            shallow_idle: true,
            rebuild_rate: None,
            rebuild_after: RebuildAfter::default(),
            code_after: CodeAfter::default(),
            wire: WireSetting(options.wire),
        },
        meta: MetaSection {
            address: options.address.clone(),
            bind: None,
            folder: None,
            metrics: None,
            cache: None,
        },
        servers: vec![section],
        path: folder.join(FILE),
        base: folder.to_owned(),
    };
    let key = config.at(&config.volume.key);
    write_durably(&key, &format!("{}\n", hex(&options.key.0)))?;
    let address = format!("{}\n", options.address);
    write_durably(&config.at(Path::new(ADDRESS)), &address)?;
    config.write_wire_file()?;
    label(&config, config.servers[0].name())?;
    config.write()?;
    Ok(config)
}

/// Labels the disks of a new node.
fn label(config: &Config, name: ServerName) -> Result<()> {
    let section = config.server(name)?;
    if !section.disks.is_empty() {
        label_disks(config, section)?;
    }
    Ok(())
}

/// Waits until the metadata service has heard of the node.
fn wait_until_up(
    options: &ConnectOptions,
    name: ServerName,
    mut started: StartedNodes,
    config: &Config,
    deadline: Instant,
) -> Result<()> {
    started.wait_for(config, &[NodeName::Server(name)], deadline)?;
    connect::block_on(async {
        let volume = Volume::connect(options.clone()).await?;
        while state_of(&volume.server_map().await?, name) != NodeState::Up {
            if Instant::now() > deadline {
                bail!(
                    "{name} did not register with the metadata service: see {}, or wait longer with --wait",
                    NodeName::Server(name).log(config).display()
                );
            }
            tokio::time::sleep(SERVER_MAP_POLL_INTERVAL).await;
        }
        Ok(())
    })?;
    started.keep();
    Ok(())
}
