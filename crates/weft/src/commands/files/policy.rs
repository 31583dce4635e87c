use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use weft_client::{Changes, Policy, UnknownPolicy};
use weft_layout::Storage;

use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::Problems;
use crate::terminal::output;

/// Set the consistency policy of files and directories, or list the policies
#[derive(Args)]
#[command(after_help = "Examples:
  weft policy                        list the policies
  weft policy seq-2 /results/table   from the next open on
  weft policy rel-1 /scratch         what is made in /scratch gets it
  weft policy none /scratch          what is made there has none again

`weft stat` shows the policy of a file. docs/consistency.md says what each promises.")]
pub(crate) struct SetPolicy {
    /// The policy, or `none`
    #[arg(value_name = "POLICY", value_parser = policy, requires = "paths")]
    policy: Option<Chosen>,
    /// The files and directories; symbolic links are followed
    #[arg(value_name = "PATH", value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "paths")]
    json: bool,
}

/// A policy, or that there shall be none.
#[derive(Clone, Copy)]
struct Chosen(Option<Policy>);

fn policy(text: &str) -> Result<Chosen, UnknownPolicy> {
    match text {
        "none" => Ok(Chosen(None)),
        name => Ok(Chosen(Some(name.parse()?))),
    }
}

/// A policy, for programs.
#[derive(Serialize)]
struct PolicyRow {
    policy: &'static str,
    plain: bool,
    promises: &'static str,
}

impl SetPolicy {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let Some(Chosen(policy)) = self.policy else {
            return self.list();
        };
        let changes = Changes {
            policy: Some(policy),
            ..Changes::default()
        };
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            for path in &self.paths {
                problems.note(volume.set_attributes(path, &changes).await);
            }
            Ok(problems.exit_code())
        })
    }

    fn list(&self) -> Result<ExitCode> {
        let rows: Vec<PolicyRow> = Policy::all()
            .map(|policy| PolicyRow {
                policy: policy.name(),
                plain: policy.fits(Storage::Plain),
                promises: policy.summary(),
            })
            .collect();
        if self.json {
            output::json(&rows)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = output::table(&["POLICY", "FILES", "PROMISES"]);
        for row in rows {
            let files = if row.plain { "all" } else { "addressed" };
            table.add_row(vec![row.policy, files, row.promises]);
        }
        output::line(table)?;
        Ok(ExitCode::SUCCESS)
    }
}
