//! Makes another replica equal to the primary while clients work, by passes over files: over all
//! that it holds, or over what was changed while it was away. A scrub compares replicas that are in
//! sync the same way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::meta::ReplicaChange;
use weft_proto::replica::{
    ApplyRequest, Change, ReplicaFile, ReplicaFilesRequest, ReplicaScrubRequest,
};
use weft_store::{ForkKey, Store, StoredFile};

use super::pass::{Failed, Pass, numbers, own};
use super::recent::Changed;
use super::state::{Part, Replicas};
use super::wire;
use crate::limits::{REPLICA_FILES_IN_FLIGHT, REPLICA_LIST_FORKS};
use crate::position;

/// How an attempt to catch up has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    CaughtUp,
    /// The replica is not there.
    NotReached,
    Failed,
}

/// One attempt; the caller tries again later.
pub(super) async fn catch_up(store: &Store, replicas: &Replicas, number: u32) -> Attempt {
    let started = Instant::now();
    let server = replicas.me.server;
    let (pass, has_rest) = match Pass::begin(store, replicas, number).await {
        Ok(begun) => begun,
        Err(reason) => {
            tracing::debug!(
                server,
                replica = number,
                reason,
                "a replica cannot catch up yet"
            );
            return Attempt::NotReached;
        }
    };
    // What it may lack, if it has everything else.
    let missed = replicas
        .absence(number)
        .filter(|_| has_rest)
        .and_then(|absence| replicas.recent.since(absence.at));
    let compared = missed.as_ref().map_or("everything", |_| "what it missed");
    let done = match missed {
        Some(missed) => pass.run_over(missed).await,
        None => pass.run().await,
    };
    let done = match (done, pass.found.take_damage()) {
        (Ok(()), None) => pass.join().await,
        (Ok(()), Some(damage)) => Err(damage),
        (failed, _) => failed,
    };
    replicas.set_progress(number, None);
    match done {
        Ok(()) => {
            tracing::info!(
                server,
                replica = number,
                files = pass.found.files.load(Ordering::Relaxed),
                bytes = pass.found.bytes.load(Ordering::Relaxed),
                compared,
                seconds = started.elapsed().as_secs_f64(),
                "a replica has caught up"
            );
            Attempt::CaughtUp
        }
        Err(reason) => {
            tracing::warn!(
                server,
                replica = number,
                reason,
                "a replica has not caught up"
            );
            replicas.set_part(number, Part::Away);
            replicas.set_obstacle(number, &reason);
            Attempt::Failed
        }
    }
}

/// What a comparison of a replica in sync has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::io) struct Compared {
    /// Where the next step begins; `None`: all files were compared.
    pub(in crate::io) next: Option<FileId>,
    /// Bytes that were compared.
    pub(in crate::io) bytes: u64,
    /// Bytes that were sent, because the replica could not read them or had others.
    pub(in crate::io) sent: u64,
    /// Their files.
    pub(in crate::io) files: u64,
    /// Checkpoints that differ or are damaged there, which nothing mends.
    pub(in crate::io) kept: u64,
}

/// What a step of the scrub of a replica in sync has found.
#[derive(Clone, Debug, Default)]
pub(in crate::io) struct BackupScrubbed {
    /// Where the next step begins; `None`: all chunks were read.
    pub(in crate::io) next: Option<Bytes>,
    /// Bytes read from its disks.
    pub(in crate::io) bytes: u64,
    /// Damaged ranges, each with whether it was written anew.
    pub(in crate::io) damaged: Vec<(ForkKey, Range<u64>, bool)>,
    /// Damage that nothing mends: of checkpoints, and of addressed chunks.
    pub(in crate::io) others: u64,
}

