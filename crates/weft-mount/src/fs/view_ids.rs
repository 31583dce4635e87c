//! Which ids and handles belong to views and checkpoints, and the calls that those refuse. All that
//! serves files asks this first; `views/` serves the rest.

use rustix::io::Errno;

use super::error::FsError;

/// The hidden directory.
pub(super) const HIDDEN: &[u8] = b".weft";

/// Ids and handles of views have this bit; those of files never have.
pub(super) const MARK: u64 = 1 << 63;

/// Ids of checkpoints have this bit, too.
pub(super) const CHECKPOINT_MARK: u64 = 1 << 62;

/// Whether an id or a handle is of a view or checkpoint.
pub(super) fn is_view(number: u64) -> bool {
    number & MARK != 0
}

/// Whether an id is of a checkpoint, and not of a file of the volume.
pub(super) fn is_of_checkpoint(id: u64) -> bool {
    is_view(id) && id & CHECKPOINT_MARK != 0
}

/// Refuses to make, rename or remove views.
pub(super) fn refuse_in_views(ids: &[u64], names: &[&[u8]]) -> Result<(), FsError> {
    if ids.iter().any(|id| is_of_checkpoint(*id)) {
        return Err(read_only());
    }
    if ids.iter().any(|id| is_view(*id)) || names.contains(&HIDDEN) {
        return Err(FsError::refused(
            "views cannot be made, renamed or removed",
            Errno::PERM,
        ));
    }
    Ok(())
}

/// Checkpoints are read-only.
pub(super) fn read_only() -> FsError {
    FsError::refused("checkpoints are read-only", Errno::ROFS)
}

/// Views have no space, no holes and no extended attributes.
pub(super) fn unsupported_in_views() -> FsError {
    FsError::refused("views do not support this", Errno::OPNOTSUPP)
}
