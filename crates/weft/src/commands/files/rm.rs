use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use clap::Args;
use weft_client::{Attributes, Place, Volume};
use weft_proto::Code;

use crate::args::Global;
use crate::remote::{self, RemotePath, Spot, Visit, Walk, connect};
use crate::terminal::{Problems, interrupt, name, progress};

/// How many checkpoints in the way are named; further ones are only counted.
const NAMED: usize = 10;

/// Remove files and directories
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft rm /grid\n  weft rm -r /results\n  weft rm -rf /scratch /tmp\n\n\
                  A directory that keeps checkpoints cannot be removed. Nothing of a tree is removed if a directory in it \
                  keeps any: `weft checkpoint delete` them first. A file takes its own checkpoints with it."
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
                match self.remove(&volume, &problems, path).await {
                    // Arguments after it are not begun.
                    Err(error) if interrupt::of(&error).is_some() => return Err(error),
                    done => problems.note(done),
                };
            }
            Ok(problems.exit_code())
        })
    }

    async fn remove(&self, volume: &Volume, problems: &Problems, path: &RemotePath) -> Result<()> {
        if path.name().is_empty() {
            return Err(anyhow!(
                "{path} cannot be removed: it is the top of the volume; name what is in it"
            ));
        }
        if matches!(path.name(), b"." | b"..") {
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
        if remote::is_directory(&attributes) {
            remove_tree(volume, problems, path, attributes).await
        } else {
            Ok(remove_one(volume, Visit::File, path.into()).await?)
        }
    }
}

async fn remove_tree(
    volume: &Volume,
    problems: &Problems,
    path: &RemotePath,
    attributes: Attributes,
) -> Result<()> {
    let looking = kept(volume, path, attributes.clone());
    let looked = interrupt::guard(looking, || format!("nothing of {path} is removed")).await?;
    let (names, kept) = looked;
    if !kept.is_empty() {
        return Err(refusal(path, &kept));
    }
    let bar = progress::of_things("removing", "names", names);
    let problems = problems.above(&bar);
    let walk = Walk::new(volume, &problems, |when, spot: Spot, _: Attributes| {
        let bar = &bar;
        async move {
            if when != Visit::Enter {
                remove_one(volume, when, spot.place().clone()).await?;
                bar.inc(1);
            }
            Ok(())
        }
    });
    let work = async {
        walk.from(path.clone(), attributes).await;
        Ok(())
    };
    let removed = interrupt::guard(work, || {
        let done = walk.done();
        format!("{done} of {names} names of {path} are removed; the same command removes the rest")
    });
    let removed = removed.await;
    bar.finish_and_clear();
    removed
}

/// How many names a tree has, and the checkpoints that its directories keep. What cannot be read is
/// reported when it cannot be removed.
async fn kept(
    volume: &Volume,
    path: &RemotePath,
    attributes: Attributes,
) -> Result<(u64, Vec<(RemotePath, String)>)> {
    let unheard = Problems::unheard();
    let found: Mutex<Vec<(RemotePath, String)>> = Mutex::default();
    let walk = Walk::new(volume, &unheard, |when, spot: Spot, of: Attributes| {
        let found = &found;
        async move {
            if when == Visit::Enter {
                let place = Place::of(of.id).shown_as(spot.path().as_ref().to_vec());
                let checkpoints = volume.checkpoints(place).await?;
                let rows = checkpoints
                    .into_iter()
                    .map(|c| (spot.path().clone(), c.name));
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.extend(rows);
            }
            Ok(())
        }
    });
    walk.from(path.clone(), attributes).await;
    let names = walk.done();
    let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((names, found))
}

/// Nothing was removed, and why.
fn refusal(path: &RemotePath, kept: &[(RemotePath, String)]) -> anyhow::Error {
    let mut lines = vec![format!(
        "nothing of {path} was removed: a directory that keeps checkpoints cannot be removed; delete them first:"
    )];
    for (directory, checkpoint) in kept.iter().take(NAMED) {
        let [directory, checkpoint] = [directory.as_ref(), checkpoint.as_bytes()].map(name::quote);
        lines.push(format!("  weft checkpoint delete {directory} {checkpoint}"));
    }
    if kept.len() > NAMED {
        lines.push(format!("  and {} more", kept.len() - NAMED));
    }
    anyhow!(lines.join("\n"))
}

async fn remove_one(volume: &Volume, when: Visit, place: Place) -> Result<(), weft_client::Error> {
    let removed = match when {
        Visit::Enter => return Ok(()),
        Visit::Leave => volume.remove_directory(place).await.map(drop),
        Visit::File => volume.unlink(place).await.map(drop),
    };
    match removed {
        // Another process was quicker.
        Err(e) if e.code() == Code::NotFound => Ok(()),
        other => other,
    }
}
