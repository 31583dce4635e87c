use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Volume;
use weft_proto::Code;

use crate::args::Global;
use crate::remote::{self, RemotePath, connect};
use crate::terminal::Problems;

/// Create hard links or symbolic links
#[derive(Args)]
#[command(after_help = "Examples:
  weft ln /data /also-data
  weft ln -s ../data /results/input     the target is stored as it is written
  weft ln -sf /results/2026 /results/latest")]
pub(crate) struct Ln {
    /// The files to link to; last, the new name or the directory for the new names (the root, if
    /// only one path is given)
    #[arg(value_name = "PATH", required = true, value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Create symbolic links
    #[arg(short, long)]
    symbolic: bool,
    /// Replace existing names
    #[arg(short, long)]
    force: bool,
    /// Treat the last path as a name even if it leads to a directory
    #[arg(short = 'n', long)]
    no_dereference: bool,
}

impl Ln {
    pub(crate) fn run(mut self, global: &Global) -> Result<ExitCode> {
        let last = if self.paths.len() > 1 {
            self.paths.pop()
        } else {
            None
        };
        let last = last.unwrap_or_else(|| RemotePath::new(b"/".to_vec()));
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let destinations = if self.no_dereference && self.paths.len() == 1 {
                vec![last]
            } else {
                remote::destinations(&volume, "link", &self.paths, &last).await?
            };
            let problems = Problems::default();
            for (from, to) in self.paths.iter().zip(&destinations) {
                problems.note(self.link(&volume, from, to).await);
            }
            Ok(problems.exit_code())
        })
    }

    async fn link(&self, volume: &Volume, from: &RemotePath, to: &RemotePath) -> Result<()> {
        match self.make(volume, from, to).await {
            Err(e) if e.code() == Code::Exists && self.force => {}
            other => return Ok(other?),
        }
        // Under another name first, so that the name always has a file.
        let mut spare = to.as_ref().to_vec();
        spare.extend_from_slice(format!(".weft-ln-{}", std::process::id()).as_bytes());
        let spare = RemotePath::new(spare);
        self.make(volume, from, &spare).await?;
        if let Err(e) = volume.rename(&spare, to).await {
            let _ = volume.unlink(&spare).await;
            return Err(e.into());
        }
        // Two names of one file: a rename between them does nothing at all, as POSIX wants it.
        if remote::look_link(volume, &spare).await?.is_some() {
            volume.unlink(&spare).await?;
        }
        Ok(())
    }

    async fn make(
        &self,
        volume: &Volume,
        from: &RemotePath,
        to: &RemotePath,
    ) -> Result<(), weft_client::Error> {
        let made = if self.symbolic {
            volume.make_link(to, from).await
        } else {
            volume.link(from, to).await
        };
        made.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        ln: Ln,
    }

    #[test]
    fn an_empty_path_is_a_usage_error() {
        let error = Line::try_parse_from(["ln", "-s", "", "/x"]).err().unwrap();
        assert!(error.to_string().contains("the root is /"), "{error}");
    }
}
