//! Names of chunks for clients that keep them (CAPFS §3.4.2).

use bytes::{BufMut, BytesMut};
use weft_net::Peer;
use weft_proto::addressed::{ChunkRun, ReadNamesReply, ReadNamesRequest};
use weft_proto::{Code, Failure};

use super::lengths::runs;
use crate::failure::{self, invalid};
use crate::io::IoService;
use crate::io::job::Job;
use crate::io::job::walk::Callers;
use crate::io::order::{Effect, Extents, ForkExtents, Mode};
use crate::io::sharers::on_the_wire;
use crate::limits::NAMED_CHUNKS_MAX;

impl IoService {
    pub(in crate::io) async fn read_names(
        &self,
        request: ReadNamesRequest,
        peer: &Peer,
        callers: &Callers,
    ) -> Result<ReadNamesReply, Failure> {
        let job = self.job(&request.access)?;
        if job.checkpoint.is_some() {
            return Err(invalid("names are read of a file as it is"));
        }
        let client = peer.client;
        let sharer = request.callback.then_some((client, request.after));
        let claim = request.claim.clone().unwrap_or_default();
        let asking = self.asking(&job, claim, Mode::Shared, client, callers);
        let asking = asking.await?;
        let Extents::Some(extents) = asking.extents.clone() else {
            return Err(invalid("names are read of the bytes of one fork"));
        };
        if request.claim.is_none() && request.callback {
            return Err(invalid(
                "names that are kept coherent are read with a claim",
            ));
        }
        if request.claim.is_none() {
            self.forced.check(job.file, peer)?;
            return self.names(&job, &extents, sharer, callers).await;
        }
        if !asking.claim.alone {
            if self.begin(asking, Effect::Nothing).await? {
                return self.names(&job, &extents, sharer, callers).await;
            }
            return Ok(ReadNamesReply::default());
        }
        let granted = self.claim_alone(&asking).await?;
        tokio::select! {
            biased;
            () = granted.revoked() => {
                let what = "reading names took too long, and operations that wait for it went on; read again";
                Err(Failure::new(Code::Busy, what))
            }
            names = self.names(&job, &extents, sharer, callers) => names,
        }
    }

    async fn names(
        &self,
        job: &Job,
        extents: &ForkExtents,
        sharer: Option<(u64, u64)>,
        callers: &Callers,
    ) -> Result<ReadNamesReply, Failure> {
        let share = match sharer {
            Some((client, after)) => self.add_sharer(client, job.file, after).await?,
            None => None,
        };
        let share = share.unwrap_or_default();
        let lengths = self.lengths(job, callers).await?;
        if self.check_ends(job, &lengths, callers).await? {
            let what = "the lengths of cells are in doubt; read the bytes";
            return Err(Failure::new(Code::Unsupported, what));
        }
        let (mut chunks, mut names) = (Vec::new(), BytesMut::new());
        for (cell, ranges) in extents.ranges() {
            for range in ranges {
                let left = NAMED_CHUNKS_MAX.saturating_sub((names.len() / 32) as u64);
                let found = self.store.chunk_names(&job.key(cell), range, left).await;
                let Some(found) = found.map_err(|e| failure::of_store(&e))? else {
                    if lengths.contains_key(&cell) {
                        let what = "the file is plain: its chunks have no names";
                        return Err(Failure::new(Code::Unsupported, what));
                    }
                    continue;
                };
                if found.too_many {
                    let what = format!("one call reads at most {NAMED_CHUNKS_MAX} names");
                    return Err(Failure::new(Code::TooLarge, what));
                }
                chunks.push(ChunkRun {
                    cell: cell.0,
                    first: found.first,
                    count: found.names.len() as u64,
                });
                names.put_slice(&on_the_wire(&found.names));
            }
        }
        Ok(ReadNamesReply {
            chunks,
            names: names.freeze(),
            lengths: runs(&lengths),
            granted: true,
            registration: share.registration,
            share: share.share,
        })
    }
}
