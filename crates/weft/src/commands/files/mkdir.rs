use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::Volume;
use weft_proto::Code;

use crate::args::{Global, mode};
use crate::remote::{self, RemotePath, connect};
use crate::terminal::Problems;

/// Create directories
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft mkdir /results\n  weft mkdir -p /results/2026/november -m 0750"
)]
pub(crate) struct Mkdir {
    /// The directories
    #[arg(value_name = "DIRECTORY", required = true, value_parser = remote::parser())]
    directories: Vec<RemotePath>,
    /// Also create missing parent directories; do not fail if the directory exists
    #[arg(short, long)]
    parents: bool,
    /// Permission bits, not reduced by the umask (parents get 0777 minus the umask)
    #[arg(short, long, value_name = "MODE", value_parser = mode::parse)]
    mode: Option<mode::ModeChange>,
}

impl Mkdir {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let umask = mode::umask();
        let plain = 0o777 & !umask;
        let mode = self
            .mode
            .as_ref()
            .map_or(plain, |m| m.apply(0o777, true, umask));
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            for path in &self.directories {
                if self.parents {
                    problems.note(with_parents(&volume, path, mode, plain).await);
                } else {
                    problems.note(volume.make_directory(path, mode).await);
                }
            }
            Ok(problems.exit_code())
        })
    }
}

/// Tries the path itself first: usually only the last directory, or nothing, is missing.
async fn with_parents(volume: &Volume, path: &RemotePath, mode: u32, above: u32) -> Result<()> {
    match volume.make_directory(path, mode).await {
        Ok(_) => return Ok(()),
        Err(e) if e.code() == Code::Exists => return must_be_directory(volume, path).await,
        Err(e) if e.code() == Code::NotFound => {}
        Err(e) => return Err(e.into()),
    }
    let bytes = path.as_ref();
    let ends = (1..bytes.len()).filter(|i| bytes[*i] == b'/' && bytes[i - 1] != b'/');
    for end in ends {
        let parent = RemotePath::new(bytes[..end].to_vec());
        match volume.make_directory(&parent, above).await {
            Err(e) if e.code() != Code::Exists => return Err(e.into()),
            _ => {}
        }
    }
    match volume.make_directory(path, mode).await {
        Err(e) if e.code() == Code::Exists => must_be_directory(volume, path).await,
        Err(e) => Err(e.into()),
        Ok(_) => Ok(()),
    }
}

async fn must_be_directory(volume: &Volume, path: &RemotePath) -> Result<()> {
    if !remote::is_directory(&volume.stat(path).await?) {
        bail!("cannot make directory {path}: it exists and is not a directory");
    }
    Ok(())
}
