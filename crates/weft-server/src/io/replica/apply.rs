//! What the primary asks of the other replicas: to apply changes, and to say what they hold.

use bytes::Bytes;
use weft_layout::{CellOffset, FileId};
use weft_net::Served;
use weft_proto::replica::{
    ApplyReply, ApplyRequest, BeaconReply, BeaconRequest, Change, FileAction, FileOperation,
    ReplicaFile, ReplicaFilesReply, ReplicaFilesRequest, ReplicaFork, ReplicaPart,
    ReplicaPartsReply, ReplicaPartsRequest, ReplicaReadReply, ReplicaReadRequest,
    ReplicaScrubReply, ReplicaScrubRequest,
};
use weft_proto::{Code, Failure};
use weft_store::{ForkKey, Scattered, ScrubPosition, Store, StoreError, StoredFile, Timestamp};
use weft_sum::Sums;

use super::mend::damaged_range;
use super::parts::{hash_of_sums, only_coded, parts};
use super::restore::{code_later, got_from_primary, read_restored};
use super::state::{Replicas, Role};
use super::turns::Span;
use super::wire;
use crate::failure;
use crate::io::IoService;
use crate::limits::{CODED_TRIES, REPLICA_LIST_FORKS, REPLICA_READ_MAX, SCRUB_STEP_BYTES};
use crate::position;

impl IoService {
    pub(super) fn own_replicas(&self) -> Result<&Replicas, Failure> {
        let replicas = self.store.replicas().map(|replicas| &**replicas);
        replicas.ok_or_else(|| failure::invalid("this server has one store, and no replicas"))
    }

    pub(in crate::io) fn beacon(&self, request: &BeaconRequest) -> Result<BeaconReply, Failure> {
        let replicas = self.own_replicas()?;
        replicas.heard_if_known(request.term)?;
        replicas.learn_incarnations(&request.incarnations);
        if let Some(at) = &request.position {
            replicas.heard_position(request.primary, position::from_wire(at));
        }
        let at = self.store.position();
        Ok(BeaconReply {
            incarnation: at.incarnation,
            sequence: at.sequence,
        })
    }

    pub(in crate::io) async fn apply(&self, mut call: Served) {
        let result = match call.request::<ApplyRequest>() {
            Ok(request) => self.apply_change(request, &mut call).await,
            Err(e) => Err(failure::of_frame(&e)),
        };
        match result {
            Ok(()) => call.reply.done(&ApplyReply {}),
            Err(failure) => call.reply.fail(&failure),
        }
    }

    async fn apply_change(&self, request: ApplyRequest, call: &mut Served) -> Result<(), Failure> {
        let replicas = self.own_replicas()?;
        replicas.heard_if_known(request.term)?;
        let mut chunks = Vec::new();
        let mut sums = None;
        let mut bytes = 0;
        while let Some(chunk) = call.payload.next_chunk().await {
            bytes += chunk.bytes.len() as u64;
            if bytes > request.bytes {
                return Err(failure::invalid("the payload is too long"));
            }
            call.payload.release_chunk(chunk.bytes.len());
            chunks.push(chunk.bytes);
            sums = Some(chunk.sums);
        }
        if bytes != request.bytes {
            return Err(failure::invalid("the payload ended early"));
        }
        let sums = sums.filter(|_| chunks.len() == 1);
        // A takeover waits for this, and then nothing of an earlier term begins.
        let _applying = replicas.applying.read().await;
        replicas.heard_if_known(request.term)?;
        replicas.check_pass(request.term, request.pass)?;
        let time = Timestamp(request.time);
        let change = request
            .change
            .ok_or_else(|| failure::invalid("no change"))?;
        let store: &Store = &self.store;
        let spans = spans_of(&change)?;
        replicas.recent.note(&spans);
        let writes = match &change {
            Change::Write(pieces) => wire::writes(pieces, &wire::joined(&chunks))?,
            _ => Vec::new(),
        };
        replicas.recent.note(&Span::of_writes(&writes));
        let mut tries = CODED_TRIES;
        let done = loop {
            match self.make(&change, &writes, sums.as_ref(), time).await? {
                // Bytes around parts of blocks that are only in parity here.
                Err(error)
                    if tries > 0
                        && got_from_primary(store, replicas, request.term, &error).await =>
                {
                    tries -= 1;
                }
                done => break done,
            }
        };
        replicas.recent.note(&spans);
        done.map_err(|e| failure::of_store(&e))
    }

