use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use parking_lot::Mutex;
use weft_client::{Attributes, Place, Volume};
use weft_proto::Code;

use crate::args::Global;
use crate::limits::CHECKPOINTS_NAMED_MAX;
use crate::remote::{self, Location, RemotePath, Visit, Walk, connect};
use crate::terminal::{Problems, interrupt, name, progress};

/// Remove files and directories
#[derive(Args)]
#[command(
    after_help = "Examples:\n  weft rm /grid\n  weft rm -r /results\n  weft rm -rf /scratch /tmp\n\n\
                  A directory that has checkpoints cannot be removed, nor can a tree that contains one: delete them first with \
                  `weft checkpoint delete`. Removing a file removes its checkpoints."
)]
pub(crate) struct Rm {
    /// The files and directories to remove
    #[arg(value_name = "PATH", required = true, value_parser = remote::parser())]
    paths: Vec<RemotePath>,
    /// Remove directories and everything in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Do not fail for paths that do not exist
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
                "cannot remove {path}: it is the root of the volume; name its entries instead"
            ));
        }
        if matches!(path.name(), b"." | b"..") {
            return Err(anyhow!("cannot remove {path}: name the directory itself"));
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
                        "{path} is a directory: remove it and everything in it with -r"
                    ));
                }
                Err(e) => return Err(e.into()),
            }
        }
        let Some(attributes) = remote::look_link(volume, path).await? else {
            if self.force {
                return Ok(());
            }
            return Err(anyhow!("cannot remove {path}: no such file or directory"));
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
    let survey = survey(volume, path, attributes.clone());
    let (names, checkpoints) =
        interrupt::guard(survey, || format!("nothing of {path} is removed")).await?;
    if !checkpoints.is_empty() {
        return Err(refusal(path, &checkpoints));
    }
    let bar = progress::of_things("removing", "names", names);
    let problems = problems.above(&bar);
    let walk = Walk::new(
        volume,
        &problems,
        |when, location: Location, _: Attributes| {
            let bar = &bar;
            async move {
                if when != Visit::Enter {
                    remove_one(volume, when, location.place().clone()).await?;
                    bar.inc(1);
                }
                Ok(())
            }
        },
    );
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

/// Counts the names of a tree and collects the checkpoints of its directories. Failures to read are
/// not reported here: they show when the entry cannot be removed.
async fn survey(
    volume: &Volume,
    path: &RemotePath,
    attributes: Attributes,
) -> Result<(u64, Vec<(RemotePath, String)>)> {
    let silent = Problems::silent();
    let found: Mutex<Vec<(RemotePath, String)>> = Mutex::default();
    let walk = Walk::new(
        volume,
        &silent,
        |when, location: Location, of: Attributes| {
            let found = &found;
            async move {
                if when == Visit::Enter {
                    let place = Place::of(of.id).shown_as(location.path().as_ref().to_vec());
                    let checkpoints = volume.checkpoints(place).await?;
                    let rows = checkpoints
                        .into_iter()
                        .map(|c| (location.path().clone(), c.name));
                    found.lock().extend(rows);
                }
                Ok(())
            }
        },
    );
    walk.from(path.clone(), attributes).await;
    let names = walk.done();
    Ok((names, found.into_inner()))
}

/// The error for a tree of which nothing was removed because it has checkpoints.
fn refusal(path: &RemotePath, checkpoints: &[(RemotePath, String)]) -> anyhow::Error {
    let mut lines = vec![format!(
        "nothing of {path} was removed: a directory that has checkpoints cannot be removed; delete them first:"
    )];
    for (directory, checkpoint) in checkpoints.iter().take(CHECKPOINTS_NAMED_MAX) {
        let [directory, checkpoint] = [directory.as_ref(), checkpoint.as_bytes()].map(name::quote);
        lines.push(format!("  weft checkpoint delete {directory} {checkpoint}"));
    }
    if checkpoints.len() > CHECKPOINTS_NAMED_MAX {
        lines.push(format!(
            "  and {} more",
            checkpoints.len() - CHECKPOINTS_NAMED_MAX
        ));
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
        // Another process has removed it meanwhile.
        Err(e) if e.code() == Code::NotFound => Ok(()),
        other => other,
    }
}
