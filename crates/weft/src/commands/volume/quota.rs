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

/// Show and limit the space and files that users, groups and directory trees use
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft quota                                             usage and limits of all users, groups and trees
  weft quota set --user alice --bytes 10GiB --files 100k
  weft quota set --tree /projects/x --bytes 2TiB         a directory with everything below it
  weft quota set --group users --files none              removes the limit on files; the one on bytes stays
  weft quota show /projects/x/run7                       the quotas that this file or directory counts towards
  weft quota show --user alice                           exit code 1 if a limit is exceeded
  weft quota clear --tree /projects/x

Bytes are file sizes as `ls` shows them, holes included. Files include directories, links and device nodes. Checkpoints do not
count. Only root sets limits; root sees all quotas, other users their own. At a limit, creating files and growing them fails with
\"Disk quota exceeded\"; overwriting and deleting still work. Writes in progress may exceed a limit slightly: see
docs/operating.md.")]
pub(crate) struct Quota {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Set or change limits
    Set(Set),
    /// List the usage and limits that you may see
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Only quotas with a limit
        #[arg(long)]
        bounded: bool,
    },
    /// Show the quotas that a file or directory counts towards, or that of a user, group or tree;
    /// exit code 1 if a limit is exceeded
    Show(Show),
    /// Remove limits; the files of a tree then count towards the next quota above
    Clear(Clear),
}

#[derive(Args)]
#[command(group = ArgGroup::new("bounds").required(true).multiple(true).args(["bytes", "files", "count"]))]
struct Set {
    #[command(flatten)]
    payer: PayerArgs,
    /// Limit on bytes: a size (10GiB), or `none`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<Most>,
    /// Limit on files: a number (100k, 2M for thousands, millions), or `none`
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    files: Option<Most>,
    /// Only count usage, without a limit
    #[arg(long)]
    count: bool,
}

#[derive(Args)]
struct Show {
    /// The file or directory
    #[arg(value_parser = remote::parser(), required_unless_present = "payer", conflicts_with = "payer")]
    path: Option<RemotePath>,
    #[command(flatten)]
    payer: OptionalPayerArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Clear {
    #[command(flatten)]
    payer: PayerArgs,
}

#[derive(Args)]
#[group(id = "payer", required = true, multiple = false)]
struct PayerArgs {
    /// The files of this user: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::user)]
    user: Option<u32>,
    /// The files of this group: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::group)]
    group: Option<u32>,
    /// This directory and everything below it
    #[arg(long, value_name = "PATH", value_parser = remote::parser())]
    tree: Option<RemotePath>,
}

#[derive(Args)]
#[group(id = "payer", multiple = false)]
struct OptionalPayerArgs {
    /// The files of this user: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::user)]
    user: Option<u32>,
    /// The files of this group: name or number
    #[arg(long, value_name = "NAME", value_parser = owner::group)]
    group: Option<u32>,
    /// This directory and everything below it
    #[arg(long, value_name = "PATH", value_parser = remote::parser())]
    tree: Option<RemotePath>,
}

/// A limit on the command line; `None`: `none`, which removes it.
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
    let wrong = || format!("{text:?} is not a number of files: write 5000, 100k, 2M or none");
    value.map(|value| Most(Some(value))).ok_or_else(wrong)
}

fn payer(user: Option<u32>, group: Option<u32>, tree: Option<&RemotePath>) -> Option<Payer> {
    let user = user.map(Payer::User).or(group.map(Payer::Group));
    user.or_else(|| Some(Payer::Tree(tree?.into())))
}

impl PayerArgs {
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
                    volume.set_quota(&set.payer.payer(), bounds).await?;
                }
                Some(Action::Clear(clear)) => drop(volume.clear_quota(&clear.payer.payer()).await?),
                Some(Action::Show(show)) => return show.run(&volume, json).await,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Show {
    async fn run(&self, volume: &Volume, json: bool) -> Result<ExitCode> {
        let named = &self.payer;
        let named = payer(named.user, named.group, named.tree.as_ref());
        let found = match (named, &self.path) {
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
    fn limits_are_parsed_with_units() {
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
