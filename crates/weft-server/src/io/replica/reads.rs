//! Reads on backups: read first, then ask the primary (`docs/design/0049-reads-of-backups.md`).

use tokio::time::timeout;
use weft_layout::FileId;
use weft_proto::replica::{ConfirmReadReply, ConfirmReadRequest};
use weft_proto::{Code, Failure};

use super::state::Replicas;
use crate::io::IoService;
use crate::limits::{REPLICA_CONFIRM_TIMEOUT, REPLICA_CONFIRM_WAIT};

/// The term in which a backup has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::io) struct BackupTerm(u64);

impl IoService {
    /// Admits a read without a claim. `None`: what is read needs no confirmation; on a backup in
    /// sync the term in which it reads.
    ///
    /// # Errors
    /// As [`Replicas::admit`].
    pub(in crate::io) async fn admit_read(
        &self,
        is_live: bool,
    ) -> Result<Option<BackupTerm>, Failure> {
        let Some(replicas) = self.replicas() else {
            return Ok(None);
        };
        // Of checkpoints a scrub may have left damage.
        let as_backup = replicas.term_as_backup().filter(|_| is_live);
        if let Some(term) = as_backup {
            return Ok(Some(BackupTerm(term)));
        }
        replicas.admit().await?;
        Ok(None)
    }

    /// Waits until what a backup has read of a file in that term may be shown.
    ///
    /// # Errors
    /// [`Code::StaleMap`]: ask the primary.
    pub(in crate::io) async fn confirm_own_read(
        &self,
        term: BackupTerm,
        file: FileId,
    ) -> Result<(), Failure> {
        let refuse = |why: String| Failure::new(Code::StaleMap, why);
        let primary = self.replicas().and_then(|replicas| replicas.primary_link());
        let Some(primary) = primary else {
            return Err(refuse("this backup does not know its primary".into()));
        };
        let request = ConfirmReadRequest {
            term: term.0,
            file: file.0,
            replica: self.replicas().map_or(0, |replicas| replicas.me.number),
            incarnation: self.store.position().incarnation,
        };
        let asked = async {
            let (connection, _) = primary.connection().await?;
            connection.call(&request).await
        };
        match timeout(REPLICA_CONFIRM_TIMEOUT, asked).await {
            Ok(Ok(ConfirmReadReply {})) => Ok(()),
            Ok(Err(error)) => Err(refuse(format!(
                "the primary does not confirm a read: {error}"
            ))),
            Err(_) => Err(refuse(
                "the primary has not confirmed a read in time".into(),
            )),
        }
    }

    pub(in crate::io) async fn confirm_read(
        &self,
        request: ConfirmReadRequest,
    ) -> Result<ConfirmReadReply, Failure> {
        let replicas = self.own_replicas()?;
        let file = FileId(request.file);
        let ended = timeout(REPLICA_CONFIRM_WAIT, replicas.turns.pass_of(file)).await;
        if ended.is_err() {
            let what = "a change of the file takes long";
            return Err(Failure::new(Code::StaleMap, what));
        }
        replicas.check_shows(request.term)?;
        if !replicas.is_in_sync_as(request.replica, request.incarnation) {
            let what = "the primary does not know this process of the backup to be in sync";
            return Err(Failure::new(Code::StaleMap, what));
        }
        if self.forced.has_now(file) {
            let what = "operations on the file must be cautious: the primary orders them";
            return Err(Failure::new(Code::Cautious, what));
        }
        Ok(ConfirmReadReply {})
    }
}

impl Replicas {
    /// Refuses unless this replica is primary in this term, and may show data now.
    fn check_shows(&self, term: u64) -> Result<(), Failure> {
        if self.term_as_primary().is_ok_and(|own| own == term) && self.may_show() == Ok(true) {
            return Ok(());
        }
        let what = format!("this replica does not show data as primary in term {term}");
        Err(Failure::new(Code::StaleMap, what))
    }
}
