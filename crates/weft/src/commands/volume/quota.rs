use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;
use weft_client::{NewBounds, Payer, Quota as Found, QuotaKind, Volume};

use crate::args::Global;
use crate::args::owner::{self, Names};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::name;
use crate::terminal::output::{self, bytes};
use crate::volume_config::Size;

/// Bound and show what users, groups and directory trees use
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft quota                                             what everybody uses and may use
  weft quota set --user alice --bytes 10GiB --files 100k
  weft quota set --tree /projects/x --bytes 2TiB         the directory with all below it
  weft quota set --group users --files none              no bound of files; that of bytes stays
  weft quota show /projects/x/run7                       what this file or directory counts for
  weft quota show --user alice                           exit code 1 if more is used than allowed
  weft quota clear --tree /projects/x

Bytes are the sizes of files as `ls` shows them, holes included; files are files, directories, links and nodes. Checkpoints
are free. Only root sets bounds; root sees everybody's, others their own. When a bound is reached, creating and growing fail
with \"Disk quota exceeded\"; overwriting and deleting go on. Files being written may pass a bound by what is written at the
same moment: see docs/operating.md.")]
pub(crate) struct Quota {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Set or change bounds
    Set(Set),
    /// List what everybody uses and may use, as far as you may see it
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Only who has a bound
        #[arg(long)]
        bounded: bool,
    },
    /// Show what a file or directory counts for, or one user, group or tree; exit code 1 if more is
    /// used than allowed
    Show(Show),
    /// Remove bounds; a tree's files then count for the next quota above only
    Clear(Clear),
}

#[derive(Args)]
#[command(group = ArgGroup::new("bounds").required(true).multiple(true).args(["bytes", "files", "count"]))]
struct Set {
    #[command(flatten)]
    who: Who,
    /// The most bytes: a size (10GiB), or `none`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<Most>,
    /// The most files: a number (100k, 2M: thousands, millions), or `none`
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    files: Option<Most>,
    /// Only count, without a bound
    #[arg(long)]
    count: bool,
}

#[derive(Args)]
struct Show {
    /// The file or directory
    #[arg(value_parser = remote::parser(), required_unless_present = "payer", conflicts_with = "payer")]
    path: Option<RemotePath>,
    #[command(flatten)]
    who: MaybeWho,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Clear {
    #[command(flatten)]
    who: Who,
}

#[derive(Args)]
#[group(id = "payer", required = true, multiple = false)]
struct Who {
    /// What this user owns: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::user)]
    user: Option<u32>,
    /// What belongs to this group: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::group)]
    group: Option<u32>,
    /// This directory with everything below it
    #[arg(long, value_name = "PATH", value_parser = remote::parser())]
    tree: Option<RemotePath>,
}

#[derive(Args)]
#[group(id = "payer", multiple = false)]
struct MaybeWho {
    /// What this user owns: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::user)]
    user: Option<u32>,
    /// What belongs to this group: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::group)]
    group: Option<u32>,
    /// This directory with everything below it
    #[arg(long, value_name = "PATH", value_parser = remote::parser())]
    tree: Option<RemotePath>,
}

/// A bound on the command line; `None`: there is to be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Most(Option<u64>);

fn size(text: &str) -> Result<Most, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    let size: Size = text.parse()?;
    Ok(Most(Some(size.0)))
}

fn number(text: &str) -> Result<Most, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    let (digits, times) = match text.to_ascii_lowercase().as_bytes() {
        [digits @ .., b'k'] => (digits.len(), 1000),
        [digits @ .., b'm'] => (digits.len(), 1_000_000),
        [digits @ .., b'g'] => (digits.len(), 1_000_000_000),
        all => (all.len(), 1_u64),
    };
    let value: Option<u64> = text[..digits].parse().ok();
    let value = value.and_then(|value| value.checked_mul(times));
    let wrong = || format!("{text:?} is no number of files: write 5000, 100k, 2M or none");
    value.map(|value| Most(Some(value))).ok_or_else(wrong)
}

fn payer(user: Option<u32>, group: Option<u32>, tree: Option<&RemotePath>) -> Option<Payer> {
    let user = user.map(Payer::User).or(group.map(Payer::Group));
    user.or_else(|| Some(Payer::Tree(tree?.into())))
}

