//! Growth of files that are being written: see `docs/design/0011-quotas.md`.

use crate::error::MetaError;
use crate::quota::{GrowingFiles, Inline, Unbounded, growing_among, stored_records};
use crate::tx::Volume;

pub(crate) fn limits_growth(volume: &Volume) -> bool {
    volume.state().growth().is_bounded()
}

pub(crate) fn growing(volume: &Volume) -> Result<GrowingFiles, MetaError> {
    let mut written = volume.state().open_files().open_for_writing();
    let mut unbounded = Unbounded::Skip;
    if volume.state().grace().is_active() {
        unbounded = Unbounded::Include;
        written.extend(volume.state().unknown_sizes().all());
        written.sort_unstable();
        written.dedup();
    }
    volume.read(|reader| growing_among(reader, &written, unbounded, Inline::Skip))
}

pub(crate) fn growing_soon(
    volume: &Volume,
    file: u64,
    margin: u64,
) -> Result<GrowingFiles, MetaError> {
    let mut found =
        volume.read(|reader| growing_among(reader, &[file], Unbounded::Skip, Inline::Include))?;
    volume
        .state()
        .growth()
        .take_off_others(file, &mut found.left);
    if found.left.values().all(|left| *left > i128::from(margin)) {
        found = GrowingFiles::default();
    }
    Ok(found)
}

pub(crate) fn note_growth(volume: &Volume, growing: &GrowingFiles, sizes: &[u64]) {
    let unknown_sizes = &volume.state().unknown_sizes();
    volume
        .state()
        .growth()
        .note(growing, sizes, |file| unknown_sizes.holds(file));
}

/// Reads which bounds are set.
pub(crate) fn load_bounds(volume: &Volume) -> Result<(), MetaError> {
    let (records, _) = volume.read(stored_records)?;
    volume.state().growth().note_bounds(records.values());
    Ok(())
}
