use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use weft_client::{Attributes, Changes, FileKind, Policies, Policy, PolicyFolder};
use weft_layout::{Layout, Storage};

use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::Problems;
use crate::terminal::output;

/// Set the consistency policy of files and directories, or list the policies
#[derive(Args)]
#[command(after_help = "Examples:
  weft policy                        list the policies, and the plug-ins in their folder
  weft policy seq-2 /results/table   from the next open on
  weft policy rel-1 /scratch         what is made in /scratch gets it
  weft policy none /scratch          what is made there has none again
  weft policy --header > weft_policy.h

A plug-in is a shared library NAME.so in the folder of plug-ins, /usr/local/lib/weft/policies unless
--policies or WEFT_POLICIES names another. `weft stat` shows the policy of a file.
docs/consistency.md says what each promises, and how to write one.")]
pub(crate) struct SetPolicy {
    /// The policy, or `none`
    #[arg(value_name = "POLICY")]
    policy: Option<String>,
    /// The files and directories; symbolic links are followed
    #[arg(value_name = "PATH", value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// The folder of plug-ins
    #[arg(long, value_name = "DIR", env = "WEFT_POLICIES")]
    policies: Option<PathBuf>,
    /// Print the header that plug-ins in C include
    #[arg(long, conflicts_with_all = ["paths", "json"])]
    header: bool,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "paths")]
    json: bool,
}

/// A policy, for programs.
#[derive(Serialize)]
struct PolicyRow {
    policy: String,
    plain: bool,
    plugin: bool,
    promises: String,
}

impl SetPolicy {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        if self.header {
            output::line(weft_policy::HEADER.trim_end())?;
            return Ok(ExitCode::SUCCESS);
        }
        let folder = self.policies.map(PolicyFolder::at).unwrap_or_default();
        let policies = Policies::of(folder);
        let policy = match self.policy.as_deref() {
            None => return list(&policies, self.json),
            Some("none") => None,
            Some(name) => Some(policies.find(name)?),
        };
        if self.paths.is_empty() {
            let name = self.policy.unwrap_or_default();
            bail!("name the files and directories that get the policy: weft policy {name} PATH...");
        }
        let changes = Changes {
            policy: Some(policy),
            ..Changes::default()
        };
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            for path in &self.paths {
                let set = problems.note(volume.set_attributes(path, &changes).await);
                if let (Some(attributes), Some(policy)) = (set, policy)
                    && is_plain_file(&attributes)
                    && !policy.fits(Storage::Plain)
                {
                    let instead = if policy.is_in_order() {
                        "posix"
                    } else {
                        "none"
                    };
                    output::say(format_args!(
                        "{path}: the file is plain, and has {instead} in place of {policy}"
                    ));
                }
            }
            Ok(problems.exit_code())
        })
    }
}

/// Whether it is a file whose chunks have no names.
fn is_plain_file(attributes: &Attributes) -> bool {
    let layout = attributes.layout.as_ref().map(Layout::try_from);
    let plain = matches!(layout, Some(Ok(layout)) if layout.storage() == Storage::Plain);
    plain && remote::kind(attributes) == FileKind::Regular
}

/// Lists the policies. Plug-ins that cannot be used are problems.
fn list(policies: &Policies, json: bool) -> Result<ExitCode> {
    let problems = Problems::default();
    let plugins = policies.plugins().into_iter();
    let plugins = plugins.filter_map(|found| problems.note(found));
    let rows: Vec<PolicyRow> = Policy::all()
        .chain(plugins)
        .map(|policy| PolicyRow {
            policy: policy.name().to_owned(),
            plain: policy.fits(Storage::Plain),
            plugin: policy.is_plugin(),
            promises: policy.summary().to_owned(),
        })
        .collect();
    if json {
        output::json(&rows)?;
        return Ok(problems.exit_code());
    }
    let mut table = output::table(&["POLICY", "FILES", "PROMISES"]);
    for row in rows {
        let files = if row.plain { "all" } else { "addressed" };
        table.add_row(vec![row.policy, files.to_owned(), row.promises]);
    }
    output::line(table)?;
    Ok(problems.exit_code())
}
