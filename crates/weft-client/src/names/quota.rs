//! Quotas: what bounds the bytes and files of users, groups and directory trees, and what is used.

use weft_proto::quota::{
    Bound, ListQuotasRequest, QuotaInfo, QuotaKind, QuotasOfRequest, SetQuotaRequest,
};

use crate::volume::Repeat;
use crate::{Error, Place, Volume};

/// Whose bytes and files are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payer {
    /// What a user owns.
    User(u32),
    /// What belongs to a group.
    Group(u32),
    /// A directory and what lies below it.
    Tree(Place),
}

/// Changes of bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewBounds {
    /// The most bytes, `Some(None)`: no bound; `None`: as it is.
    pub bytes: Option<Option<u64>>,
    /// The most files, likewise.
    pub files: Option<Option<u64>>,
}

/// A user, group or tree with what it uses and may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// User, group or directory.
    pub kind: QuotaKind,
    /// Its number; of a tree the directory's id.
    pub id: u64,
    /// Of a tree its path from the root, as bytes; empty: the directory is removed, and files of it
    /// are still open.
    pub path: Vec<u8>,
    /// Bytes of regular files, holes included.
    pub bytes: u64,
    /// Files, directories and other inodes.
    pub files: u64,
    /// The most bytes.
    pub bytes_max: Option<u64>,
    /// The most files.
    pub files_max: Option<u64>,
}

impl Quota {
    /// More is used than is allowed.
    pub fn is_exceeded(&self) -> bool {
        self.bytes_max.is_some_and(|most| self.bytes > most)
            || self.files_max.is_some_and(|most| self.files > most)
    }
}

impl From<QuotaInfo> for Quota {
    fn from(info: QuotaInfo) -> Quota {
        Quota {
            kind: info.kind(),
            id: info.id,
            path: info.path.into(),
            bytes: info.bytes,
            files: info.files,
            bytes_max: info.bytes_max,
            files_max: info.files_max,
        }
    }
}

impl Volume {
    /// Sets or changes bounds; only root may. They may be lower than what is used: then nothing
    /// more is allowed. One request.
    ///
    /// # Durability
    /// As of every operation of the namespace.
    pub async fn set_quota(&self, payer: &Payer, bounds: NewBounds) -> Result<Quota, Error> {
        let bound = |change: Option<Option<u64>>| change.map(|most| Bound { most });
        let request = SetQuotaRequest {
            bytes: bound(bounds.bytes),
            files: bound(bounds.files),
            ..self.about(payer)?
        };
        let reply = self.meta("set a quota", &request, Repeat::Safe).await?;
        Ok(reply.quota.into())
    }

    /// Removes bounds; what lies below a directory then counts for the next quota above only. One
    /// request.
    pub async fn clear_quota(&self, payer: &Payer) -> Result<Quota, Error> {
        let request = SetQuotaRequest {
            clear: true,
            ..self.about(payer)?
        };
        let reply = self.meta("clear a quota", &request, Repeat::Unsafe).await?;
        Ok(reply.quota.into())
    }

    fn about(&self, payer: &Payer) -> Result<SetQuotaRequest, Error> {
        let (kind, id, target) = match payer {
            Payer::User(id) => (QuotaKind::User, *id, None),
            Payer::Group(id) => (QuotaKind::Group, *id, None),
            Payer::Tree(place) => (QuotaKind::Tree, 0, Some(place.target(true)?)),
        };
        Ok(SetQuotaRequest {
            who: (*self.who).clone(),
            kind: kind as i32,
            id,
            target,
            ..SetQuotaRequest::default()
        })
    }

    /// All usages and bounds that the caller may see: root all, others their own, those of their
    /// groups, and of trees whose directory they own. One request for a thousand of them.
    pub async fn quotas(&self) -> Result<Vec<Quota>, Error> {
        let (mut found, mut last): (Vec<Quota>, _) = (Vec::new(), None);
        loop {
            let page = self.page_of_quotas(last).await?;
            let more = page.1;
            found.extend(page.0);
            last = found.last().map(|quota| (quota.kind, Some(quota.id)));
            if !more {
                return Ok(found);
            }
        }
    }

    async fn page_of_quotas(
        &self,
        last: Option<(QuotaKind, Option<u64>)>,
    ) -> Result<(Vec<Quota>, bool), Error> {
        let (kind, after) = last.unwrap_or_default();
        let request = ListQuotasRequest {
            who: (*self.who).clone(),
            kind: kind as i32,
            after,
        };
        let reply = self.meta("list quotas", &request, Repeat::Safe).await?;
        let more = reply.more && !reply.quotas.is_empty();
        Ok((reply.quotas.into_iter().map(Quota::from).collect(), more))
    }

    /// What a user or group uses and may use; of a tree what its directory counts for itself. One
    /// request. `None`: nothing is used and nothing bounded, or the caller may not see it.
    pub async fn quota(&self, payer: &Payer) -> Result<Option<Quota>, Error> {
        let (kind, id) = match payer {
            Payer::User(id) => (QuotaKind::User, u64::from(*id)),
            Payer::Group(id) => (QuotaKind::Group, u64::from(*id)),
            Payer::Tree(place) => {
                let id = self.stat(place).await?.id;
                (QuotaKind::Tree, id)
            }
        };
        let (page, _) = self.page_of_quotas(Some((kind, id.checked_sub(1)))).await?;
        let mine = |quota: &Quota| (quota.kind, quota.id) == (kind, id);
        Ok(page.into_iter().find(mine))
    }

    /// What a file or directory counts for: the trees that it lies in, the nearest first, then its
    /// user and its group, as far as the caller may see them. One request.
    pub async fn quotas_of(&self, path: impl Into<Place>) -> Result<Vec<Quota>, Error> {
        let place = path.into();
        let request = QuotasOfRequest {
            who: (*self.who).clone(),
            target: place.target(true)?,
        };
        let what = format!("read the quotas of {place}");
        let reply = self.meta(&what, &request, Repeat::Safe).await?;
        Ok(reply.quotas.into_iter().map(Quota::from).collect())
    }
}
