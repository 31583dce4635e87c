//! A file's consistency policy as the extended attribute `user.weft.policy`: its name.

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{Changes, Place};

use crate::fs::{Caller, FileSystem, FsError};

/// The policy of a file, or what a directory gives to what is made in it.
pub(super) const POLICY_XATTR: &[u8] = b"user.weft.policy";

impl FileSystem {
    pub(super) async fn policy(&self, id: u64) -> Result<Bytes, FsError> {
        let attributes = self
            .call(|| self.volume.known_attributes(Place::of(id)))
            .await?;
        match attributes.policy {
            none if none.is_empty() => Err(FsError::refused("no policy is set", Errno::NODATA)),
            policy => Ok(Bytes::from(policy)),
        }
    }

    /// Sets the policy by its name; empty or `none`: none from now on. A file that is open takes it
    /// when it is opened again.
    pub(super) async fn set_policy(
        &self,
        caller: Caller,
        id: u64,
        name: &[u8],
    ) -> Result<(), FsError> {
        let name = std::str::from_utf8(name).unwrap_or_default().trim();
        let policy = match name {
            "" | "none" => None,
            name => Some(self.volume.policies().find(name).map_err(|why| {
                tracing::info!(file = self.metadata.shown(id), %why, "a policy is not set");
                FsError::refused("there is no such policy; the log lists them", Errno::INVAL)
            })?),
        };
        let changes = Changes {
            policy: Some(policy),
            ..Changes::default()
        };
        let (volume, place) = (self.on(caller), self.metadata.place(id));
        self.forget_kept(id).await;
        self.call(|| volume.set_attributes(place.clone(), &changes))
            .await?;
        // New files in it have another policy from now on.
        self.volume.end_delegation(id);
        Ok(())
    }
}