    /// Makes a change in this store alone.
    async fn make(
        &self,
        change: &Change,
        writes: &[Scattered],
        sums: Option<&Sums>,
        time: Timestamp,
    ) -> Result<Result<(), StoreError>, Failure> {
        let store: &Store = &self.store;
        Ok(match change {
            Change::Write(_) => match sums {
                Some(sums) => {
                    store
                        .write_summed(writes.to_vec(), sums.clone(), time)
                        .await
                }
                None => store.write_scattered(writes.to_vec(), time).await,
            },
            Change::Clear(clear) => {
                let range = |r: &weft_proto::replica::ForkRange| {
                    Ok((wire::fork_key(&r.fork)?, r.start..r.end))
                };
                let ranges: Result<Vec<_>, Failure> = clear.ranges.iter().map(range).collect();
                store.clear(&ranges?, time).await
            }
            Change::SetLengths(set) => {
                let lengths = wire::lengths(set)?;
                store
                    .truncate(FileId(set.file), lengths, set.op, time)
                    .await
            }
            Change::Files(operation) if operation.action() == FileAction::Code => {
                let files = operation.files.iter().map(|id| FileId(*id)).collect();
                if let Some(replicas) = self.store.replicas() {
                    code_later(store.clone(), replicas.clone(), files, operation.checkpoint);
                }
                Ok(())
            }
            Change::Extend(to) => {
                let key = wire::fork_key(&to.fork)?;
                store.extend(&key, to.chunk, to.length, time).await
            }
            Change::CreateFork(fork) => {
                let key = wire::fork_key(&fork.fork)?;
                store.create_fork(&key, fork.chunk, time).await
            }
            Change::RemoveFork(fork) => store.remove_fork(&wire::fork_key(fork)?).await,
            Change::Files(operation) => operate(store, operation, time).await,
            Change::Sync(_) => store.sync().await,
        })
    }

    pub(in crate::io) async fn replica_files(
        &self,
        request: ReplicaFilesRequest,
    ) -> Result<ReplicaFilesReply, Failure> {
        let replicas = self.own_replicas()?;
        replicas.heard_if_known(request.term)?;
        if request.fence != 0 {
            {
                // Changes that are being applied end before anything is compared.
                let _applying = replicas.applying.write().await;
                replicas.set_fence(request.term, request.fence);
            }
            // So do those that this replica has sent when it was primary.
            replicas.turns.pass().await;
            let has = request.position.as_ref().is_some_and(|at| {
                let at = position::from_wire(at);
                self.store.position().incarnation == at.incarnation
                    || Store::still_has(&self.store, at).is_ok()
            });
            return Ok(ReplicaFilesReply {
                has,
                ..ReplicaFilesReply::default()
            });
        }
        if request.only != 0 {
            let file = self.store.stored_file(FileId(request.only));
            return Ok(ReplicaFilesReply {
                files: file.iter().map(replica_file).collect(),
                ..ReplicaFilesReply::default()
            });
        }
        let after = FileId(request.after);
        let (files, more) = self.store.files_after(after, REPLICA_LIST_FORKS);
        Ok(ReplicaFilesReply {
            files: files.iter().map(replica_file).collect(),
            more,
            has: false,
        })
    }

    pub(in crate::io) async fn replica_parts(
        &self,
        request: ReplicaPartsRequest,
    ) -> Result<ReplicaPartsReply, Failure> {
        self.own_replicas()?.heard_if_known(request.term)?;
        let key = wire::fork_key(&request.fork)?;
        let checkpoint = (request.checkpoint != 0).then_some(request.checkpoint);
        let numbers = request.first..request.end.unwrap_or(u64::MAX);
        let (parts, next) = parts(&self.store, &key, checkpoint, numbers)
            .await
            .map_err(|e| failure::of_store(&e))?;
        let coded = self.store.may_have_coded(key.file);
        let mut found = Vec::with_capacity(parts.len());
        for (number, hash) in parts {
            let coded =
                coded && hash.is_none() && only_coded(&self.store, &key, checkpoint, number).await;
            let hash = match hash {
                // Damage, or bytes that are only in parity.
                None if coded => {
                    let sums = hash_of_sums(&self.store, &key, checkpoint, number);
                    sums.map_err(|e| failure::of_store(&e))?
                }
                hash => hash,
            };
            found.push(ReplicaPart {
                number,
                hash: hash.map_or_else(Bytes::new, |hash| Bytes::copy_from_slice(hash.as_bytes())),
                coded,
            });
        }
        Ok(ReplicaPartsReply { parts: found, next })
    }
}

impl IoService {
    pub(in crate::io) async fn replica_read(
        &self,
        request: ReplicaReadRequest,
    ) -> Result<ReplicaReadReply, Failure> {
        let replicas = self.own_replicas()?;
        // A backup asks its primary for bytes around a change, and a primary its backups for what
        // it cannot read.
        let as_primary = replicas
            .term_as_primary()
            .is_ok_and(|term| term == request.term);
        if !as_primary {
            replicas.heard_if_known(request.term)?;
        }
        let key = wire::fork_key(&request.fork)?;
        if request.length > REPLICA_READ_MAX {
            return Err(failure::invalid("it asks for too many bytes"));
        }
        let (store, at): (&Store, _) = (&self.store, CellOffset(request.offset));
        let read = if as_primary {
            read_restored(store, replicas, &key, at, request.length).await
        } else {
            store.read(&key, at, request.length).await
        };
        let data = wire::joined(&read.map_err(|e| failure::of_store(&e))?);
        Ok(ReplicaReadReply { data })
    }
}

