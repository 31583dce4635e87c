//! Attaching for a whole group: one request.

use std::io;

use super::Group;
use crate::{Access, Error, File, Place, Volume};

impl Group {
    /// Attaches a file for the whole group, creating it if `access` says so: one request to the
    /// metadata service, by member 0.
    ///
    /// `share` is how the processes of this group tell each other something (a broadcast of MPI, a
    /// pipe, a file): in member 0 it is given the attachment, in the others nothing; in all it
    /// returns what member 0 gave. The file stays attached until member 0 closes it, which reports
    /// what all have written: it is the last to do so.
    ///
    /// # Errors
    /// In member 0 those of [`Volume::attach`]; the others are told that it failed.
    /// [`Error::Protocol`] when `share` fails.
    /// # Source
    /// Vesta §4.1.
    pub async fn attach(
        &self,
        volume: &Volume,
        path: impl Into<Place>,
        access: Access,
        share: impl AsyncFnOnce(Option<Vec<u8>>) -> io::Result<Vec<u8>>,
    ) -> Result<File, Error> {
        let path = path.into();
        let what = format!("attach {path} for group `{}`", self.id);
        let protocol = |reason: String| Error::Protocol {
            what: what.clone(),
            reason,
        };
        if self.member > 0 {
            let handed = share(None).await.map_err(|e| protocol(e.to_string()))?;
            if handed.is_empty() {
                return Err(protocol("member 0 could not attach it".to_owned()));
            }
            return volume.adopt(&handed);
        }
        let attached = volume.attach(path, access).await;
        let handed = attached.as_ref().map(File::hand_over).unwrap_or_default();
        let shared = share(Some(handed)).await;
        let file = attached?;
        shared.map_err(|e| protocol(e.to_string()))?;
        if file.writable() {
            // Others will write, too: closing asks the servers what came of it.
            file.note_written();
        }
        Ok(file)
    }
}
