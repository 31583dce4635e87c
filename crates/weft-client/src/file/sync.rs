//! Making written bytes survive power loss, and finding out which of them a server has lost.

use futures_util::future::{join_all, try_join_all};
use weft_layout::ServerId;
use weft_policy::{Core, Opened};
use weft_proto::Code;
use weft_proto::io::SyncRequest;
use weft_referee::What;

use crate::policy::Kept;
use crate::session::on;
use crate::volume::Repeat;
use crate::{Error, File, Volume};

impl File {
    /// Makes everything written so far, by any client, survive power loss: one request to each
    /// server; of an inline file one to the service.
    ///
    /// # Errors
    /// With [`Code::Lost`], once for each attachment of the file, when a server came back without
    /// bytes that it had acknowledged to this client.
    pub async fn sync(&self) -> Result<(), Error> {
        let begun = self.now();
        self.sync_by_policy().await?;
        self.note(begun, Some(self.now()), What::Sync);
        Ok(())
    }

    async fn sync_by_policy(&self) -> Result<(), Error> {
        let Some(chosen) = self.chosen() else {
            return self.sync_written().await;
        };
        let asked = self.call(&chosen, "sync", Opened::pre_sync)?;
        let synced = async {
            self.do_pending().await?;
            self.do_asked_for(asked).await?;
            if let Kept::Own {
                until_sync: true, ..
            } = chosen.values().names
            {
                self.0.own_names.clear();
            }
            self.sync_written().await
        };
        let synced = synced.await;
        let after = |opened: &Opened, core: &dyn Core, _| opened.post_sync(core);
        self.after(&chosen, "sync", synced, |()| 0, after).await
    }

    async fn sync_written(&self) -> Result<(), Error> {
        self.commit().await?;
        let a = &self.0;
        if self.inline_data().is_some() {
            return a.volume.sync_namespace().await;
        }
        let what = format!("sync {}", a.path);
        let servers = a.layout.servers_in_use();
        let synced = self.ask_for_written(&what, servers, false).await;
        self.losses()?;
        synced
    }

    /// Whether something that was written through any attachment of this client is known to be
    /// lost, and this attachment has not reported it yet. Local.
    ///
    /// # Errors
    /// With [`Code::Lost`]; the next call does not report it again.
    pub fn losses(&self) -> Result<(), Error> {
        let a = &self.0;
        let unreported = a
            .volume
            .shared
            .unsynced
            .unreported(a.id, &a.reported_losses);
        unreported.map_or(Ok(()), |message| Err(Error::lost(&a.path, message)))
    }

    /// Asks servers whether they have what this client wrote, and, unless `check_only`, to make it
    /// survive power loss. Repeated when a connection is lost: the server then says what it lost
    /// meanwhile.
    async fn ask_for_written(
        &self,
        what: &str,
        servers: &[ServerId],
        check_only: bool,
    ) -> Result<(), Error> {
        let a = &self.0;
        let unsynced = &a.volume.shared.unsynced;
        let asked = unsynced.of_file(a.id);
        let asks = servers.iter().map(|server| {
            let request = SyncRequest {
                file: a.cells.file,
                written: on(&asked, *server),
                check_only,
            };
            async move {
                let synced = a.volume.io(what, *server, &request, Repeat::Safe).await;
                (*server, synced)
            }
        });
        let mut failed = None;
        for (server, synced) in join_all(asks).await {
            match synced {
                Ok(_) if check_only => {}
                Ok(_) => unsynced.synced(&asked, server),
                Err(error) if error.code() == Code::Lost => {
                    unsynced.lost(a.id, &asked, server, &error.to_string());
                }
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Finds out whether servers that began another incarnation since have lost what this client
    /// wrote. A server that cannot be reached is not waited for: no promise was made for it.
    pub(super) async fn look_for_losses(&self) {
        let a = &self.0;
        let mut doubtful = Vec::new();
        for ((server, incarnation), _) in a.volume.shared.unsynced.of_file(a.id) {
            let same = match a.volume.server_connection(server).await {
                Ok(connection) => connection.incarnation() == incarnation,
                Err(_) => true,
            };
            if !same && !doubtful.contains(&server) {
                doubtful.push(server);
            }
        }
        if !doubtful.is_empty() {
            let what = format!("close {}", a.path);
            let asked = self.ask_for_written(&what, &doubtful, true).await;
            if let Err(error) = asked {
                tracing::debug!(%error, "whether written bytes were lost is not known");
            }
        }
    }
}

impl Volume {
    /// Makes everything written so far, by any client, to any file on these servers survive power
    /// loss: one request to each.
    pub async fn sync(&self, servers: impl IntoIterator<Item = ServerId>) -> Result<(), Error> {
        // File 0 is no file: a server syncs all it has, and has no cells to report.
        let unsynced = &self.shared.unsynced;
        let syncs = servers.into_iter().map(|server| async move {
            let asked = unsynced.on_server(server);
            let request = SyncRequest {
                file: 0,
                written: on(&asked, server),
                check_only: false,
            };
            let synced = self.io("sync", server, &request, Repeat::Safe).await;
            match &synced {
                Ok(_) => unsynced.synced(&asked, server),
                Err(error) if error.code() == Code::Lost => {
                    self.find_lost_files(server, error).await;
                }
                Err(_) => {}
            }
            synced
        });
        try_join_all(syncs).await?;
        Ok(())
    }

    /// A server has lost something of some file: finds out which.
    async fn find_lost_files(&self, server: ServerId, error: &Error) {
        let unsynced = &self.shared.unsynced;
        for file in unsynced.files_on(server) {
            let asked = unsynced.of_file(file);
            let request = SyncRequest {
                file: 0,
                written: on(&asked, server),
                check_only: true,
            };
            match self.io("sync", server, &request, Repeat::Safe).await {
                Err(e) if e.code() == Code::Lost => {
                    unsynced.lost(file, &asked, server, &error.to_string());
                }
                _ => {}
            }
        }
    }
}