impl IoService {
    pub(in crate::io) async fn replica_scrub(
        &self,
        request: ReplicaScrubRequest,
    ) -> Result<ReplicaScrubReply, Failure> {
        self.own_replicas()?.heard_if_known(request.term)?;
        let store: &Store = &self.store;
        let from = if let Some(from) = &request.from {
            ScrubPosition::from_bytes(from.to_vec())
        } else {
            let begun = store.scrub_begin().await;
            begun.map_err(|e| failure::of_store(&e))?;
            ScrubPosition::default()
        };
        let bytes = request.bytes.min(SCRUB_STEP_BYTES);
        let scrubbed = store.scrub(&from, bytes).await;
        let scrubbed = scrubbed.map_err(|e| failure::of_store(&e))?;
        let (mut damaged, mut others) = (Vec::new(), 0);
        for finding in &scrubbed.findings {
            match damaged_range(store, finding).await {
                Some(range) => damaged.push(wire::range(&finding.key, &range)),
                None => others += 1,
            }
        }
        Ok(ReplicaScrubReply {
            next: scrubbed.next.map(|at| at.as_bytes().to_vec().into()),
            bytes: scrubbed.bytes,
            damaged,
            others,
        })
    }
}

impl Replicas {
    /// As [`Replicas::heard`], once the metadata service has said which role this replica has.
    fn heard_if_known(&self, term: u64) -> Result<(), Failure> {
        if self.term() == 0 && self.role() == Role::Unknown {
            let what = "this replica has just started, and the metadata service has not said yet which role it has";
            return Err(Failure::new(Code::Busy, what));
        }
        self.heard(term)
    }
}

/// What a change touches, but for the pieces of a write.
fn spans_of(change: &Change) -> Result<Vec<Span>, Failure> {
    let range = |r: &weft_proto::replica::ForkRange| {
        Ok(Span::Bytes(wire::fork_key(&r.fork)?, r.start..r.end))
    };
    let fork = |id| Ok(vec![Span::fork(&wire::fork_key(id)?)]);
    match change {
        Change::Write(_) | Change::Sync(_) => Ok(Vec::new()),
        Change::Clear(clear) => clear.ranges.iter().map(range).collect(),
        Change::SetLengths(set) => Ok(vec![Span::File(FileId(set.file))]),
        Change::Extend(to) | Change::CreateFork(to) => fork(&to.fork),
        Change::RemoveFork(id) => fork(id),
        Change::Files(operation) => {
            let files = operation.files.iter();
            Ok(files.map(|file| Span::File(FileId(*file))).collect())
        }
    }
}

async fn operate(
    store: &Store,
    operation: &FileOperation,
    time: Timestamp,
) -> Result<(), StoreError> {
    let files: Vec<FileId> = operation.files.iter().map(|id| FileId(*id)).collect();
    let (op, number) = (operation.op, operation.checkpoint);
    match operation.action() {
        FileAction::Checkpoint if op == 0 => {
            for file in files {
                store.repeat_checkpoint(file, number, time).await?;
            }
        }
        FileAction::Checkpoint => store.checkpoint_files(&files, op, time).await?,
        FileAction::RollBack => store.roll_back_files(&files, number, op, time).await?,
        FileAction::DropCheckpoint => {
            for file in files {
                store.drop_checkpoint(file, number, op).await?;
            }
        }
        FileAction::AcceptCheckpoint => {
            for file in files {
                store.accept_checkpoint(file, number, time)?;
            }
        }
        FileAction::Delete => {
            for file in files {
                store.delete_file(file).await?;
            }
        }
        FileAction::Code => {}
        FileAction::Empty => {
            for file in files {
                store.empty_file(file).await?;
            }
        }
        FileAction::Note => {
            for file in files {
                store.note_operation(file, op).await?;
            }
        }
    }
    Ok(())
}

fn replica_file(file: &StoredFile) -> ReplicaFile {
    let fork =
        |(checkpoint, key, status): &(Option<u64>, ForkKey, weft_store::ForkStatus)| ReplicaFork {
            checkpoint: checkpoint.unwrap_or(0),
            cell: key.cell.0,
            fork: key.fork.as_str().to_owned(),
            length: status.length,
            chunk: status.chunk,
            modified: status.modified.0,
        };
    ReplicaFile {
        file: file.file.0,
        op: file.op,
        deleted: file.deleted,
        checkpoints: file.checkpoints.iter().map(|(number, _)| *number).collect(),
        forks: file.forks.iter().map(fork).collect(),
    }
}
