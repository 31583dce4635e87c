use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Volume;

use crate::args::Global;
use crate::remote::{self, RemotePath};
use crate::transfer::{self, TransferArgs};

/// Copy a file of the volume, or a view of it, into a local file, alone or in parts
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft export /big big.dat                         one process
  weft export /big /nfs/big.dat --part 2/4         the second of four processes or machines
  srun -n 8 sh -c 'weft export /big /nfs/big.dat --part $((SLURM_PROCID+1))/$SLURM_NTASKS'
  weft export /grid column.dat --cell 2            one column of a grid
  weft export /grid quarter.dat --subfile 1,1,1,4,2 every fourth cell from the third on
  weft export /matrix part.dat --partition 0,8,8192 eight bytes of every 8 KiB
  weft export /big big.dat --resume --verify       go on after an interruption, then compare
  weft export -r /results results                  what a directory holds, several files at a time
  weft export -r /grids columns --cell 2           cell 2 of each file

Byte --offset + i of the view becomes byte i of the local file, up to the view's end. What holds no data is zeros, and a \
hole where it is long enough. Without a view, mode and time of modification are kept. A local file that holds data is \
written over only with --force. What is complete is synced: it survives power loss. Ctrl-C keeps what was copied, and --resume \
goes on from there. While it is under way, the parts' \
progress stands in files beside the local one, LOCAL.weft-export-N.I ; it counts as long as the local file is the same.")]
pub(crate) struct Export {
    /// The file in the volume
    #[arg(value_name = "FILE", value_parser = remote::parser())]
    file: RemotePath,
    /// The local file, made if it is not there; or a directory that is there
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