/// Has a replica in sync verify chunks from its disks, and sends what is damaged there.
pub(super) async fn scrub_backup(
    store: &Store,
    replicas: &Replicas,
    number: u32,
    from: Option<Bytes>,
    bytes: u64,
) -> Result<BackupScrubbed, Failed> {
    let pass = Pass::of_replica_in_sync(store, replicas, number)?;
    let request = ReplicaScrubRequest {
        term: replicas.targets().map_err(|e| own(&e))?.0,
        from,
        bytes,
    };
    let reply = pass.call(&request).await?;
    let mut damaged = Vec::new();
    for range in reply.damaged {
        let key = wire::fork_key(&range.fork).map_err(|e| e.message)?;
        let range = range.start..range.end;
        let sent = pass.send_range(&key, range.clone()).await;
        let damage = pass.found.take_damage();
        let sent = sent.and_then(|()| damage.map_or(Ok(()), Err));
        if let Err(reason) = &sent {
            tracing::warn!(%key, replica = number, reason, "cannot mend a replica");
        }
        damaged.push((key, range, sent.is_ok()));
    }
    Ok(BackupScrubbed {
        next: reply.next,
        bytes: reply.bytes,
        damaged,
        others: reply.others,
    })
}

/// Compares files behind `after` with those of a replica in sync, until so many bytes are compared,
/// and sends what differs. A replica whose files differ in another way than by some bytes leaves
/// the set, and catches up.
pub(super) async fn compare(
    store: &Store,
    replicas: &Replicas,
    number: u32,
    after: FileId,
    bytes: u64,
) -> Result<Compared, Failed> {
    let pass = Pass::of_replica_in_sync(store, replicas, number)?;
    let mut done = Compared::default();
    let (here, more) = store.files_after(after, REPLICA_LIST_FORKS);
    let (last, count) = (here.last().map(|f| f.file), here.len());
    for (at, ours) in here.into_iter().enumerate() {
        let file = ours.file;
        let compared = pass.compare(&ours).await;
        let damage = pass.found.take_damage();
        if let Err(reason) = compared.and_then(|()| damage.map_or(Ok(()), Err)) {
            let differs = pass.found.differs.load(Ordering::Relaxed);
            if differs {
                replicas.suspect_content(number, &reason);
            }
            // Unless it went, or changed its checkpoints, meanwhile.
            let now = store.stored_file(file).filter(|now| !now.deleted);
            if differs || now.is_some_and(|now| numbers(&now) == numbers(&ours)) {
                return Err(reason);
            }
        }
        if pass.found.compared.load(Ordering::Relaxed) >= bytes && (at + 1 < count || more) {
            done.next = Some(file);
            break;
        }
    }
    if done.next.is_none() && more {
        done.next = last;
    }
    done.bytes = pass.found.compared.load(Ordering::Relaxed);
    done.sent = pass.found.bytes.load(Ordering::Relaxed);
    done.files = pass.found.files.load(Ordering::Relaxed);
    done.kept = pass.found.kept.load(Ordering::Relaxed);
    Ok(done)
}

