use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weft_client::Volume;

use crate::args::{Global, LayoutArgs};
use crate::remote::{self, RemotePath};
use crate::transfer::{self, TransferArgs};

/// Copy a local file into the volume, optionally through a view, in one process or several
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft import big.dat /big --cells 16 --bsu 1M   one process
  weft import big.dat /big --part 2/4            the second of four processes or machines
  srun -n 8 sh -c 'weft import big.dat /big --part $((SLURM_PROCID+1))/$SLURM_NTASKS'
  weft import column.dat /grid --cell 2          one column of a grid
  weft import quarter.dat /grid --subfile 1,1,1,4,2 --force
  weft import big.dat /big --resume --verify     continue after an interruption, then compare
  weft import big.dat /big --compare             copy nothing, only compare
  weft import -r results /results                the contents of a directory, several files at a time
  weft import -r columns /grids --cell 2         each file into cell 2 of its file
  weft import -r results /results --compare      copy nothing, only compare

Byte i of the local file becomes byte --offset + i of the view. Without a view the file becomes a copy, including its size, mode \
and time of modification. With a view it is written in place, and its other bytes stay. Holes stay holes. Existing data is only \
overwritten with --force; a view that shares cells with other views holds data up to the end of those cells. A complete file is \
synced and survives power loss. Ctrl-C keeps what was copied, and --resume continues from there. The progress of each part is kept \
in the file's attributes user.weft.import.* . Bytes that fall on ghosts (cells that the view implies but the file lacks) are \
discarded, which is reported.")]
pub(crate) struct Import {
    /// The local file
    local: PathBuf,
    /// The file in the volume, created if it does not exist, or an existing directory
    #[arg(value_name = "FILE", value_parser = remote::parser())]
    file: RemotePath,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    layout: LayoutArgs,
}

impl Import {
    pub(crate) fn run(self, global: &Global) -> Result<ExitCode> {
        transfer::run(global, async |volume| self.copy(volume).await)
    }

    async fn copy(&self, volume: &Volume) -> Result<ExitCode> {
        let args = &self.transfer;
        if args.recursive {
            if self.layout.is_given() {
                bail!(
                    "the files of a tree inherit the layout of their directory: make {0} first, and set its layout with \
                         `weft create --directory {0}`",
                    self.file
                );
            }
            return transfer::import_tree(volume, &self.local, &self.file, args).await;
        }
        let summary = transfer::import(volume, &self.local, &self.file, &self.layout, args).await?;
        summary.print(args)
    }
}
