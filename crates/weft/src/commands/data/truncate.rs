use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Access;
use weft_proto::Code;

use crate::args::{Global, mode};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::Problems;
use weft_layout::size;

/// Set the size of files
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft truncate -s 0 /log\n  weft truncate -s 2T /sparse     a hole takes no space"
)]
pub(crate) struct Truncate {
    /// The files; created if they do not exist
    #[arg(value_name = "FILE", required = true, value_parser = remote::parser())]
    files: Vec<RemotePath>,
    /// The new size
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    /// Do not create files
    #[arg(short = 'c', long)]
    no_create: bool,
}

impl Truncate {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            for path in &self.files {
                let truncated = match volume.truncate(path, self.size).await {
                    Err(e) if e.code() == Code::NotFound && !self.no_create => {
                        let access = Access::write().create(0o666 & !mode::umask());
                        match volume.attach(path, access).await {
                            Ok(file) => file.truncate(self.size).await.and(file.close().await),
                            Err(e) => Err(e),
                        }
                    }
                    Err(e) if e.code() == Code::NotFound => Ok(()),
                    other => other.map(|_| ()),
                };
                problems.note(truncated);
            }
            Ok(problems.exit_code())
        })
    }
}