impl Pass<'_> {
    /// Begins an attempt. Also returns whether the replica still has what it had when contact with
    /// it ended.
    async fn begin<'a>(
        store: &'a Store,
        replicas: &'a Replicas,
        number: u32,
    ) -> Result<(Pass<'a>, bool), Failed> {
        let peers = replicas.peers();
        let link = peers.into_iter().find(|(n, ..)| *n == number);
        let (_, link, _) = link.ok_or("it is no replica of this server")?;
        let how = (Part::CatchingUp, replicas.next_pass(number));
        let pass = Pass::new((store, replicas), number, link, how);
        // One that is not there gets no changes, and one that is there none of earlier attempts.
        let fence = ReplicaFilesRequest {
            term: pass.term()?,
            fence: pass.attempt,
            position: replicas
                .absence(number)
                .map(|absence| position::to_wire(absence.position)),
            ..ReplicaFilesRequest::default()
        };
        let has_rest = pass.call(&fence).await?.has;
        if !replicas.set_part(number, Part::CatchingUp) {
            return Err("this replica is not the primary any more".into());
        }
        pass.began.store(true, Ordering::Relaxed);
        // Changes that had begun before are not sent to it.
        replicas.turns.pass().await;
        Ok((pass, has_rest))
    }

    /// Makes the parts of files equal that were changed.
    async fn run_over(&self, missed: BTreeMap<FileId, Changed>) -> Result<(), Failed> {
        if self.is_in_doubt() {
            return Ok(());
        }
        let (mut done, total) = (0, missed.len() as u64);
        for (file, changed) in missed {
            let theirs = self.list(0, file.0).await?.files.pop();
            let ours = self.store.stored_file(file);
            if ours.is_some() || theirs.is_some() {
                self.file(file, ours, theirs, &changed).await?;
            }
            done += 1;
            // Files, in the place of bytes: it takes moments.
            self.replicas.set_progress(self.number, Some((done, total)));
        }
        Ok(())
    }

    /// Makes all files equal, several at once.
    async fn run(&self) -> Result<(), Failed> {
        if self.is_in_doubt() {
            return Ok(());
        }
        self.found.compares_all.store(true, Ordering::Relaxed);
        let (mut after, mut here, mut there) = (None, Vec::new(), Vec::new());
        let (mut left_here, mut also_there) = (true, true);
        let mut files = FuturesUnordered::new();
        loop {
            if here.is_empty() && left_here {
                let from = after.unwrap_or(FileId(0));
                (here, left_here) = self.store.files_after(from, REPLICA_LIST_FORKS);
                here.reverse();
            }
            if there.is_empty() && also_there {
                // Nothing that has a turn waits for the list.
                self.end_of(&mut files, Ok(())).await?;
                let listed = self.list(after.map_or(0, |f: FileId| f.0), 0).await?;
                (there, also_there) = (listed.files, listed.more);
                there.reverse();
            }
            let next = |a: Option<u64>, b: Option<u64>| match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (one, other) => one.or(other),
            };
            let first = next(
                here.last().map(|f: &StoredFile| f.file.0),
                there.last().map(|f: &ReplicaFile| f.file),
            );
            let Some(first) = first else { break };
            let ours = here.pop_if(|f| f.file.0 == first);
            let theirs = there.pop_if(|f| f.file == first);
            files.push(self.file(FileId(first), ours, theirs, &Changed::All));
            after = Some(FileId(first));
            if files.len() >= REPLICA_FILES_IN_FLIGHT
                && let Some(Err(reason)) = files.next().await
            {
                return self.end_of(files, Err(reason)).await;
            }
        }
        self.end_of(files, Ok(())).await
    }

    /// Waits for all that has begun, also after a failure: it has the turns of what it changes.
    async fn end_of(
        &self,
        mut begun: impl Stream<Item = Result<(), Failed>> + Unpin,
        mut so_far: Result<(), Failed>,
    ) -> Result<(), Failed> {
        while let Some(one) = begun.next().await {
            so_far = so_far.and(one);
        }
        so_far
    }

    /// Whether data of this store is in doubt: it must not be copied as if it were good.
    fn is_in_doubt(&self) -> bool {
        let doubt = self.store.has_doubt();
        if doubt {
            let what = "data of this server is in doubt since an older folder was accepted: accept or restore it (`weft fsck` lists it)";
            self.found.note_damage(what.to_owned());
        }
        doubt
    }

    /// The service adds the replica to the set.
    async fn join(&self) -> Result<(), Failed> {
        // The service may have added it although its answer was lost.
        if !self.is_wanted() || !self.replicas.set_part(self.number, Part::Joining) {
            return Err("it failed meanwhile".into());
        }
        // Changes that had begun before do not wait for it.
        self.replicas.turns.pass().await;
        // What clients have synced here must survive power loss there, too.
        let sync = ApplyRequest {
            term: self.term()?,
            pass: self.attempt,
            change: Some(Change::Sync(true)),
            ..ApplyRequest::default()
        };
        self.call(&sync).await?;
        while self.replicas.part(self.number) == Part::Joining {
            self.replicas.change(ReplicaChange::Add, self.number).await;
        }
        match self.replicas.part(self.number) {
            Part::InSync => Ok(()),
            _ => Err("it failed meanwhile".into()),
        }
    }
}
