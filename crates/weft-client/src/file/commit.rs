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
        let delayed = &self.0.delayed;
        let (full, timed) = {
            let mut queue = delayed.queue.lock();
            queue.push(write, delay);
            (queue.is_full(), std::mem::replace(&mut queue.timed, true))
        };
        if timed {
            // It may have to leave before what was waited for.
            delayed.earlier.notify_one();
        } else {
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
    /// Dropped, they leave all the same; the next call has their failures.
    pub async fn commit(&self) -> Result<(), Error> {
        self.send_waiting().await?;
        let failed = self.0.delayed.queue.lock().failed.take();
        failed.map_or(Ok(()), Err)
    }

    /// As [`File::commit`], but leaves the failure of a write to the next call of that.
    ///
    /// # Errors
    /// If the process is ending.
    pub async fn send_waiting(&self) -> Result<(), Error> {
        let waits = {
            let queue = self.0.delayed.queue.lock();
            !queue.writes.is_empty() || queue.sending > 0
        };
        if !waits {
            return Ok(());
        }
        let file = self.clone();
        let runtime = &self.0.volume.shared.runtime;
        let sent = runtime.spawn(async move { file.send_delayed().await });
        sent.await.map_err(|_| {
            let what = format!("write {}", self.path());
            let reason = "the task that sent delayed writes has ended, and they may be lost";
            Error::invalid(what, reason)
        })
    }

    /// Sends what waits; a failure is kept for the next [`File::commit`].
    async fn send_delayed(&self) {
        let delayed = &self.0.delayed;
        let _turn = delayed.turn.lock().await;
        let (writes, _sending) = {
            let mut queue = delayed.queue.lock();
            (queue.bytes, queue.leave) = (0, None);
            (
                std::mem::take(&mut queue.writes),
                delayed.sending(&mut queue),
            )
        };
        for write in writes {
            if let Err(error) = write.send().await {
                tracing::warn!(path = %self.0.path, %error, "a delayed write has failed");
                delayed.queue.lock().failed.get_or_insert(error);
            }
        }
    }

    /// Sends what waits when its time has come, or once only this task and the queue hold the file.
    async fn leave_in_time(self) {
        let delayed = &self.0.delayed;
        loop {
            let (leave, others) = {
                let mut queue = delayed.queue.lock();
                let Some(leave) = queue.leave else {
                    queue.timed = false;
                    return;
                };
                (leave, Arc::strong_count(&self.0) > queue.writes.len() + 1)
            };
            if others && Instant::now() < leave {
                let look = Instant::now() + DELAYED_LOOK;
                tokio::select! {
                    () = tokio::time::sleep_until(leave.min(look)) => {}
                    () = delayed.earlier.notified() => {}
                }
                continue;
            }
            self.send_delayed().await;
        }
    }
}
