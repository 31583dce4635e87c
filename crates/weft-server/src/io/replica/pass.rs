//! A pass over files of the primary that makes those of another replica equal.
//!
//! The replica gets all changes meanwhile. So what is found equal stays equal; what differs is sent
//! part by part, each in turn with changes of the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_net::{CallError, Link};
use weft_proto::replica::{
    ApplyRequest, Change, ClearRanges, FileAction, FileOperation, ReplicaFile, ReplicaFilesRequest,
    ReplicaPartsRequest,
};
use weft_proto::{Call, Kind};
use weft_store::{ForkKey, ForkName, ForkStatus, Store, StoreError, StoredFile, Timestamp};
use weft_sum::ChunkName;

use super::mend::{Asked, Mending, by_blocks, may_be_elsewhere, mend_in_turn};
use super::parts::{hash, hash_of_sums, only_coded, part, parts, parts_with_data};
use super::recent::Changed;
use super::restore::read_restored;
use super::state::{Part, Replicas};
use super::turns::{Span, Turn};
use super::wire;
use crate::limits::{REPLICA_CALL_TIMEOUT, REPLICA_PART_BYTES, REPLICA_PARTS_IN_FLIGHT};

/// Why a replica is not equal.
pub(super) type Failed = String;

pub(super) fn own(error: &StoreError) -> Failed {
    format!("this replica: {error}")
}

/// The forks of one state of a file: of the live one, or of a checkpoint.
pub(super) type Forks = BTreeMap<(CellIndex, ForkName), ForkStatus>;

/// Numbers of parts, by fork.
type Parts = BTreeMap<(CellIndex, ForkName), BTreeSet<u64>>;

/// What a replica has of a file, or should have.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// What it said.
    There(Option<u64>),
    /// What this one has.
    Here(Option<u64>),
}

pub(super) struct Pass<'a> {
    pub(super) store: &'a Store,
    pub(super) replicas: &'a Replicas,
    pub(super) number: u32,
    pub(super) link: Link,
    /// How the replica must take part meanwhile.
    pub(super) part: Part,
    /// The number of the attempt.
    pub(super) attempt: u64,
    /// It takes part.
    pub(super) began: AtomicBool,
    /// Parts that may be on their way at once.
    slots: Semaphore,
    pub(super) found: Found,
}

/// What a pass has found so far.
#[derive(Default)]
pub(super) struct Found {
    /// Files that differed.
    pub(super) files: AtomicU64,
    /// Bytes that were sent.
    pub(super) bytes: AtomicU64,
    /// Bytes here that were compared.
    pub(super) compared: AtomicU64,
    /// All files are compared: the bytes say how far the pass has come.
    pub(super) compares_all: AtomicBool,
    /// Parts of checkpoints that differ, or are damaged there.
    pub(super) kept: AtomicU64,
    /// The files of a replica in sync differ in another way than by some bytes.
    pub(super) differs: AtomicBool,
    /// What cannot be read here, and is missing there.
    damaged: Mutex<Option<String>>,
}

impl Found {
    /// Notes the first damage.
    pub(super) fn note_damage(&self, damage: String) {
        self.damaged.lock().get_or_insert(damage);
    }

