//! When delayed writes leave, in the order in which they came.
//!
//! They leave before anything else of the attachment that could see them or must come after them,
//! when a callback says so, when the oldest has waited for as long as it may, and when they are too
//! many. Until then only this process has them; a program that drops the file without closing it
//! does not lose them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::delayed::Waiting;
use crate::limits::DELAYED_LOOK;
use crate::{Error, File};

impl File {
    /// Keeps a write for later.
    pub(crate) async fn delay(
        &self,
        write: Box<dyn Waiting>,
        delay: Duration,
    ) -> Result<(), Error> {
        let (full, timed) = {
            let mut queue = self.0.delayed.queue.lock();
            queue.push(write, delay);
            (queue.is_full(), std::mem::replace(&mut queue.timed, true))
        };
        if !timed {
            let file = self.clone();
            let runtime = &self.0.volume.shared.runtime;
            runtime.spawn(async move { file.leave_in_time().await });
        }
        if full { self.commit().await } else { Ok(()) }
    }

    /// Sends the writes that the policy delays, in their order, and waits for them. Local if there
    /// are none.
    ///
    /// # Errors
    /// The first failure, also of writes that left by themselves since the last call. A write that
    /// has failed is not tried again.
    /// # Cancellation
    /// Dropped, they leave all the same.
    pub async fn commit(&self) -> Result<(), Error> {
        let failed = {
            let mut queue = self.0.delayed.queue.lock();
            let failed = queue.failed.take();
            if queue.writes.is_empty() && queue.sending == 0 {
                return failed.map_or(Ok(()), Err);
            }
            queue.sending += 1;
            failed
        };
        let file = self.clone();
        let runtime = &self.0.volume.shared.runtime;
        let sent = runtime.spawn(async move { file.send_delayed().await });
        let sent = sent.await.unwrap_or_else(|_| {
            let what = format!("write {}", self.path());
            Err(Error::invalid(
                what,
                "the runtime is shut down, and delayed writes are lost",
            ))
        });
        failed.map_or(sent, Err)
    }

    /// The caller has counted itself among those that send.
    async fn send_delayed(&self) -> Result<(), Error> {
        let delayed = &self.0.delayed;
        let turn = delayed.turn.lock().await;
        let writes = {
            let mut queue = delayed.queue.lock();
            (queue.bytes, queue.leave) = (0, None);
            std::mem::take(&mut queue.writes)
        };
        let mut outcome = Ok(());
        for write in writes {
            let sent = write.send().await;
            outcome = outcome.and(sent);
        }
        drop(turn);
        delayed.queue.lock().sending -= 1;
        outcome
    }

    /// Sends what waits when its time has come, or nobody else has the file any more.
    async fn leave_in_time(self) {
        loop {
            let (leave, others) = {
                let mut queue = self.0.delayed.queue.lock();
                let Some(leave) = queue.leave else {
                    queue.timed = false;
                    return;
                };
                (leave, Arc::strong_count(&self.0) > queue.writes.len() + 1)
            };
            if others && Instant::now() < leave {
                let look = Instant::now() + DELAYED_LOOK;
                tokio::time::sleep_until(leave.min(look)).await;
                continue;
            }
            self.0.delayed.queue.lock().sending += 1;
            if let Err(error) = self.send_delayed().await {
                tracing::warn!(path = %self.0.path, %error, "a delayed write has failed");
                self.0.delayed.queue.lock().failed.get_or_insert(error);
            }
        }
    }
}
