use std::io::{BufWriter, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use weft_client::{Attributes, FileKind, Listed, Volume};

use crate::args::owner::Names;
use crate::args::{Global, mode};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::{Problems, name, output};

/// List directories
#[derive(Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[command(
    after_help = "Examples:\n  weft ls\n  weft ls -l /results\n  weft ls -lR --json / > everything.json\n\n\
                        1,000 names with their attributes cost one request. A size followed by ~ is the last \
                        reported one, because the file is being written (`weft stat` asks the servers). Times are \
                        UTC. On a terminal, unprintable characters in names are escaped."
)]
pub(crate) struct Ls {
    /// Directories and files to list
    #[arg(value_name = "PATH", default_value = "/", value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Also show modes, link counts, owners, sizes and times
    #[arg(short)]
    long: bool,
    /// Also list names that start with a dot
    #[arg(short, long)]
    all: bool,
    /// Also list all directories below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List directories themselves, not their entries
    #[arg(short, long)]
    directory: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One entry, for programs.
#[derive(Serialize)]
struct Row {
    path: String,
    kind: &'static str,
    id: u64,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    size: u64,
    size_exact: bool,
    #[serde(serialize_with = "name::as_rfc3339")]
    modified: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// Where entries go.
struct Printer<'a> {
    ls: &'a Ls,
    out: BufWriter<std::io::Stdout>,
    names: Names,
    rows: Vec<Row>,
    begun: bool,
}

impl Ls {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            let mut printer = Printer {
                ls: &self,
                out: BufWriter::new(std::io::stdout()),
                names: Names::default(),
                rows: Vec::new(),
                begun: false,
            };
            let mut directories = Vec::new();
            for path in &self.paths {
                // A named link is followed, unless its own line is wanted.
                let found = if self.directory || self.long {
                    volume.stat_link(path).await
                } else {
                    volume.stat(path).await
                };
                let Some(attributes) = problems.note(found) else {
                    continue;
                };
                if remote::is_directory(&attributes) && !self.directory {
                    directories.push(path.clone());
                } else {
                    let shown = path.as_ref().to_vec();
                    printer
                        .page(&volume, vec![(path.clone(), shown, attributes)])
                        .await?;
                }
            }
            let titled = self.recursive || self.paths.len() > 1;
            // A stack, so that a directory is followed by those below it.
            directories.reverse();
            while let Some(path) = directories.pop() {
                if titled {
                    printer.title(&path)?;
                }
                let below = self
                    .directory(&volume, &path, &mut printer, &problems)
                    .await?;
                directories.extend(below.into_iter().rev());
            }
            printer.finish()?;
            Ok(problems.exit_code())
        })
    }

    /// Prints one directory; the directories in it are returned if they are wanted.
    async fn directory(
        &self,
        volume: &Volume,
        path: &RemotePath,
        printer: &mut Printer<'_>,
        problems: &Problems,
    ) -> Result<Vec<RemotePath>> {
        let mut below = Vec::new();
        let mut listing = volume.list(path);
        loop {
            let Some(page) = problems.note(listing.page().await) else {
                return Ok(below);
            };
            if page.is_empty() {
                return Ok(below);
            }
            let wanted = |e: &Listed| self.all || !e.name.starts_with(b".");
            let page: Vec<_> = page
                .into_iter()
                .filter(wanted)
                .map(|e| (path.join(&e.name), e.name.to_vec(), e.attributes))
                .collect();
            if self.recursive {
                let directories = page.iter().filter(|(_, _, a)| remote::is_directory(a));
                below.extend(directories.map(|(path, _, _)| path.clone()));
            }
            printer.page(volume, page).await?;
        }
    }
}

impl Printer<'_> {
    fn title(&mut self, path: &RemotePath) -> Result<()> {
        if self.ls.json {
            return Ok(());
        }
        if self.begun {
            writeln!(self.out)?;
        }
        self.begun = true;
        self.out.write_all(&name::for_output(path.as_ref()))?;
        writeln!(self.out, ":")?;
        Ok(())
    }

    /// Prints entries: where they are, what to call them, what they are.
    async fn page(
        &mut self,
        volume: &Volume,
        page: Vec<(RemotePath, Vec<u8>, Attributes)>,
    ) -> Result<()> {
        let mut lines = Vec::new();
        for (path, shown, a) in page {
            self.begun = true;
            let link = remote::kind(&a) == FileKind::Symlink && (self.ls.long || self.ls.json);
            let target = if link {
                volume.read_link(&path).await.ok()
            } else {
                None
            };
            if self.ls.json {
                self.rows.push(Row {
                    path: path.to_string(),
                    kind: remote::kind_name(remote::kind(&a)),
                    id: a.id,
                    mode: format!("{:04o}", a.mode),
                    links: a.links,
                    uid: a.uid,
                    gid: a.gid,
                    size: a.size,
                    size_exact: a.size_exact,
                    modified: a.modified,
                    target: target.as_deref().map(name::escape),
                });
            } else if self.ls.long {
                lines.push(self.long(&a, &shown, target.as_deref()));
            } else {
                self.out.write_all(&name::for_output(&shown))?;
                writeln!(self.out)?;
            }
        }
        let width = |i: usize| {
            lines
                .iter()
                .map(|l: &Line| l.columns[i].chars().count())
                .max()
        };
        let widths = [0, 1, 2, 3, 4, 5].map(|i| width(i).unwrap_or(0));
        for line in &lines {
            let [mode, names, user, group, size, time] = &line.columns;
            let [_, l, u, g, s, _] = widths;
            write!(
                self.out,
                "{mode} {names:>l$} {user:<u$} {group:<g$} {size:>s$} {time} "
            )?;
            self.out.write_all(&line.name)?;
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn long(&mut self, a: &Attributes, shown: &[u8], target: Option<&[u8]>) -> Line {
        let kind = remote::kind(a);
        let letter = match kind {
            FileKind::Regular => '-',
            FileKind::Directory => 'd',
            FileKind::Symlink => 'l',
            FileKind::Fifo => 'p',
            FileKind::Socket => 's',
            FileKind::BlockDevice => 'b',
            FileKind::CharDevice => 'c',
            FileKind::Unspecified => '?',
        };
        let size = match kind {
            FileKind::BlockDevice | FileKind::CharDevice => {
                format!(
                    "{},{}",
                    rustix::fs::major(a.device),
                    rustix::fs::minor(a.device)
                )
            }
            FileKind::Regular if !a.size_exact => format!("{}~", a.size),
            _ => a.size.to_string(),
        };
        let mut name = name::for_output(shown);
        if let Some(target) = target {
            name.extend_from_slice(b" -> ");
            name.extend(name::for_output(target));
        }
        let columns = [
            format!("{letter}{}", mode::show(a.mode)),
            a.links.to_string(),
            self.names.user(a.uid),
            self.names.group(a.gid),
            size,
            name::time(a.modified, false),
        ];
        Line { columns, name }
    }

    fn finish(mut self) -> Result<()> {
        if self.ls.json {
            output::json(&self.rows)?;
        }
        Ok(self.out.flush()?)
    }
}

/// A line of the long form.
struct Line {
    columns: [String; 6],
    name: Vec<u8>,
}
