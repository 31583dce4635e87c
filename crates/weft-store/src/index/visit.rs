//! A scan of the index whose visitor may fail.

use std::ops::{Bound, ControlFlow};

use weft_kv::{Reader, Space};

use crate::error::StoreError;

/// Visits pairs of a space; the first error ends it.
pub(crate) fn visit(
    reader: &dyn Reader,
    space: Space,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut failed = None;
    reader.scan(space, from, to, &mut |key, value| match each(key, value) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}
