//! Telling the sharers of a change, and the call of a client that waits for callbacks.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use weft_layout::{CellIndex, FileId};
use weft_net::Served;
use weft_proto::Failure;
use weft_proto::addressed::{Callback, CallbacksRequest, ChangedBytes};
use weft_store::{ChunkName, ForkKey, ForkName};

use super::table::Share;
use crate::failure;
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::order::Extents;
use crate::limits::{CALLBACK_NAMES_MAX, CALLBACK_RANGES_MAX};

/// What has changed of a file.
pub(in crate::io) enum Change<'a> {
    /// Anything.
    All,
    /// The bytes of a job.
    Job(&'a Job),
    /// What an operation claims.
    Claimed(&'a Extents),
}

/// Ranges of the cells of one fork.
type ForkRanges = (ForkName, Vec<(CellIndex, Range<u64>)>);

impl IoService {
    /// Tells the sharers of a file of a change, and waits until they have handled it.
    ///
    /// Cost: a flag, as long as no file has sharers; a round trip to each sharer.
    pub(in crate::io) async fn tell_sharers(&self, file: FileId, change: Change<'_>) {
        self.sharers.mark.wait_out(&self.store).await;
        let sharers = self.sharers.of(file);
        if sharers > 0 {
            // Boxed: otherwise the future of every write is as large as this rare one.
            Box::pin(self.tell(file, change, sharers)).await;
        }
    }

    async fn tell(&self, file: FileId, change: Change<'_>, sharers: usize) {
        let staged = matches!(change, Change::Claimed(_));
        let ranges = match change {
            Change::All => None,
            Change::Job(job) => job_ranges(job),
            Change::Claimed(extents) => extent_ranges(extents),
        };
        let told = {
            let _updates = self.sharers.updates.lock().await;
            let callbacks = match ranges {
                Some(ranges) => {
                    // Names from before an operation that has its claim would come back after it.
                    let update = sharers == 1 && !staged && !self.schedules.is_changing(file);
                    self.callbacks_of(file, ranges, update).await
                }
                None => invalidations(file, None),
            };
            self.sharers.tell(file, &callbacks)
        };
        self.sharers.wait(told).await;
    }

    /// Makes a client a sharer; `None` if there are too many.
    pub(in crate::io) async fn add_sharer(
        &self,
        client: u64,
        file: FileId,
        after: u64,
    ) -> Result<Option<Share>, Failure> {
        let marked = self.sharers.mark.set(&self.store).await;
        marked.map_err(|e| failure::of_store(&e))?;
        let connected = || self.clients.is_connected(client);
        Ok(self.sharers.add(client, file, after, connected))
    }

    /// As [`IoService::tell_sharers`], of what an operation claims, while it has its claim.
    pub(in crate::io) async fn tell_of_claimed(&self, file: FileId, extents: &Extents) {
        self.tell_sharers(file, Change::Claimed(extents)).await;
    }

    /// Tells the sharers of a change that waits for its turn: one that is silent is noticed by the
    /// time that its turn comes.
    pub(in crate::io) fn announce_claimed(&self, file: FileId, extents: &Extents) {
        if self.sharers.of(file) > 0 {
            let ranges = extent_ranges(extents);
            drop(self.sharers.tell(file, &invalidations(file, ranges)));
        }
    }

    async fn callbacks_of(
        &self,
        file: FileId,
        (fork, ranges): ForkRanges,
        with_names: bool,
    ) -> Vec<Callback> {
        let mut callbacks = invalidations(file, Some((fork.clone(), ranges)));
        for bytes in callbacks
            .iter_mut()
            .filter_map(|callback| callback.bytes.as_mut())
        {
            if !with_names {
                break;
            }
            let key = ForkKey {
                file,
                cell: CellIndex(bytes.cell),
                fork: fork.clone(),
            };
            // Without names it is an invalidation, which is right whatever went wrong.
            let range = bytes.start..bytes.end;
            let found = self
                .store
                .chunk_names(&key, range, CALLBACK_NAMES_MAX)
                .await;
            if let Ok(Some(found)) = found
                && !found.too_many
            {
                bytes.names = on_the_wire(&found.names);
                bytes.length = found.length;
            }
        }
        callbacks
    }

    pub(in crate::io) async fn callbacks(&self, call: Served) {
        let client = call.peer.client;
        match call.request::<CallbacksRequest>() {
            Ok(request) => {
                let reply = call.reply;
                let answered = tokio::select! {
                    biased;
                    () = reply.gone() => return,
                    answered = self.sharers.callbacks(client, &request) => answered,
                };
                reply.done(&answered);
            }
            Err(e) => call.reply.fail(&failure::of_frame(&e)),
        }
    }
}

/// Names as messages have them.
pub(in crate::io) fn on_the_wire(names: &[Option<ChunkName>]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(32 * names.len());
    for name in names {
        bytes.put_slice(&name.map_or([0; 32], |name| *name.as_bytes()));
    }
    bytes.freeze()
}

/// Callbacks without names.
fn invalidations(file: FileId, ranges: Option<ForkRanges>) -> Vec<Callback> {
    let Some((fork, ranges)) = ranges else {
        return vec![Callback {
            file: file.0,
            bytes: None,
        }];
    };
    let callback = |(cell, range): (CellIndex, Range<u64>)| Callback {
        file: file.0,
        bytes: Some(ChangedBytes {
            cell: cell.0,
            fork: fork.as_str().to_owned(),
            start: range.start,
            end: range.end,
            ..ChangedBytes::default()
        }),
    };
    ranges.into_iter().map(callback).collect()
}

/// The ranges that a job touches; `None` if they are many.
fn job_ranges(job: &Job) -> Option<ForkRanges> {
    let ranges = match job.computed_ranges() {
        Some(ranges) => ranges,
        None => job.few_ranges(CALLBACK_RANGES_MAX)?,
    };
    let ranges = ranges.into_iter().map(|(key, range)| (key.cell, range));
    few((job.fork.clone(), ranges.collect()))
}

fn extent_ranges(extents: &Extents) -> Option<ForkRanges> {
    let Extents::Some(extents) = extents else {
        return None;
    };
    let ranges = extents.ranges();
    let ranges = ranges.flat_map(|(cell, ranges)| ranges.into_iter().map(move |r| (cell, r)));
    few((extents.fork().clone(), ranges.collect()))
}

fn few(ranges: ForkRanges) -> Option<ForkRanges> {
    (ranges.1.len() <= CALLBACK_RANGES_MAX).then_some(ranges)
}
