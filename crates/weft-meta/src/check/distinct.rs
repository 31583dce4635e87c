//! Iterating over the numbers that keys begin with, by seeks.

use std::ops::{Bound, ControlFlow};

use weft_kv::{Reader, Space, prefix_end};

use crate::error::MetaError;
use crate::records::keys;

/// Visits the numbers that keys of a space begin with, each once and ascending. Cost: a seek each.
pub(super) fn distinct(
    reader: &dyn Reader,
    space: Space,
    mut visit: impl FnMut(u64) -> Result<ControlFlow<()>, MetaError>,
) -> Result<(), MetaError> {
    let mut from = Vec::new();
    loop {
        let mut next = None;
        reader.scan(
            space,
            Bound::Included(&from),
            Bound::Unbounded,
            &mut |key, _| {
                next = keys::number(key);
                ControlFlow::Break(())
            },
        )?;
        let Some(id) = next else { return Ok(()) };
        if visit(id)?.is_break() {
            return Ok(());
        }
        match prefix_end(&id.to_be_bytes()) {
            Some(end) => from = end,
            None => return Ok(()),
        }
    }
}
