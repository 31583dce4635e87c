//! A transfer from connecting to its end.

use std::process::ExitCode;

use anyhow::Result;
use weft_client::Volume;

use crate::args::Global;
use crate::remote::connect;
use crate::terminal::interrupt;

/// Connects to the volume that the command line names, and runs `copy` until it ends or a signal
/// arrives.
pub(crate) fn run(
    global: &Global,
    copy: impl AsyncFnOnce(&Volume) -> Result<ExitCode>,
) -> Result<ExitCode> {
    connect::block_on(async {
        let volume = connect::volume(global).await?;
        // A running transfer handles signals itself.
        interrupt::guard(copy(&volume), || {
            "either nothing was copied yet, or everything: --resume continues correctly in both cases".to_owned()
        })
        .await
    })
}
