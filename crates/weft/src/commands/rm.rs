use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use weft_client::{Attributes, Volume};
use weft_proto::Code;

use crate::problems::Problems;
use crate::remote::RemotePath;
use crate::walk::{Visit, Walk};
use crate::{Global, connect, remote};

/// Remove files and directories
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft rm /grid\n  weft rm -r /results\n  weft rm -rf /scratch /tmp"
)]
pub(crate) struct Rm {
    /// What to remove
    #[arg(value_name = "PATH", required = true, value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Remove directories and everything in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// What is not there is no failure
    #[arg(short, long)]
    force: bool,
    /// Remove empty directories
    #[arg(short, long)]
    dir: bool,
}

impl Rm {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            for path in &self.paths {
                problems.note(self.remove(&volume, &problems, path).await);
            }
            Ok(problems.exit_code())
        })
    }

    async fn remove(&self, volume: &Volume, problems: &Problems, path: &RemotePath) -> Result<()> {
        if matches!(path.name(), b"" | b"." | b"..") {
            return Err(anyhow!(
                "{path} cannot be removed: name the directory itself"
            ));
        }
        // The usual case in one request.
        if !self.recursive {
            match volume.unlink(path).await {
                Ok(_) => return Ok(()),
                Err(e) if e.code() == Code::NotFound && self.force => return Ok(()),
                Err(e) if e.code() == Code::IsDirectory && self.dir => {
                    volume.remove_directory(path).await?;
                    return Ok(());
                }
                Err(e) if e.code() == Code::IsDirectory => {
                    return Err(anyhow!(
                        "{path} is a directory: -r removes it with everything in it"
                    ));
                }
                Err(e) => return Err(e.into()),
            }
        }
        let Some(attributes) = remote::look_link(volume, path).await? else {
            if self.force {
                return Ok(());
            }
            return Err(anyhow!("remove {path}: there is no such file or directory"));
        };
        let walk = Walk::new(volume, problems, |when, path, _: Attributes| {
            remove_one(volume, when, path)
        });
        walk.from(path.clone(), attributes).await;
        Ok(())
    }
}

async fn remove_one(volume: &Volume, when: Visit, path: RemotePath) -> Result<()> {
    let removed = match when {
        Visit::Enter => return Ok(()),
        Visit::Leave => volume.remove_directory(&path).await.map(drop),
        Visit::File => volume.unlink(&path).await.map(drop),
    };
    match removed {
        // Somebody else was quicker.
        Err(e) if e.code() == Code::NotFound => Ok(()),
        other => Ok(other?),
    }
}
