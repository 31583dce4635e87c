use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use weft_client::{FileKind, ServerMapReply, Volume};
use weft_layout::FileId;
use weft_proto::meta::Layout;
use weft_proto::parity_from_wire;

use crate::args::owner::Names;
use crate::args::{Global, mode};
use crate::remote::forks::{ForkRow, fork_table, forks};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::output::{self, Table};
use crate::terminal::{Problems, name};

/// Show the attributes and layout of files, and the length of each cell and fork
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft stat /grid\n  weft stat --json /grid | jq '.[0].forks[].length'\n\n\
                        The size is exact even while the file is being written: its servers are asked."
)]
pub(crate) struct Stat {
    /// The files; a symbolic link is shown itself
    #[arg(value_name = "FILE", required = true, value_parser = remote::parser())]
    files: Vec<RemotePath>,
    /// Follow symbolic links
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One file, for programs.
#[derive(Serialize)]
struct FileRow {
    path: String,
    id: u64,
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    links: u32,
    size: u64,
    stored: u64,
    #[serde(serialize_with = "name::as_rfc3339")]
    accessed: i64,
    #[serde(serialize_with = "name::as_rfc3339")]
    modified: i64,
    #[serde(serialize_with = "name::as_rfc3339")]
    changed: i64,
    #[serde(serialize_with = "name::as_rfc3339")]
    created: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<LayoutRow>,
    /// Of a file with cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    redundancy: Option<RedundancyRow>,
    #[serde(skip_serializing_if = "String::is_empty")]
    policy: String,
    forks: Vec<ForkRow>,
}

/// A layout, for programs.
#[derive(Serialize)]
struct LayoutRow {
    cells: u32,
    bsu: u64,
    chunk: u32,
    servers: Vec<u32>,
    storage: &'static str,
    /// K+M.
    #[serde(skip_serializing_if = "Option::is_none")]
    parity: Option<String>,
}

/// How often the bytes of a file are kept, for programs.
#[derive(Serialize)]
struct RedundancyRow {
    /// The replicas of the server that has the fewest.
    replicas: usize,
    /// Those in sync, of the server that has the fewest.
    in_sync: usize,
    /// Whether the file is coded: replicas hold what was written since. Absent: it has no parity.
    #[serde(skip_serializing_if = "Option::is_none")]
    coded: Option<bool>,
}

impl Stat {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            let mut rows = Vec::new();
            for path in &self.files {
                rows.extend(problems.note(self.row(&volume, path).await));
            }
            if self.json {
                output::json(&rows)?;
            } else {
                let mut names = Names::default();
                for (i, row) in rows.iter().enumerate() {
                    if i > 0 {
                        output::line("")?;
                    }
                    output::line(row.table(&mut names))?;
                    if row.kind == remote::kind_name(FileKind::Regular) {
                        output::line("")?;
                        output::line(fork_table(&row.forks))?;
                    }
                }
            }
            Ok(problems.exit_code())
        })
    }

    async fn row(&self, volume: &Volume, path: &RemotePath) -> Result<FileRow> {
        let a = if self.dereference {
            volume.stat(path).await?
        } else {
            volume.stat_link(path).await?
        };
        let kind = remote::kind(&a);
        let target = if kind == FileKind::Symlink {
            Some(name::escape(&volume.read_link(path).await?))
        } else {
            None
        };
        let forks = forks(volume, path, &a).await?;
        let mut redundancy = match &a.layout {
            Some(layout) if kind == FileKind::Regular => {
                redundancy(&volume.server_map().await?, &layout.servers)
            }
            _ => None,
        };
        if let Some(redundancy) = &mut redundancy
            && let Some(parity) = volume.parity_of(FileId(a.id)).await?
        {
            redundancy.coded = Some(parity.coded.is_some());
        }
        Ok(FileRow {
            path: path.to_string(),
            id: a.id,
            kind: remote::kind_name(kind),
            mode: format!("{:04o}", a.mode),
            uid: a.uid,
            gid: a.gid,
            links: a.links,
            size: a.size,
            stored: forks.iter().map(ForkRow::stored).sum(),
            accessed: a.accessed,
            modified: a.modified,
            changed: a.changed,
            created: a.created,
            target,
            device: matches!(kind, FileKind::BlockDevice | FileKind::CharDevice)
                .then_some(a.device),
            layout: a.layout.map(LayoutRow::from),
            redundancy,
            policy: a.policy,
            forks,
        })
    }
}

