//! Small files whose bytes lie with their metadata: what a client does that attached one with
//! [`Access::inline`](crate::Access::inline).

use std::sync::PoisonError;

use bytes::Bytes;
use weft_proto::Code;
use weft_proto::inline::{SpillRequest, StoreInlineRequest};
use weft_proto::meta::SetAttributesRequest;

use crate::volume::Repeat;
use crate::{Access, Attributes, Changes, Credentials, Error, File, Place};

/// How [`File::store_inline_with`] stores.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Time of the last write, in nanoseconds since the epoch.
    pub modified: i64,
    /// The attachment ends with it.
    pub close: bool,
    /// The writer is not privileged: the file loses its set-id bits.
    pub kill_priv: bool,
    /// Attributes to change in the same step, after the content.
    pub changes: Option<Changes>,
}

impl File {
    /// All bytes of a file that is inline, as of the attach or of this attachment's last store;
    /// `None`: they are in its cells, and views work. Local.
    pub fn inline_data(&self) -> Option<Bytes> {
        let inline = self.0.inline.lock();
        inline.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks again for the bytes of an inline file, which others may have changed: what
    /// [`File::inline_data`] says from then on. No permission is asked for, as of a read by a
    /// descriptor that is open. One request.
    pub async fn ask_inline(&self) -> Result<Option<Bytes>, Error> {
        let a = &self.0;
        let volume = a.volume.on_behalf_of(Credentials::default());
        let again = volume.attach(Place::of(a.id), Access::default().inline());
        let again = again.await?;
        let data = again.inline_data();
        again.close_deferred().await?;
        self.set_inline(data.clone());
        Ok(data)
    }

    /// Replaces the whole content of an inline file, which must be attached for writing; sets its
    /// size and its time of modification (nanoseconds since the epoch). With `close` the attachment
    /// ends with it. One request.
    ///
    /// # Durability
    /// As of every operation of the namespace: survives power loss on return, unless the volume is
    /// connected lazily.
    /// # Errors
    /// With [`Code::Spilled`] nothing was stored, nor closed: the file's bytes are in its cells
    /// now, where the caller writes what it wanted to write; views work from then on.
    pub async fn store_inline(
        &self,
        data: impl Into<Bytes>,
        modified: i64,
        close: bool,
    ) -> Result<(), Error> {
        let store = Store {
            modified,
            close,
            ..Store::default()
        };
        self.store_inline_with(data, &store).await.map(drop)
    }

    /// As [`File::store_inline`], with more to do in the same request. Returns the attributes after
    /// it.
    pub async fn store_inline_with(
        &self,
        data: impl Into<Bytes>,
        store: &Store,
    ) -> Result<Attributes, Error> {
        let a = &self.0;
        let data = data.into();
        if let Some(stored) = a.volume.store_delegated(a.id, &data, store).await {
            let attributes = stored?;
            self.set_inline(Some(data));
            return Ok(attributes);
        }
        let set = store.changes.as_ref().map(|changes| SetAttributesRequest {
            who: (*a.volume.who).clone(),
            ..SetAttributesRequest::from(changes)
        });
        let request = StoreInlineRequest {
            file: a.id,
            data: data.clone(),
            modified: store.modified,
            detach: store.close,
            kill_priv: store.kill_priv,
            set,
        };
        let what = format!("store {}", a.path);
        let asked = a.volume.set_here();
        match a.volume.meta(&what, &request, Repeat::Safe).await {
            Ok(reply) => {
                self.set_inline(Some(data));
                a.volume.refresh_delegated(&reply.attributes, asked);
                if store.close {
                    a.note_closed();
                }
                Ok(reply.attributes)
            }
            Err(error) => {
                if error.code() == Code::Spilled {
                    self.set_inline(None);
                }
                Err(error)
            }
        }
    }

    /// Moves the bytes of an inline file to its cells, where they stay: views work from then on.
    /// What the caller has not stored yet it writes there afterwards. One request; none if they are
    /// there already.
    ///
    /// # Durability
    /// What was stored before survives power loss.
    pub async fn spill(&self) -> Result<(), Error> {
        let a = &self.0;
        if self.inline_data().is_none() {
            return Ok(());
        }
        if !a.volume.spill_delegated(a.id).await? {
            let what = format!("move {} to its cells", a.path);
            let request = SpillRequest { file: a.id };
            a.volume.meta(&what, &request, Repeat::Safe).await?;
            let delegated = &a.volume.shared.delegated;
            delegated.with(|table| table.spilled(a.id));
        }
        self.set_inline(None);
        Ok(())
    }

    /// Refuses what needs cells while there are none.
    pub(crate) fn needs_cells(&self) -> Result<(), Error> {
        match self.inline_data() {
            None => Ok(()),
            Some(_) => Err(Error::Inline {
                path: self.0.path.clone(),
            }),
        }
    }

    /// What a truncate left of an inline file.
    pub(crate) fn truncate_inline(&self, after: &Attributes) {
        let inline = self.inline_data().filter(|_| after.inline);
        self.set_inline(inline.map(|data| {
            let mut data = Vec::from(data);
            data.resize(after.size as usize, 0);
            data.into()
        }));
    }

    fn set_inline(&self, inline: Option<Bytes>) {
        *self.0.inline.lock().unwrap_or_else(PoisonError::into_inner) = inline;
    }
}
