//! Takes part in contests for a name.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use weft_client::{Access, Error, File, NewMode, Place};
use weft_proto::Code;

use super::process::Life;
use crate::state::now;

const MODE: u32 = 0o600;

impl Life {
    /// Makes a directory, and a name in it that others make, too.
    pub(super) async fn open_contest(&self, rng: &mut SmallRng) {
        let (may, _) = self.may_make_directory();
        let turn = may.then(|| self.shared.names().new_name(self.by)).flatten();
        let Some(turn) = turn else { return };
        let made = self.make_directory_in_turn(&turn).await;
        self.shared.names().end_turn(&turn, made.is_none(), now());
        let opened = made.and_then(|()| self.shared.names().open_contest(self.by));
        let Some((parent, name)) = opened else { return };
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..12))).await;
        let is_absent = || self.known.is_absent(parent, &name);
        let ahead = self.known.is_live()
            && is_absent()
            && self.volume.try_delegation(parent, true, Vec::new).await
            && is_absent();
        let new = NewMode {
            bits: MODE,
            umask: 0,
        };
        let place = (parent, name.as_bytes());
        let made = ahead.then(|| {
            self.volume
                .create_delegated(place, &name, new, (true, true))
        });
        self.known.may_exist(parent, &name);
        let made = match made.flatten() {
            Some(file) => Ok(file),
            None => self.make_exclusively(Place::under(parent, &name)).await,
        };
        self.end_contest(&name, made).await;
    }

    /// Takes part in a contest that another client has begun; false if there is none.
    pub(super) async fn enter_contest(&self, rng: &mut SmallRng) -> bool {
        let entered = self.shared.names().enter_contest(self.by.client);
        let Some((path, name)) = entered else {
            return false;
        };
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..8))).await;
        let made = self.make_exclusively(path.into()).await;
        self.end_contest(&name, made).await;
        true
    }

    async fn make_exclusively(&self, place: Place) -> Result<File, Error> {
        let access = Access::read_write().create_new(MODE).inline();
        self.volume.attach(place, access).await
    }

    async fn end_contest(&self, name: &str, made: Result<File, Error>) {
        match made {
            Ok(file) => {
                self.shared.names().won(self.by, name);
                self.counted("contest won");
                let closed = file.close_deferred().await.map(drop);
                self.shared.state.lock().count("close ahead", &closed);
            }
            // Its directory may be lost with the process that opened it, or with power.
            Err(error) if matches!(error.code(), Code::Exists | Code::NotFound | Code::Stale) => {
                self.counted("contest lost");
            }
            Err(error) => {
                let failed = Err::<(), _>(error);
                self.shared.state.lock().count("contest lost", &failed);
            }
        }
    }
}
