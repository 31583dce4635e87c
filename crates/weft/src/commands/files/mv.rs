use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use weft_proto::Code;

use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::Problems;

/// Rename or move files and directories
#[derive(Args)]
#[command(after_help = "Examples:
  weft mv /old /new
  weft mv /a /b /c /directory         into a directory
  weft mv --exchange /live /staged    swap two names atomically")]
pub(crate) struct Mv {
    /// The files and directories to move; last, the new name or the target directory
    #[arg(value_name = "PATH", num_args = 2.., required = true, value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Fail if the new name exists
    #[arg(short, long)]
    no_clobber: bool,
    /// Swap two names atomically
    #[arg(long, conflicts_with = "no_clobber")]
    exchange: bool,
}

impl Mv {
    pub(crate) fn run(mut self, global: &Global) -> Result<ExitCode> {
        let last = self.paths.pop().expect("there are at least two paths");
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            if self.exchange {
                let [one] = &self.paths[..] else {
                    bail!(
                        "--exchange needs exactly two names: {} were given",
                        self.paths.len() + 1
                    );
                };
                volume.exchange(one, &last).await?;
                return Ok(ExitCode::SUCCESS);
            }
            let destinations = remote::destinations(&volume, "move", &self.paths, &last).await?;
            let problems = Problems::default();
            for (from, to) in self.paths.iter().zip(&destinations) {
                if self.no_clobber {
                    let renamed = volume
                        .rename_new(from, to)
                        .await
                        .map_err(|e| match e.code() {
                            Code::Exists => anyhow!("cannot move {from}: {to} exists"),
                            _ => e.into(),
                        });
                    problems.note(renamed);
                } else {
                    problems.note(volume.rename(from, to).await);
                }
            }
            Ok(problems.exit_code())
        })
    }
}
