//! Files whose operations must be cautious, because two applications use them and one of them
//! writes (Vesta §4.3).
//!
//! The metadata service says which, and repeats it: what it does not repeat is forgotten.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::FileId;
use weft_net::Peer;
use weft_proto::session::Role;
use weft_proto::{Code, Failure};

use crate::limits::FORCED_TIMEOUT;

/// The files, and until when.
#[derive(Default)]
pub(in crate::io) struct ForcedCaution {
    files: Mutex<HashMap<FileId, Instant>>,
    /// There are some.
    any: AtomicBool,
}

impl ForcedCaution {
    /// Returns the files that are new.
    pub(super) fn set(&self, files: &[FileId], forced: bool, now: Instant) -> Vec<FileId> {
        let mut known = self.files.lock();
        known.retain(|_, until| *until > now);
        let mut new = Vec::new();
        for file in files {
            if !forced {
                known.remove(file);
            } else if known.insert(*file, now + FORCED_TIMEOUT).is_none() {
                new.push(*file);
            }
        }
        self.any.store(!known.is_empty(), Ordering::Release);
        new
    }

    fn has(&self, file: FileId, now: Instant) -> bool {
        let until = self.files.lock().get(&file).copied();
        until.is_some_and(|until| until > now)
    }

    /// Whether operations on a file must be cautious now.
    pub(in crate::io) fn has_now(&self, file: FileId) -> bool {
        self.any.load(Ordering::Acquire) && self.has(file, Instant::now())
    }

    /// Refuses a reckless operation of a client on one of the files.
    ///
    /// # Errors
    /// [`Code::Cautious`].
    pub(in crate::io) fn check(&self, file: FileId, peer: &Peer) -> Result<(), Failure> {
        if !self.any.load(Ordering::Acquire)
            || peer.role != Role::Client
            || !self.has(file, Instant::now())
        {
            return Ok(());
        }
        let what = "another application uses the file, and one of them writes it: operations must be cautious";
        Err(Failure::new(Code::Cautious, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn caution_is_forced_until_it_is_released_or_not_repeated() {
        let (forced, files) = (ForcedCaution::default(), [FileId(1), FileId(2)]);
        let peer = Peer {
            address: String::new(),
            role: Role::Client,
            client: 7,
            process: None,
        };
        let refused = |file| forced.check(file, &peer).is_err();
        assert_eq!(forced.set(&files, true, Instant::now()), files);
        assert!(refused(files[0]) && refused(files[1]) && !refused(FileId(3)));
        forced.set(&files[..1], false, Instant::now());
        assert!(!refused(files[0]) && refused(files[1]));
        tokio::time::sleep(FORCED_TIMEOUT / 2).await;
        assert!(forced.set(&files[1..], true, Instant::now()).is_empty());
        tokio::time::sleep(FORCED_TIMEOUT / 2).await;
        assert!(refused(files[1]));
        let service = Peer {
            role: Role::MetaService,
            ..peer.clone()
        };
        assert!(forced.check(files[1], &service).is_ok());
        tokio::time::sleep(FORCED_TIMEOUT / 2).await;
        assert!(!refused(files[1]));
    }
}
