//! Calls to the metadata service, over a connection over which everything attached was asserted.

use std::sync::atomic::Ordering;

use weft_net::{CallError, Connection};
use weft_proto::Call;

use super::guards::ReassertOnDrop;
use super::{Detach, Repeat, Retry, Volume};
use crate::Error;
use crate::limits::ENDING_RETRIES;

impl Volume {
    /// One call to the metadata service, after earlier changes were reported. `what` names it in
    /// errors.
    pub(crate) async fn meta<C: Call>(
        &self,
        what: &str,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        self.catch_up().await;
        self.meta_now(what, request, repeat).await
    }

    /// One call to the metadata service that need not wait for unreported changes.
    pub(crate) async fn meta_now<C: Call>(
        &self,
        what: &str,
        request: &C,
        repeat: Repeat,
    ) -> Result<C::Reply, Error> {
        let (reply, _) = self.meta_over(what, request, repeat).await?;
        Ok(reply)
    }

    /// As [`Volume::meta_now`], and the number of the connection that the answer came over.
    pub(crate) async fn meta_over<C: Call>(
        &self,
        what: &str,
        request: &C,
        repeat: Repeat,
    ) -> Result<(C::Reply, u64), Error> {
        let mut retry = Retry::once(repeat);
        loop {
            let result = match self.meta_connection().await {
                Ok((connection, run)) => {
                    let called = connection.call_stamped(request).await;
                    called.map(|(reply, stamp)| {
                        self.shared.unsynced.note_names(&stamp);
                        (reply, run)
                    })
                }
                Err(e) => Err(e),
            };
            match result {
                Ok(reply) => return Ok(reply),
                Err(e) if retry.after_loss(&e) => {}
                Err(e) => return Err(Error::of_call(what, e)),
            }
        }
    }

    /// As [`Volume::meta_now`], of a call that may be repeated; `handed_over` is called as soon as
    /// the request outlives this process ([`Connection::call_handed_over`]).
    pub(crate) async fn meta_handed_over<C: Call>(
        &self,
        what: &str,
        request: &C,
        handed_over: impl Fn(),
    ) -> Result<C::Reply, Error> {
        let mut retry = Retry::once(Repeat::Safe);
        loop {
            let result = match self.meta_connection().await {
                Ok((connection, _)) => connection.call_handed_over(request, &handed_over).await,
                Err(e) => Err(e),
            };
            match result {
                Ok((reply, stamp)) => {
                    self.shared.unsynced.note_names(&stamp);
                    return Ok(reply);
                }
                Err(e) if retry.after_loss(&e) => {}
                Err(e) => return Err(Error::of_call(what, e)),
            }
        }
    }

    /// As [`Volume::meta`], of a call that ends attachments if its answer is `done`. Until then
    /// every new connection asserts them, so that a repetition ends these and not others of the
    /// same files.
    pub(crate) async fn meta_ending<C: Call>(
        &self,
        what: &str,
        request: &C,
        ending: &mut Detach,
        done: impl Fn(&C::Reply) -> bool,
    ) -> Result<C::Reply, Error> {
        self.catch_up().await;
        self.meta_ending_now(what, request, ending, done).await
    }

    /// As [`Volume::meta_ending`], of attachments that no unreported change makes.
    pub(crate) async fn meta_ending_now<C: Call>(
        &self,
        what: &str,
        request: &C,
        ending: &mut Detach,
        done: impl Fn(&C::Reply) -> bool,
    ) -> Result<C::Reply, Error> {
        let mut retry = Retry::times(ENDING_RETRIES, Repeat::Safe);
        loop {
            ending.sent();
            let (result, run) = match self.meta_connection().await {
                Ok((connection, run)) => (connection.call(request).await, run),
                Err(e) => (Err(e), 0),
            };
            let result = match result {
                Ok(reply) if !done(&reply) => {
                    ending.refused();
                    return Ok(reply);
                }
                result => result,
            };
            let asserted = self.shared.asserted.lock().await;
            match result {
                Ok(reply) if asserted.run == run => {
                    ending.done();
                    return Ok(reply);
                }
                // A newer connection has asserted these attachments meanwhile.
                Ok(_) if retry.take() => {}
                Ok(reply) => return Ok(reply),
                Err(e) if retry.after_loss(&e) => {}
                Err(e) => return Err(Error::of_call(what, e)),
            }
        }
    }

    /// A connection over which everything attached was asserted, and its number.
    async fn meta_connection(&self) -> Result<(Connection, u64), CallError> {
        let mut asserted = self.shared.asserted.lock().await;
        let (connection, fresh) = self.shared.meta.connection().await?;
        if fresh {
            asserted.complete = false;
            asserted.run += 1;
        }
        if !asserted.complete {
            // Cleared before the request is built: it may hold attachments that end from here on.
            let outdated = self.shared.outdated.swap(false, Ordering::AcqRel);
            let mut reassert = ReassertOnDrop::new(&self.shared, outdated);
            if let Some(request) = self.shared.reassertion(asserted.run, outdated) {
                // Files deleted meanwhile answer with `Stale` when they are used.
                let reply = connection.call(&request).await?;
                if !reply.gone.is_empty() {
                    tracing::warn!(files = ?reply.gone, "attached files were deleted while the metadata service was away");
                }
                self.shared.locks.lost(&reply.lost);
            }
            reassert.disarm();
            asserted.complete = true;
        }
        Ok((connection, asserted.run))
    }
}
