//! Trees: the copies of `weft cp`, several files at a time; a part takes whole files. Through a
//! view, or only compared, they go file by file ([`super::each`]).

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use weft_client::Volume;

use super::args::TransferArgs;
use super::each::each;
use crate::copy::{self, Options, Side};
use crate::remote::RemotePath;
use crate::terminal::{name, output};

/// Copies what a local directory holds into a directory, which is made if it is not there.
pub(crate) async fn import_tree(
    volume: &Volume,
    local: &Path,
    to: &RemotePath,
    args: &TransferArgs,
) -> Result<ExitCode> {
    transfer(volume, here(local), there(to), args).await
}

/// Copies what a directory of the volume holds into a local one, which is made if it is not there.
pub(crate) async fn export_tree(
    volume: &Volume,
    from: &RemotePath,
    local: &Path,
    args: &TransferArgs,
) -> Result<ExitCode> {
    transfer(volume, there(from), here(local), args).await
}

fn here(local: &Path) -> Side {
    Side {
        path: name::bytes(local.as_os_str()).to_vec(),
        weft: false,
    }
}

fn there(path: &RemotePath) -> Side {
    Side {
        path: path.as_ref().to_vec(),
        weft: true,
    }
}

async fn transfer(volume: &Volume, from: Side, to: Side, args: &TransferArgs) -> Result<ExitCode> {
    if args.compare || !args.view.is_whole() {
        if args.resume {
            // Once its records are gone, nothing shows that a file was complete.
            bail!(
                "--resume of a tree knows whole files only: give --force to copy it anew through the view"
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
    let from = Side {
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