    /// The first damage, once.
    pub(super) fn take_damage(&self) -> Option<String> {
        self.damaged.lock().take()
    }
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        (store, replicas): (&'a Store, &'a Replicas),
        number: u32,
        link: Link,
        (part, attempt): (Part, u64),
    ) -> Pass<'a> {
        Pass {
            store,
            replicas,
            number,
            link,
            part,
            attempt,
            began: AtomicBool::new(false),
            slots: Semaphore::new(REPLICA_PARTS_IN_FLIGHT),
            found: Found::default(),
        }
    }

    /// A pass that only compares.
    pub(super) fn of_replica_in_sync(
        store: &'a Store,
        replicas: &'a Replicas,
        number: u32,
    ) -> Result<Pass<'a>, Failed> {
        let (_, targets) = replicas.targets().map_err(|e| own(&e))?;
        let target = targets.into_iter().find(|t| t.number == number);
        let target = target.ok_or("it is not in sync")?;
        let how = (Part::InSync, target.pass);
        let pass = Pass::new((store, replicas), number, target.link, how);
        pass.began.store(true, Ordering::Relaxed);
        Ok(pass)
    }

    /// Compares a file with that of a replica in sync, and sends parts that differ.
    pub(super) async fn compare(&self, ours: &StoredFile) -> Result<(), Failed> {
        let file = ours.file;
        let has_shape = |ours: &StoredFile, theirs: &ReplicaFile| {
            let states = std::iter::once(None).chain(numbers(ours).into_iter().map(Some));
            let mut states = states.map(|of| (forks_here(ours, of), of.unwrap_or(0)));
            numbers(ours) == theirs.checkpoints
                && ours.deleted == theirs.deleted
                && states.all(|(here, of)| {
                    let there = forks_there(theirs, of).unwrap_or_default();
                    let same = |(a, b): (&ForkStatus, &ForkStatus)| a.length == b.length;
                    here.keys().eq(there.keys()) && here.values().zip(there.values()).all(same)
                })
        };
        let theirs = self.list(0, file.0).await?.files.pop().unwrap_or_default();
        let mut ours = ours.clone();
        if !has_shape(&ours, &theirs) {
            // Unless it was changed between the two looks.
            let _turn = self.replicas.turns.take(vec![Span::File(file)]).await;
            let theirs = self.list(0, file.0).await?.files.pop().unwrap_or_default();
            let Some(now) = self.store.stored_file(file) else {
                return Ok(());
            };
            if !has_shape(&now, &theirs) {
                self.found.differs.store(true, Ordering::Relaxed);
                return Err(format!("its forks or checkpoints of file {file} differ"));
            }
            ours = now;
        }
        let mut sent = 0;
        for (checkpoint, key, status) in &ours.forks {
            let (here, there) = (Side::Here(*checkpoint), Side::There(*checkpoint));
            let mut window = Some(0);
            while let Some(first) = window {
                let (wanted, next) = self.some_parts_of(key, here, first, None).await?;
                let wanted = wanted.into_iter().collect();
                let has = self.parts_between(key, there, first, next).await?;
                window = next;
                for number in differences(&has, &wanted) {
                    if let Some(checkpoint) = checkpoint {
                        // Its live bytes are worth more than this.
                        tracing::warn!(%key, checkpoint, part = number, replica = self.number, "a checkpoint of a replica differs or is damaged");
                        self.found.kept.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let _turn = self.turn_of(key, number).await;
                    // Unless it was written between the two looks.
                    let only = BTreeSet::from([number]);
                    let wanted = self.parts_of(key, here, Some(&only)).await?;
                    let has = self.parts_of(key, there, Some(&only)).await?;
                    if differences(&has, &wanted).contains(&number) {
                        sent += self.send_part(key, None, number).await?;
                    }
                }
            }
            self.found
                .compared
                .fetch_add(status.stored, Ordering::Relaxed);
        }
        self.count_file(sent);
        Ok(())
    }

    /// Counts a file that differed.
    fn count_file(&self, sent: u64) {
        let differed = u64::from(sent > 0);
        self.found.files.fetch_add(differed, Ordering::Relaxed);
    }

    /// The turn of a part.
    async fn turn_of(&self, key: &ForkKey, number: u64) -> Turn {
        let start = number * REPLICA_PART_BYTES;
        let span = Span::Bytes(key.clone(), start..start + REPLICA_PART_BYTES);
        self.replicas.turns.take(vec![span]).await
    }

    /// The term in which this replica is primary.
    pub(super) fn term(&self) -> Result<u64, Failed> {
        Ok(self.replicas.targets().map_err(|e| own(&e))?.0)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.replicas.part(self.number) == self.part
    }

    pub(super) async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, Failed> {
        let asked = async {
            let (connection, _) = self.link.connection().await?;
            connection.call(request).await
        };
        self.while_wanted(asked, C::KIND).await
    }

    /// Whether it gets changes; before the pass has begun in earnest nothing waits for it.
    fn takes_part(&self) -> bool {
        !self.began.load(Ordering::Relaxed)
            || match (self.part, self.replicas.part(self.number)) {
                (Part::InSync, now) => now == Part::InSync,
                (_, now) => now != Part::Away,
            }
    }

    /// Waits for an answer of the replica, as long as it takes part. What it does not answer in
    /// time ends the pass: turns wait for it.
    async fn while_wanted<T>(
        &self,
        asked: impl Future<Output = Result<T, CallError>>,
        kind: Kind,
    ) -> Result<T, Failed> {
        let mut changes = self.replicas.changes();
        let deadline = Instant::now() + REPLICA_CALL_TIMEOUT;
        let mut asked = std::pin::pin!(asked);
        loop {
            changes.mark_unchanged();
            if !self.takes_part() {
                return Err("it failed meanwhile".into());
            }
            tokio::select! {
                biased;
                answer = &mut asked => return answer.map_err(|e| e.to_string()),
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    return Err(format!("{} was not answered", kind.name()));
                }
            }
        }
    }

    pub(super) async fn list(
        &self,
        after: u64,
        only: u64,
    ) -> Result<weft_proto::replica::ReplicaFilesReply, Failed> {
        let request = ReplicaFilesRequest {
            term: self.term()?,
            after,
            only,
            ..ReplicaFilesRequest::default()
        };
        self.call(&request).await
    }

    async fn send(&self, change: Change, data: Vec<Bytes>, time: Timestamp) -> Result<(), Failed> {
        if !self.is_wanted() {
            return Err("it failed to apply a change".into());
        }
        let bytes = data.iter().map(|d| d.len() as u64).sum();
        let request = ApplyRequest {
            term: self.term()?,
            pass: self.attempt,
            change: Some(change),
            time: time.0,
            bytes,
        };
        let sent = async {
            let (connection, _) = self.link.connection().await?;
            if bytes == 0 {
                return connection.call(&request).await.map(drop);
            }
            let outgoing = connection.send(&request, data, true).await?;
            outgoing.reply().await.map(drop)
        };
        self.while_wanted(sent, Kind::Apply).await?;
        self.found.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    async fn operation(
        &self,
        file: FileId,
        action: FileAction,
        (op, checkpoint): (u64, u64),
        time: Timestamp,
    ) -> Result<(), Failed> {
        let operation = FileOperation {
            files: vec![file.0],
            action: action.into(),
            op,
            checkpoint,
        };
        self.send(Change::Files(operation), Vec::new(), time).await
    }

    /// Makes one file equal. What was listed may have changed since: both sides change alike, so
    /// that what was equal then is equal now.
    pub(super) async fn file(
        &self,
        file: FileId,
        ours: Option<StoredFile>,
        theirs: Option<ReplicaFile>,
        changed: &Changed,
    ) -> Result<(), Failed> {
        let listed = theirs.unwrap_or_default();
        let ours = ours.or_else(|| self.store.stored_file(file));
        let ours = if let Some(ours) = ours {
            ours
        } else {
            let _turn = self.replicas.turns.take(vec![Span::File(file)]).await;
            // A file that came meanwhile came on both, where the replica may have had more.
            let Some(came) = self.store.stored_file(file) else {
                let has = !listed.forks.is_empty() || !listed.checkpoints.is_empty();
                if has && !listed.deleted {
                    self.count_file(1);
                    self.operation(file, FileAction::Empty, (0, 0), Timestamp(0))
                        .await?;
                }
                return Ok(());
            };
            came
        };
        if ours.deleted {
            if !listed.deleted {
                let action = FileAction::Delete;
                return self.operation(file, action, (0, 0), Timestamp(0)).await;
            }
            return Ok(());
        }
        if listed.deleted {
            return match self.store.stored_file(file) {
                Some(now) if now.deleted => Ok(()),
                _ => Err(format!(
                    "it has deleted file {file}, which is there: format it anew"
                )),
            };
        }
        let only = match changed {
            Changed::All => None,
            Changed::Parts(parts) => Some(parts),
        };
        let sent = if numbers(&ours) == listed.checkpoints
            && (only.is_some() || self.checkpoints_are_equal(&ours, &listed).await?)
        {
            self.bring(file, only).await?
        } else {
            self.rebuild(file).await?
        };
        self.note_operation(file).await?;
        self.count_file(sent);
        Ok(())
    }

    /// Lets the replica know the last numbered operation, which it must not do again.
    async fn note_operation(&self, file: FileId) -> Result<(), Failed> {
        let _turn = self.replicas.turns.take(vec![Span::File(file)]).await;
        let Some(now) = self
            .store
            .stored_file(file)
            .filter(|f| !f.deleted && f.op > 0)
        else {
            return Ok(());
        };
        let theirs = self.list(0, file.0).await?.files.pop().unwrap_or_default();
        if theirs.op > now.op {
            return Err(format!(
                "it has seen operation {} of file {file}, which its server has not: format it anew",
                theirs.op
            ));
        }
        if theirs.op < now.op {
            let action = FileAction::Note;
            self.operation(file, action, (now.op, 0), Timestamp(0))
                .await?;
        }
        Ok(())
    }

    async fn checkpoints_are_equal(
        &self,
        ours: &StoredFile,
        theirs: &ReplicaFile,
    ) -> Result<bool, Failed> {
        for number in numbers(ours) {
            let (here, there) = (forks_here(ours, Some(number)), forks_there(theirs, number)?);
            let same = |a: &ForkStatus, b: &ForkStatus| (a.length, a.chunk) == (b.length, b.chunk);
            if here.len() != there.len()
                || !here
                    .iter()
                    .zip(&there)
                    .all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
            {
                return Ok(false);
            }
            for place in here.keys() {
                let key = key_of(ours.file, place);
                let here = self.parts_of(&key, Side::Here(Some(number)), None).await?;
                let there = self.parts_of(&key, Side::There(Some(number)), None).await?;
                if !differences(&there, &here).is_empty() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sends a file and its checkpoints anew, the oldest checkpoint first. Changes of it wait.
    async fn rebuild(&self, file: FileId) -> Result<u64, Failed> {
        let _turn = self.replicas.turns.take(vec![Span::File(file)]).await;
        let Some(ours) = self.store.stored_file(file).filter(|f| !f.deleted) else {
            return Ok(0);
        };
        // What cannot be read here must not go there.
        for (checkpoint, key, _) in &ours.forks {
            let parts = self.parts_of(key, Side::Here(*checkpoint), None).await?;
            for (number, _) in parts.iter().filter(|(_, hash)| hash.is_none()) {
                if only_coded(self.store, key, *checkpoint, *number).await {
                    continue;
                }
                self.found
                    .note_damage(format!("{key} is damaged here, and cannot be sent"));
                return Ok(0);
            }
        }
        self.operation(file, FileAction::Empty, (0, 0), Timestamp(0))
            .await?;
        let (mut before, mut sent) = (None, 0);
        for (number, made) in &ours.checkpoints {
            sent += self
                .bring_in_turn(file, before, Side::Here(Some(*number)))
                .await?;
            let action = FileAction::Checkpoint;
            self.operation(file, action, (0, *number), *made).await?;
            before = Some(Side::Here(Some(*number)));
        }
        sent += self.bring_in_turn(file, before, Side::Here(None)).await?;
        Ok(sent)
    }

    /// Makes the live file there equal, each fork and part in its turn; the bytes that were sent.
    /// `only`: the parts that may differ of forks that are there; `None`: all.
    async fn bring(&self, file: FileId, only: Option<&Parts>) -> Result<u64, Failed> {
        // Forks that come or go.
        let turn = self.replicas.turns.take(vec![Span::File(file)]).await;
        let has = self.forks_of(file, Side::There(None)).await?;
        let wanted = self.forks_of(file, Side::Here(None)).await?;
        let kept = self.shape(file, &has, &wanted).await?;
        drop(turn);
        let mut sent = 0;
        for (place, status) in &wanted {
            let key = key_of(file, place);
            let is_kept = kept.contains(place);
            let ranges = match only.filter(|_| is_kept) {
                None => vec![(0, None)],
                Some(only) => only.get(place).map(runs_of).unwrap_or_default(),
            };
            let mut left = status.stored;
            for (first, end) in ranges {
                let mut window = Some(first);
                while let Some(first) = window {
                    let (found, next) = self.different_parts(&key, is_kept, first, end).await?;
                    window = next;
                    sent += self.send_parts(&key, found.numbers).await?;
                    let step = left.min(found.looked_at);
                    left -= step;
                    self.count_compared(step);
                }
            }
            self.count_compared(left);
        }
        Ok(sent)
    }

    /// The parts to send of a fork, from a number on, and where to go on. A fork that the replica
    /// had not gets all that hold data.
    async fn different_parts(
        &self,
        key: &ForkKey,
        is_kept: bool,
        first: u64,
        end: Option<u64>,
    ) -> Result<(Different, Option<u64>), Failed> {
        let all = first..end.unwrap_or(u64::MAX);
        if !is_kept {
            let found = parts_with_data(self.store, key, None, all).await;
            let (numbers, next) = found.map_err(|e| own(&e))?;
            return Ok((Different::of(numbers), next));
        }
        let here = self.some_parts_of(key, Side::Here(None), first, end);
        let (wanted, next) = self.replicas.pace.run(here).await?;
        let looked_at = Different::bytes_of(wanted.len());
        let has = self.parts_between(key, Side::There(None), first, next.or(end));
        let has = has.await?;
        let wanted: BTreeMap<_, _> = wanted.into_iter().collect();
        let mut numbers = differences(&has, &wanted);
        // What cannot be read here is mended when it is sent.
        let damaged = wanted.iter().filter(|(_, hash)| hash.is_none());
        numbers.extend(damaged.map(|(number, _)| *number));
        let numbers = numbers.into_iter().collect();
        Ok((Different { numbers, looked_at }, next))
    }

    /// Sends parts as they are here, several at once, each in its turn; the bytes.
    async fn send_parts(&self, key: &ForkKey, numbers: Vec<u64>) -> Result<u64, Failed> {
        let sends = numbers.into_iter().map(|number| async move {
            let _slot = self.slots.acquire().await;
            if !self.is_wanted() {
                return Err(Failed::from("it failed meanwhile"));
            }
            let send = async {
                let _turn = self.turn_of(key, number).await;
                self.send_part(key, None, number).await
            };
            let bytes = self.replicas.pace.run(send).await?;
            self.replicas.pace.sent(bytes).await;
            Ok(bytes)
        });
        let mut sends = stream::iter(sends).buffer_unordered(REPLICA_PARTS_IN_FLIGHT);
        let mut all = Ok(0);
        // Also after a failure: what has begun has the turn of what it changes.
        while let Some(sent) = sends.next().await {
            all = all.and_then(|bytes| Ok::<u64, Failed>(bytes + sent?));
        }
        all
    }

    /// Notes bytes of this store that were compared.
    fn count_compared(&self, bytes: u64) {
        let before = self.found.compared.fetch_add(bytes, Ordering::Relaxed);
        if self.found.compares_all.load(Ordering::Relaxed) {
            let done = before + bytes;
            let total = self.store.usage().used.max(done);
            self.replicas.set_progress(self.number, Some((done, total)));
        }
    }

    /// As [`Pass::bring`], of a file whose turn the caller has. `from`: what the replica has;
    /// `None`: nothing.
    async fn bring_in_turn(
        &self,
        file: FileId,
        from: Option<Side>,
        to: Side,
    ) -> Result<u64, Failed> {
        let has = match from {
            Some(from) => self.forks_of(file, from).await?,
            None => Forks::new(),
        };
        let wanted = self.forks_of(file, to).await?;
        let (Side::Here(checkpoint) | Side::There(checkpoint)) = to;
        let kept = self.shape(file, &has, &wanted).await?;
        let mut sent = 0;
        for place in wanted.keys() {
            let key = key_of(file, place);
            let has = match from {
                Some(from) if kept.contains(place) => self.parts_of(&key, from, None).await?,
                _ => BTreeMap::new(),
            };
            let wanted = self.parts_of(&key, to, None).await?;
            for number in differences(&has, &wanted) {
                sent += self.send_part(&key, checkpoint, number).await?;
            }
        }
        Ok(sent)
    }

    /// Removes, makes and extends forks; returns those whose bytes are still there.
    async fn shape(
        &self,
        file: FileId,
        has: &Forks,
        wanted: &Forks,
    ) -> Result<BTreeSet<(CellIndex, ForkName)>, Failed> {
        let mut kept = BTreeSet::new();
        for (place, status) in has {
            let fits = |to: &ForkStatus| {
                let chunk = status.chunk == 0 || to.chunk == status.chunk;
                chunk && to.length >= status.length
            };
            if wanted.get(place).is_some_and(fits) {
                kept.insert(place.clone());
            } else {
                let key = key_of(file, place);
                let remove = Change::RemoveFork(wire::fork_id(&key));
                self.send(remove, Vec::new(), Timestamp(0)).await?;
            }
        }
        for (place, status) in wanted {
            let key = key_of(file, place);
            let same = |has: &ForkStatus| {
                (has.length, has.chunk, has.modified)
                    == (status.length, status.chunk, status.modified)
            };
            if kept.contains(place) && has.get(place).is_some_and(same) {
                continue;
            }
            let chunk = if status.chunk == 0 {
                weft_store::CHUNK_MIN
            } else {
                status.chunk
            };
            let extend = Change::Extend(wire::length(&key, status.length, chunk));
            self.send(extend, Vec::new(), status.modified).await?;
        }
        Ok(kept)
    }

    pub(super) async fn forks_of(&self, file: FileId, side: Side) -> Result<Forks, Failed> {
        match side {
            Side::Here(of) => {
                let ours = self.store.stored_file(file);
                Ok(ours.map(|f| forks_here(&f, of)).unwrap_or_default())
            }
            Side::There(of) => {
                let theirs = self.list(0, file.0).await?.files.pop();
                theirs.map_or_else(|| Ok(Forks::new()), |f| forks_there(&f, of.unwrap_or(0)))
            }
        }
    }

    /// The parts of a fork that hold data; `of`: only of these.
    pub(super) async fn parts_of(
        &self,
        key: &ForkKey,
        side: Side,
        of: Option<&BTreeSet<u64>>,
    ) -> Result<BTreeMap<u64, Option<ChunkName>>, Failed> {
        let mut all = BTreeMap::new();
        let ranges = of.map_or_else(|| vec![(0, None)], runs_of);
        for (first, end) in ranges {
            all.extend(self.parts_between(key, side, first, end).await?);
        }
        Ok(all)
    }

    /// The parts that hold data there or here, between two numbers.
    async fn parts_between(
        &self,
        key: &ForkKey,
        side: Side,
        first: u64,
        end: Option<u64>,
    ) -> Result<BTreeMap<u64, Option<ChunkName>>, Failed> {
        let (mut all, mut first) = (BTreeMap::new(), Some(first));
        while let Some(from) = first {
            let (found, next) = self.some_parts_of(key, side, from, end).await?;
            all.extend(found);
            first = next.filter(|next| *next > from);
        }
        Ok(all)
    }

    async fn some_parts_of(
        &self,
        key: &ForkKey,
        side: Side,
        first: u64,
        end: Option<u64>,
    ) -> Result<(Vec<(u64, Option<ChunkName>)>, Option<u64>), Failed> {
        match side {
            Side::Here(of) => {
                let found = parts(self.store, key, of, first..end.unwrap_or(u64::MAX)).await;
                found.map_err(|e| own(&e))
            }
            Side::There(of) => {
                let request = ReplicaPartsRequest {
                    term: self.term()?,
                    fork: wire::fork_id(key),
                    checkpoint: of.unwrap_or(0),
                    first,
                    end,
                };
                let reply = self.call(&request).await?;
                let mut found = Vec::with_capacity(reply.parts.len());
                for part in reply.parts {
                    let named = <[u8; 32]>::try_from(&part.hash[..]).ok();
                    let mut named = named.map(ChunkName::from_bytes);
                    if part.coded {
                        // Equal checksums of all blocks: it has what this store has.
                        let sums = hash_of_sums(self.store, key, of, part.number);
                        let same = sums.map_err(|e| own(&e))? == named;
                        named = match hash(self.store, key, of, part.number).await {
                            // Zeros, which are not listed.
                            Ok(None) if same => continue,
                            Ok(name) if same => name,
                            _ => None,
                        };
                    }
                    found.push((part.number, named));
                }
                Ok((found, reply.next))
            }
        }
    }

    /// Sends the parts of a range, each in its turn.
    pub(super) async fn send_range(&self, key: &ForkKey, range: Range<u64>) -> Result<(), Failed> {
        for number in range.start / REPLICA_PART_BYTES..range.end.div_ceil(REPLICA_PART_BYTES) {
            let _turn = self.turn_of(key, number).await;
            self.send_part(key, None, number).await?;
        }
        Ok(())
    }

    /// Sends one part as it is here, in the turn that the caller has; the bytes. What cannot be
    /// read here is mended first, or noted as damage: a replica without it would show other bytes
    /// in its place.
    pub(super) async fn send_part(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        number: u64,
    ) -> Result<u64, Failed> {
        let status = match checkpoint {
            None => self.store.status(key).await.map_err(|e| own(&e))?,
            Some(number) => {
                let forks = self.store.checkpoint_forks(key.file, number);
                let mut forks = forks.map_err(|e| own(&e))?.into_iter();
                forks.find(|(of, _)| of == key).map(|(_, status)| status)
            }
        };
        let Some(status) = status else {
            return Ok(0);
        };
        let start = number * REPLICA_PART_BYTES;
        let end = status.length.min(start + REPLICA_PART_BYTES);
        if start >= end {
            return Ok(0);
        }
        let data = match checkpoint {
            None => {
                let at = CellOffset(start);
                read_restored(self.store, self.replicas, key, at, REPLICA_PART_BYTES).await
            }
            Some(_) => match part(self.store, key, checkpoint, number).await {
                Err(StoreError::Coded { .. }) => {
                    let of = (key, checkpoint);
                    let asked = Asked::InSync;
                    let found = by_blocks(self.store, self.replicas, of, start..end, asked).await;
                    Ok(vec![found?])
                }
                read => read,
            },
        };
        let data = match data {
            Err(error) if checkpoint.is_none() && may_be_elsewhere(&error) => {
                let mended = mend_in_turn(
                    self.store,
                    self.replicas,
                    (key, number),
                    Mending::Unreadable,
                    // What it has is to be replaced.
                    Some(self.number),
                );
                if let Err(reason) = mended.await {
                    self.found.note_damage(reason);
                    return Ok(0);
                }
                part(self.store, key, None, number).await
            }
            data => data,
        };
        let data = data.map_err(|e| own(&e))?;
        let zeros = ChunkName::of_slices(data.iter().map(|slice| &slice[..])).is_none();
        if zeros {
            let clear = ClearRanges {
                ranges: vec![wire::range(key, &(start..end))],
            };
            self.send(Change::Clear(clear), Vec::new(), status.modified)
                .await?;
            return Ok(0);
        }
        let write = wire::whole_part(key, status.chunk, start, wire::joined(&data));
        let (pieces, payload) = wire::write_pieces(&[write]);
        self.send(Change::Write(pieces), payload, status.modified)
            .await?;
        Ok(end - start)
    }
}

/// Parts of a window that are to be sent.
struct Different {
    numbers: Vec<u64>,
    /// About how many bytes here were looked at.
    looked_at: u64,
}

impl Different {
    fn of(numbers: Vec<u64>) -> Different {
        let looked_at = Different::bytes_of(numbers.len());
        Different { numbers, looked_at }
    }

    fn bytes_of(parts: usize) -> u64 {
        parts as u64 * REPLICA_PART_BYTES
    }
}

/// Numbers in a row, as the first one and the one behind the last.
fn runs_of(numbers: &BTreeSet<u64>) -> Vec<(u64, Option<u64>)> {
    let mut runs: Vec<(u64, Option<u64>)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end == Some(*number) => *end = Some(number + 1),
            _ => runs.push((*number, Some(number + 1))),
        }
    }
    runs
}

pub(super) fn numbers(file: &StoredFile) -> Vec<u64> {
    file.checkpoints.iter().map(|(number, _)| *number).collect()
}

pub(super) fn key_of(file: FileId, (cell, fork): &(CellIndex, ForkName)) -> ForkKey {
    ForkKey {
        file,
        cell: *cell,
        fork: fork.clone(),
    }
}

pub(super) fn forks_here(file: &StoredFile, checkpoint: Option<u64>) -> Forks {
    let of = file.forks.iter().filter(|(of, ..)| *of == checkpoint);
    of.map(|(_, key, status)| ((key.cell, key.fork.clone()), *status))
        .collect()
}

pub(super) fn forks_there(file: &ReplicaFile, checkpoint: u64) -> Result<Forks, Failed> {
    let of = file
        .forks
        .iter()
        .filter(|fork| fork.checkpoint == checkpoint);
    of.map(|fork| {
        let name = ForkName::new(&fork.fork).map_err(|e| e.to_string())?;
        let status = ForkStatus {
            length: fork.length,
            modified: Timestamp(fork.modified),
            stored: 0,
            chunk: fork.chunk,
        };
        Ok(((CellIndex(fork.cell), name), status))
    })
    .collect()
}

/// The parts that differ, or cannot be read on the other side. Those that cannot be read here stay
/// there as they are.
pub(super) fn differences(
    has: &BTreeMap<u64, Option<ChunkName>>,
    wanted: &BTreeMap<u64, Option<ChunkName>>,
) -> BTreeSet<u64> {
    let all = has.keys().chain(wanted.keys());
    let differs = |number: &&u64| match (has.get(*number), wanted.get(*number)) {
        (Some(Some(a)), Some(Some(b))) => a != b,
        (_, Some(None)) => false,
        _ => true,
    };
    all.filter(differs).copied().collect()
}
