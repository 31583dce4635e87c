//! What import and export refuse before they move a byte, and how they divide a view.

use anyhow::{Context, Result, bail};
use weft_proto::limits::TRANSFER_MAX;

use crate::args::ViewArgs;
use crate::copy::Part;

/// Bytes of a piece.
const PIECE: u64 = 4 << 20;

/// The source was changed while it was copied.
pub(super) fn changed(source: &str, how: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{source} changed while it was copied ({how}), so the copy is a mixture: copy it again with --force"
    )
}

/// Bytes of a piece. A view whose order depends on its division into accesses is one piece.
pub(super) fn step(view: &ViewArgs, part: Part, length: u64) -> Result<u64> {
    if !view.one_access() {
        return Ok(PIECE);
    }
    if part != Part::WHOLE {
        bail!("--order column rearranges the bytes of one access, so it cannot be done in parts");
    }
    if length > TRANSFER_MAX {
        bail!(
            "--order column rearranges the bytes of one access, and {length} bytes are too many for one: give --offset \
             and --length of at most {TRANSFER_MAX} bytes"
        );
    }
    Ok(length.max(1))
}

/// A text that is equal for equal views.
pub(super) fn view_text(view: &ViewArgs) -> String {
    format!("{:?} {} {}", view.view(), view.fork(), view.start())
}

/// Refuses what is no regular file.
pub(super) fn regular(name: &str, is_file: bool, is_directory: bool, instead: &str) -> Result<()> {
    if is_directory {
        bail!("{name} is a directory: -r takes it with everything in it");
    }
    if !is_file {
        bail!("{name} is no regular file, so its bytes have no places: {instead}");
    }
    Ok(())
}

/// The end of a range; fails past the largest offset.
pub(super) fn end_of(start: u64, length: u64) -> Result<u64> {
    start
        .checked_add(length)
        .context("--offset and the length together are past the largest offset")
}
