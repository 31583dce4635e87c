use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::{Attributes, Changes, FileKind, Place, Volume};

use crate::args::Global;
use crate::args::mode::{self, ModeChange};
use crate::remote::{self, RemotePath, Visit, Walk, connect};
use crate::terminal::{Problems, interrupt};

/// Change the permission bits of files
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft chmod 0640 /data\n  weft chmod -R u+rwX,go-w /results\n  \
                        weft chmod -- -w /data"
)]
pub(crate) struct Chmod {
    /// Octal digits, or clauses like u+rwx,g-w,a=rX
    #[arg(value_name = "MODE", value_parser = mode::parse, allow_hyphen_values = true)]
    mode: ModeChange,
    /// The files; symbolic links are followed
    #[arg(value_name = "PATH", required = true, value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Change directories with everything in them
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl Chmod {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        let umask = mode::umask();
        connect::block_on(async {
            let volume = connect::volume(global).await?;
            let problems = Problems::default();
            let walk = Walk::new(&volume, &problems, |when, location, attributes| {
                let place = location.place().clone();
                change(&volume, &self.mode, umask, when, place, attributes)
            });
            let all = async {
                for path in &self.paths {
                    let Some(attributes) = problems.note(volume.stat(path).await) else {
                        continue;
                    };
                    if self.recursive {
                        walk.from(path.clone(), attributes).await;
                    } else {
                        let (when, place) = (Visit::Enter, path.into());
                        let changed =
                            change(&volume, &self.mode, umask, when, place, attributes).await;
                        problems.note(changed);
                    }
                }
                Ok(problems.exit_code())
            };
            interrupt::guard(all, || walk.interrupted("changed")).await
        })
    }
}

async fn change(
    volume: &Volume,
    mode: &ModeChange,
    umask: u32,
    when: Visit,
    place: Place,
    attributes: Attributes,
) -> Result<()> {
    let kind = remote::kind(&attributes);
    // Links have no mode of their own. Directories change before their entries, to gain the right
    // to list them.
    if kind == FileKind::Symlink || when == Visit::Leave {
        return Ok(());
    }
    let new = mode.apply(attributes.mode, kind == FileKind::Directory, umask);
    if new != attributes.mode {
        let changes = Changes {
            mode: Some(new),
            ..Changes::default()
        };
        volume.set_attributes(place, &changes).await?;
    }
    Ok(())
}