impl Who {
    fn payer(&self) -> Payer {
        payer(self.user, self.group, self.tree.as_ref()).expect("the parser asks for one of them")
    }
}

#[derive(Serialize)]
struct Row {
    kind: &'static str,
    id: u64,
    name: String,
    bytes: u64,
    bytes_max: Option<u64>,
    files: u64,
    files_max: Option<u64>,
    exceeded: bool,
}

impl Row {
    fn new(quota: &Found, names: &mut Names) -> Row {
        let id = u32::try_from(quota.id).unwrap_or(u32::MAX);
        let (kind, name) = match quota.kind {
            QuotaKind::User => ("user", names.user(id)),
            QuotaKind::Group => ("group", names.group(id)),
            QuotaKind::Tree if quota.path.is_empty() => ("tree", "(removed)".to_owned()),
            QuotaKind::Tree => ("tree", name::escape(&quota.path)),
            QuotaKind::Unspecified => ("unknown", String::new()),
        };
        Row {
            kind,
            id: quota.id,
            name,
            bytes: quota.bytes,
            bytes_max: quota.bytes_max,
            files: quota.files,
            files_max: quota.files_max,
            exceeded: quota.is_exceeded(),
        }
    }
}

fn print(quotas: &[Found], json: bool) -> Result<()> {
    let mut names = Names::default();
    let rows: Vec<Row> = quotas.iter().map(|q| Row::new(q, &mut names)).collect();
    if json {
        return output::json(&rows);
    }
    let mut table = output::table(&["", "NAME", "BYTES", "LIMIT", "FILES", "LIMIT"]);
    for row in rows {
        let most = |most: Option<u64>, show: fn(u64) -> String| most.map_or("-".into(), show);
        let mark = |used: u64, most: Option<u64>| {
            if most.is_some_and(|most| used > most) {
                "!"
            } else {
                ""
            }
        };
        let (of_bytes, of_files) = (
            mark(row.bytes, row.bytes_max),
            mark(row.files, row.files_max),
        );
        table.add_row(vec![
            row.kind.to_owned(),
            row.name,
            bytes(row.bytes),
            most(row.bytes_max, bytes) + of_bytes,
            row.files.to_string(),
            most(row.files_max, |n| n.to_string()) + of_files,
        ]);
    }
    output::line(table)
}

impl Quota {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let json = self.json;
            match self.action {
                None => print(&volume.quotas().await?, json)?,
                Some(Action::List { json: too, bounded }) => {
                    let mut found = volume.quotas().await?;
                    let has = |q: &Found| q.bytes_max.is_some() || q.files_max.is_some();
                    found.retain(|quota| !bounded || has(quota));
                    print(&found, json || too)?;
                }
                Some(Action::Set(set)) => {
                    let bounds = NewBounds {
                        bytes: set.bytes.map(|most| most.0),
                        files: set.files.map(|most| most.0),
                    };
                    volume.set_quota(&set.who.payer(), bounds).await?;
                }
                Some(Action::Clear(clear)) => drop(volume.clear_quota(&clear.who.payer()).await?),
                Some(Action::Show(show)) => return show.run(&volume, json).await,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Show {
    async fn run(&self, volume: &Volume, json: bool) -> Result<ExitCode> {
        let who = &self.who;
        let found = match (payer(who.user, who.group, who.tree.as_ref()), &self.path) {
            (Some(payer), _) => volume.quota(&payer).await?.into_iter().collect(),
            (None, Some(path)) => volume.quotas_of(path).await?,
            (None, None) => Vec::new(),
        };
        print(&found, json || self.json)?;
        if found.iter().any(Found::is_exceeded) {
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_people_write_them() {
        assert_eq!(size("10GiB"), Ok(Most(Some(10 << 30))));
        assert_eq!(number("100k"), Ok(Most(Some(100_000))));
        assert_eq!(number("2M"), Ok(Most(Some(2_000_000))));
        assert_eq!(
            (size("none"), number("none")),
            (Ok(Most(None)), Ok(Most(None)))
        );
        for text in ["", "k", "1.5k", "-1", "99999999999g", "1kk", "ä"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
