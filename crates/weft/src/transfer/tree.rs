//! Trees: copied as by `weft cp`, several files at a time; a part takes whole files. Through a
//! view, or for a comparison, they go file by file ([`super::each`]).

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use weft_client::Volume;

use super::args::TransferArgs;
use super::each::each;
use crate::copy::{self, Options, TreePath};
use crate::remote::RemotePath;
use crate::terminal::{name, output};

/// Copies the contents of a local directory to a directory in the volume, which is created if
/// needed.
pub(crate) async fn import_tree(
    volume: &Volume,
    local: &Path,
    to: &RemotePath,
    args: &TransferArgs,
) -> Result<ExitCode> {
    transfer(volume, here(local), there(to), args).await
}

/// Copies the contents of a directory in the volume to a local one, which is created if needed.
pub(crate) async fn export_tree(
    volume: &Volume,
    from: &RemotePath,
    local: &Path,
    args: &TransferArgs,
) -> Result<ExitCode> {
    transfer(volume, there(from), here(local), args).await
}

fn here(local: &Path) -> TreePath {
    TreePath {
        path: name::bytes(local.as_os_str()).to_vec(),
        weft: false,
    }
}

fn there(path: &RemotePath) -> TreePath {
    TreePath {
        path: path.as_ref().to_vec(),
        weft: true,
    }
}

async fn transfer(
    volume: &Volume,
    from: TreePath,
    to: TreePath,
    args: &TransferArgs,
) -> Result<ExitCode> {
    if args.compare || !args.view.is_whole() {
        if args.resume {
            // Without its progress records, a complete file cannot be recognized.
            bail!(
                "--resume of a tree works for whole files only: give --force to copy it again through the view"
            );
        }
        return each(volume, &from, &to, args).await;
    }
    let options = Options {
        recursive: true,
        preserve: false,
        no_clobber: false,
        refuse: !args.force,
        resume: args.resume,
        verify: args.verify,
        part: args.part,
        streams: args.streams.into(),
        sync: true,
        go_on: "give --resume",
    };
    // The directory's entries, not the directory: then it makes no difference whether the target
    // exists, and parts may come in any order.
    let from = TreePath {
        path: name::join(&from.path, b"."),
        ..from
    };
    let summary = copy::run(volume, &[from], &to, options).await?;
    if args.json {
        output::json(&summary)?;
    } else if args.verbose || output::interactive() {
        output::say(summary.line());
    }
    Ok(if summary.failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
