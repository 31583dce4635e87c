use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Volume;

use crate::args::Global;
use crate::remote::{self, RemotePath};
use crate::transfer::{self, TransferArgs};

/// Copy a file of the volume, or a view of it, to a local file, in one process or several
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft export /big big.dat                         one process
  weft export /big /nfs/big.dat --part 2/4         the second of four processes or machines
  srun -n 8 sh -c 'weft export /big /nfs/big.dat --part $((SLURM_PROCID+1))/$SLURM_NTASKS'
  weft export /grid column.dat --cell 2            one column of a grid
  weft export /grid quarter.dat --subfile 1,1,1,4,2 every fourth cell, starting with the third
  weft export /matrix part.dat --partition 0,8,8192 eight bytes of every 8 KiB
  weft export /big big.dat --resume --verify       continue after an interruption, then compare
  weft export -r /results results                  the contents of a directory, several files at a time
  weft export -r /grids columns --cell 2           cell 2 of each file

Byte --offset + i of the view becomes byte i of the local file, up to the view's end. Ranges without data become zeros, or holes if \
they are long enough. Without a view, the mode and time of modification are copied, too. A local file that holds data is only \
overwritten with --force. A complete file is synced and survives power loss. Ctrl-C keeps what was copied, and --resume continues \
from there. The progress of each part is kept in files beside the local one, LOCAL.weft-export-N.I, and is valid as long as the \
local file is the same.")]
pub(crate) struct Export {
    /// The file in the volume
    #[arg(value_name = "FILE", value_parser = remote::parser())]
    file: RemotePath,
    /// The local file, created if it does not exist, or an existing directory
    local: PathBuf,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl Export {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        transfer::run(global, async |volume| self.copy(volume).await)
    }

    async fn copy(&self, volume: &Volume) -> Result<ExitCode> {
        let args = &self.transfer;
        if args.recursive {
            return transfer::export_tree(volume, &self.file, &self.local, args).await;
        }
        let summary = transfer::export(volume, &self.file, &self.local, args).await?;
        summary.print(args)
    }
}
