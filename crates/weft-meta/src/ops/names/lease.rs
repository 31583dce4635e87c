//! Lease: a client decides locally which names are in a directory that it made.

use crate::error::MetaError;
use crate::records::keys;
use crate::tx::Volume;

/// Grants a client that has just made a directory the lease of it, unless something was made in it
/// already. Returns whether the client has the lease.
pub(crate) fn lease(volume: &Volume, client: u64, directory: u64) -> Result<bool, MetaError> {
    let leases = volume.state().leases();
    if !leases.grant(client, directory) {
        return Ok(false);
    }
    // A name that is made from here on ends the lease.
    let inode = volume.read(|reader| keys::inode(reader, directory))?;
    let empty = inode.is_some_and(|inode| inode.size == 0);
    if !empty {
        leases.end(directory);
    }
    Ok(empty)
}