/// How often bytes on these servers are kept; `None`: on none.
fn redundancy(map: &ServerMapReply, servers: &[u32]) -> Option<RedundancyRow> {
    let of = |id: &u32| map.servers.iter().find(|server| server.id == *id);
    let counts = servers.iter().filter_map(of).map(|server| {
        let in_sync = server.replicas.iter().filter(|r| r.in_sync).count();
        match server.replicas.len() {
            0 => (1, 1),
            all => (all, in_sync),
        }
    });
    Some(RedundancyRow {
        replicas: counts.clone().map(|(all, _)| all).min()?,
        in_sync: counts.map(|(_, in_sync)| in_sync).min()?,
        coded: None,
    })
}

impl From<Layout> for LayoutRow {
    fn from(layout: Layout) -> LayoutRow {
        LayoutRow {
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers,
            storage: if layout.storage == 0 {
                "plain"
            } else {
                "addressed"
            },
            parity: parity_from_wire(layout.parity)
                .ok()
                .flatten()
                .map(|shape| shape.to_string()),
        }
    }
}

impl FileRow {
    fn table(&self, names: &mut Names) -> Table {
        let mut table = output::table(&[&self.path, self.kind]);
        let mut row = |what: &str, value: String| {
            table.add_row(vec![what.to_owned(), value]);
        };
        if let Some(target) = &self.target {
            row("leads to", target.clone());
        }
        if let Some(device) = self.device {
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            row("device", format!("{major}, {minor}"));
        }
        row("id", self.id.to_string());
        row(
            "size",
            format!("{} ({})", self.size, output::bytes(self.size)),
        );
        if self.kind == remote::kind_name(FileKind::Regular) {
            row("on disk", output::bytes(self.stored));
        }
        let bits = mode::show(u32::from_str_radix(&self.mode, 8).unwrap_or(0));
        row("mode", format!("{} {bits}", self.mode));
        row("owner", format!("{} ({})", names.user(self.uid), self.uid));
        row("group", format!("{} ({})", names.group(self.gid), self.gid));
        row("links", self.links.to_string());
        row("modified", name::time(self.modified, true));
        row("accessed", name::time(self.accessed, true));
        row("changed", name::time(self.changed, true));
        row("created", name::time(self.created, true));
        if let Some(layout) = &self.layout {
            row("layout", layout.to_text());
        }
        if let Some(kept) = &self.redundancy {
            row("redundancy", kept.to_text());
        }
        if !self.policy.is_empty() {
            row("policy", self.policy.clone());
        }
        table
    }
}

impl RedundancyRow {
    fn to_text(&self) -> String {
        let written = match self.coded {
            Some(true) => "parity; what was written since it was coded: ",
            Some(false) => "not coded yet: ",
            None => "",
        };
        let kept = match (self.replicas, self.in_sync) {
            (1, _) => "none: each byte is kept once".to_owned(),
            (all, in_sync) if in_sync == all => format!("{all} replicas, all in sync"),
            (all, in_sync) => format!("{all} replicas, {in_sync} in sync on some server"),
        };
        format!("{written}{kept}")
    }
}

impl LayoutRow {
    fn to_text(&self) -> String {
        let servers: Vec<String> = self.servers.iter().map(u32::to_string).collect();
        let servers = if servers.is_empty() {
            "any".to_owned()
        } else {
            servers.join(",")
        };
        // What a directory leaves open for its files is 0.
        let open = |n: u64, text: String| if n == 0 { "any".to_owned() } else { text };
        format!(
            "{}, BSU {}, chunk {}, servers {servers}, {}",
            open(self.cells.into(), output::count(self.cells, "cell")),
            open(self.bsu, output::bytes(self.bsu)),
            open(self.chunk.into(), output::bytes(self.chunk.into())),
            match &self.parity {
                Some(shape) => format!("parity {shape}"),
                None => self.storage.to_owned(),
            }
        )
    }
}
