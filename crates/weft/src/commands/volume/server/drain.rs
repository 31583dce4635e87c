//! `weft server drain`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use weft_client::Departure;

use super::remove::Leaving;
use crate::args::Global;

/// Move what a node holds to another machine, so that its own can be switched off
///
/// A new replica joins on a machine that has room for it, or where a spare waits, and gets all
/// data. Then the node leaves, and its server has as many replicas as before. A node that is lost
/// leaves at once, if its server has another replica in sync. Programs go on meanwhile.
/// Interrupting the command stops nothing; `--cancel` does.
#[derive(Args)]
#[command(after_help = "\
Examples:
  weft server drain server-2
  weft server drain server-0 server-1.1      everything that is on one machine
  weft server drain --cancel server-0        it stays after all")]
pub(super) struct Drain {
    #[command(flatten)]
    leaving: Leaving,
}

impl Drain {
    pub(super) fn run(self, global: &Global) -> Result<ExitCode> {
        self.leaving.run(global, Departure::Succeeded)
    }
}
