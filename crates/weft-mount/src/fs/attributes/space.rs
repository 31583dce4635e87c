//! How full the volume is.

use weft_client::{Place, QuotaKind, ServerState};

use super::space_cache::Space;
use crate::fs::caller::root;
use crate::fs::view_ids::is_view;
use crate::fs::{FileSystem, FsError};

/// The number of files is not limited; programs want a number.
const FILES_FREE: u64 = 1 << 40;

impl FileSystem {
    /// How full the volume is for a file or directory; in a tree with a quota, what the quota
    /// leaves.
    pub async fn space(&self, id: u64) -> Result<Space, FsError> {
        if let Some(space) = self.space.get(id) {
            return Ok(space);
        }
        let map = self.call(|| self.volume.server_map()).await?;
        let mut space = Space {
            files: map.files.saturating_add(FILES_FREE),
            files_free: FILES_FREE,
            ..Space::default()
        };
        for server in map
            .servers
            .iter()
            .filter(|s| s.state == ServerState::Up as i32)
        {
            space.capacity = space.capacity.saturating_add(server.usage.capacity);
            space.available = space.available.saturating_add(server.usage.available);
        }
        if !is_view(id) {
            let volume = self.volume.on_behalf_of(root());
            match volume.quotas_of(Place::of(id)).await {
                Ok(quotas) => {
                    let trees = quotas.iter().filter(|q| q.kind == QuotaKind::Tree);
                    trees.for_each(|quota| space.limit_to(quota));
                }
                // The tree of a deleted file is unknown.
                Err(error) => {
                    tracing::debug!(%error, file = id, "cannot read the quotas of a file");
                }
            }
        }
        self.space.set(id, space);
        Ok(space)
    }
}
