//! What import and export refuse before they copy anything, and how they divide a view.

use anyhow::{Context, Result, bail};
use weft_proto::limits::TRANSFER_MAX;

use crate::args::ViewArgs;
use crate::copy::TransferPart;
use crate::limits::TRANSFER_PIECE_BYTES;

/// The error of a source that changed while it was copied.
pub(super) fn changed(source: &str, how: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{source} changed while it was copied ({how}), so the copy mixes two states: copy it again with --force"
    )
}

/// Bytes of a piece. A view whose order depends on its division into accesses is one piece.
pub(super) fn step(view: &ViewArgs, part: TransferPart, length: u64) -> Result<u64> {
    if !view.one_access() {
        return Ok(TRANSFER_PIECE_BYTES);
    }
    if part != TransferPart::WHOLE {
        bail!("--order column needs a single access: it cannot be used with --part");
    }
    if length > TRANSFER_MAX {
        bail!(
            "--order column needs a single access, and {length} bytes are too many for one: give --offset and a --length of at \
             most {TRANSFER_MAX} bytes"
        );
    }
    Ok(length.max(1))
}

/// A text that identifies a view.
pub(super) fn view_text(view: &ViewArgs) -> String {
    format!("{:?} {} {}", view.view(), view.fork(), view.start())
}

/// Refuses anything but a regular file.
pub(super) fn regular(name: &str, is_file: bool, is_directory: bool, instead: &str) -> Result<()> {
    if is_directory {
        bail!("{name} is a directory: copy it and everything in it with -r");
    }
    if !is_file {
        bail!("{name} is not a regular file: {instead}");
    }
    Ok(())
}

/// The end of a range; fails past the largest offset.
pub(super) fn end_of(start: u64, length: u64) -> Result<u64> {
    start
        .checked_add(length)
        .context("--offset and the length together are past the largest offset")
}
