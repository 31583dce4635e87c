//! Makes another replica equal to the primary, while clients work.
//!
//! The replica gets all changes from the beginning on. So what is found equal stays equal; what
//! differs is sent part by part, each in turn with changes of the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use weft_layout::{CellIndex, CellOffset, FileId};
use weft_net::Link;
use weft_proto::meta::ReplicaChange;
use weft_proto::replica::{
    ApplyRequest, Change, ClearRanges, FileAction, FileOperation, ReplicaFile, ReplicaFilesRequest,
    ReplicaPartsRequest,
};
use weft_proto::{Call, Kind};
use weft_store::{
    ForkKey, ForkName, ForkStatus, Run, Scattered, Store, StoreError, StoredFile, Timestamp,
};
use weft_sum::ChunkName;

use super::apply::{part, parts};
use super::state::{Part, Replicas};
use super::turns::Span;
use super::wire;
use crate::limits::{REPLICA_CALL_TIMEOUT, REPLICA_LIST_FORKS, REPLICA_PART_BYTES};

/// Why a replica has not caught up.
type Failed = String;

fn own(error: &StoreError) -> Failed {
    format!("this replica: {error}")
}

/// One attempt; the caller tries again later.
pub(super) async fn catch_up(store: &Store, replicas: &Replicas, number: u32) {
    let began = Instant::now();
    let server = replicas.me.server;
    let mut pass = match Pass::begin(store, replicas, number).await {
        Ok(pass) => pass,
        Err(reason) => {
            tracing::debug!(
                server,
                replica = number,
                reason,
                "a replica cannot catch up yet"
            );
            return;
        }
    };
    let done = pass.run().await;
    replicas.set_progress(number, None);
    match done {
        Ok(()) => tracing::info!(
            server,
            replica = number,
            files = pass.files,
            bytes = pass.bytes,
            seconds = began.elapsed().as_secs_f64(),
            "a replica has caught up"
        ),
        Err(reason) => {
            tracing::warn!(
                server,
                replica = number,
                reason,
                "a replica has not caught up"
            );
            replicas.set_part(number, Part::Away);
        }
    }
}

/// The forks of one state of a file: of the live one, or of a checkpoint.
type Forks = BTreeMap<(CellIndex, ForkName), ForkStatus>;

/// What a replica has of a file, or should have.
#[derive(Clone, Copy)]
enum Side {
    /// What it said.
    There(Option<u64>),
    /// What this one has.
    Here(Option<u64>),
}

struct Pass<'a> {
    store: &'a Store,
    replicas: &'a Replicas,
    number: u32,
    link: Link,
    /// The number of the attempt.
    attempt: u64,
    /// Files that differed.
    files: u64,
    /// Bytes that were sent.
    bytes: u64,
    /// Bytes here that were compared.
    compared: u64,
}

impl Pass<'_> {
    async fn begin<'a>(
        store: &'a Store,
        replicas: &'a Replicas,
        number: u32,
    ) -> Result<Pass<'a>, Failed> {
        let peers = replicas.peers();
        let link = peers.into_iter().find(|(n, ..)| *n == number);
        let (_, link, _) = link.ok_or("it is no replica of this server")?;
        let pass = Pass {
            store,
            replicas,
            number,
            link,
            attempt: replicas.next_pass(number),
            files: 0,
            bytes: 0,
            compared: 0,
        };
        // One that is not there gets no changes, and one that is there none of earlier attempts.
        let fence = ReplicaFilesRequest {
            term: pass.term()?,
            fence: pass.attempt,
            ..ReplicaFilesRequest::default()
        };
        pass.call(&fence).await?;
        if !replicas.set_part(number, Part::CatchingUp) {
            return Err("this replica is not the primary any more".into());
        }
        // Changes that had begun before are not sent to it.
        replicas.turns.pass().await;
        Ok(pass)
    }

    async fn run(&mut self) -> Result<(), Failed> {
        let (mut after, mut here, mut there) = (None, Vec::new(), Vec::new());
        let (mut left_here, mut also_there) = (true, true);
        loop {
            if here.is_empty() && left_here {
                let from = after.unwrap_or(FileId(0));
                (here, left_here) = self.store.files_after(from, REPLICA_LIST_FORKS);
                here.reverse();
            }
            if there.is_empty() && also_there {
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
            let stored = ours.iter().flat_map(|f| &f.forks);
            let stored: u64 = stored.map(|(_, _, status)| status.stored).sum();
            let theirs = there.pop_if(|f| f.file == first);
            self.file(FileId(first), ours, theirs).await?;
            self.compared += stored;
            let total = self.store.usage().used.max(self.compared);
            self.replicas
                .set_progress(self.number, Some((self.compared, total)));
            after = Some(FileId(first));
        }
        self.join().await
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

    /// The term in which this replica is primary.
    fn term(&self) -> Result<u64, Failed> {
        Ok(self.replicas.targets().map_err(|e| own(&e))?.0)
    }

    fn is_wanted(&self) -> bool {
        self.replicas.part(self.number) == Part::CatchingUp
    }

    async fn call<C: Call>(&self, request: &C) -> Result<C::Reply, Failed> {
        let asked = async {
            let (connection, _) = self.link.connection().await?;
            connection.call(request).await
        };
        let answer = timeout(REPLICA_CALL_TIMEOUT, asked).await;
        let answer = answer.map_err(|_| format!("{} was not answered", C::KIND.name()))?;
        answer.map_err(|e| e.to_string())
    }

    async fn list(
        &self,
        after: u64,
        only: u64,
    ) -> Result<weft_proto::replica::ReplicaFilesReply, Failed> {
        let request = ReplicaFilesRequest {
            term: self.term()?,
            after,
            only,
            fence: 0,
        };
        self.call(&request).await
    }

    async fn send(
        &mut self,
        change: Change,
        data: Vec<Bytes>,
        time: Timestamp,
    ) -> Result<(), Failed> {
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
        let answer = timeout(REPLICA_CALL_TIMEOUT, sent).await;
        let answer = answer.map_err(|_| format!("{} was not answered", Kind::Apply.name()))?;
        self.bytes += bytes;
        answer.map_err(|e| e.to_string())
    }

    async fn operation(
        &mut self,
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
    async fn file(
        &mut self,
        file: FileId,
        ours: Option<StoredFile>,
        theirs: Option<ReplicaFile>,
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
                    self.files += 1;
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
        let sent = self.bytes;
        if numbers(&ours) == listed.checkpoints
            && self.checkpoints_are_equal(&ours, &listed).await?
        {
            self.bring(file, Side::There(None), Side::Here(None))
                .await?;
        } else {
            self.rebuild(file).await?;
        }
        self.note_operation(file).await?;
        self.files += u64::from(self.bytes > sent);
        Ok(())
    }

    /// Lets the replica know the last numbered operation, which it must not do again.
    async fn note_operation(&mut self, file: FileId) -> Result<(), Failed> {
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
        &mut self,
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
                let here = self.parts_of(&key, Side::Here(Some(number))).await?;
                let there = self.parts_of(&key, Side::There(Some(number))).await?;
                if !differences(&there, &here).is_empty() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Sends a file and its checkpoints anew, the oldest checkpoint first. Changes of it wait.
    async fn rebuild(&mut self, file: FileId) -> Result<(), Failed> {
        let _turn = self.replicas.turns.take(vec![Span::File(file)]).await;
        let Some(ours) = self.store.stored_file(file).filter(|f| !f.deleted) else {
            return Ok(());
        };
        // What cannot be read here must not go there.
        for (checkpoint, key, _) in &ours.forks {
            let parts = self.parts_of(key, Side::Here(*checkpoint)).await?;
            if parts.values().any(Option::is_none) {
                return Err(format!("{key} is damaged here, and cannot be sent"));
            }
        }
        self.operation(file, FileAction::Empty, (0, 0), Timestamp(0))
            .await?;
        let mut before = None;
        for (number, made) in &ours.checkpoints {
            self.bring_in_turn(file, before, Side::Here(Some(*number)))
                .await?;
            let action = FileAction::Checkpoint;
            self.operation(file, action, (0, *number), *made).await?;
            before = Some(Side::Here(Some(*number)));
        }
        self.bring_in_turn(file, before, Side::Here(None)).await
    }

    /// Makes the live file there equal, each fork and part in its turn.
    async fn bring(&mut self, file: FileId, from: Side, to: Side) -> Result<(), Failed> {
        // Forks that come or go.
        let turn = self.replicas.turns.take(vec![Span::File(file)]).await;
        let (has, wanted) = (
            self.forks_of(file, from).await?,
            self.forks_of(file, to).await?,
        );
        self.shape(file, &has, &wanted).await?;
        drop(turn);
        for place in wanted.keys() {
            let key = key_of(file, place);
            let has = self.parts_of(&key, from).await?;
            let wanted = self.parts_of(&key, to).await?;
            for number in differences(&has, &wanted) {
                let start = number * REPLICA_PART_BYTES;
                let span = Span::Bytes(key.clone(), start..start + REPLICA_PART_BYTES);
                let _turn = self.replicas.turns.take(vec![span]).await;
                self.send_part(&key, None, number).await?;
            }
        }
        Ok(())
    }

    /// As [`Pass::bring`], of a file whose turn the caller has. `from`: what the replica has;
    /// `None`: nothing.
    async fn bring_in_turn(
        &mut self,
        file: FileId,
        from: Option<Side>,
        to: Side,
    ) -> Result<(), Failed> {
        let has = match from {
            Some(from) => self.forks_of(file, from).await?,
            None => Forks::new(),
        };
        let wanted = self.forks_of(file, to).await?;
        let (Side::Here(checkpoint) | Side::There(checkpoint)) = to;
        let kept = self.shape(file, &has, &wanted).await?;
        for place in wanted.keys() {
            let key = key_of(file, place);
            let has = match from {
                Some(from) if kept.contains(place) => self.parts_of(&key, from).await?,
                _ => BTreeMap::new(),
            };
            let wanted = self.parts_of(&key, to).await?;
            for number in differences(&has, &wanted) {
                self.send_part(&key, checkpoint, number).await?;
            }
        }
        Ok(())
    }

    /// Removes, makes and extends forks; returns those whose bytes are still there.
    async fn shape(
        &mut self,
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

    async fn forks_of(&self, file: FileId, side: Side) -> Result<Forks, Failed> {
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

    async fn parts_of(
        &self,
        key: &ForkKey,
        side: Side,
    ) -> Result<BTreeMap<u64, Option<ChunkName>>, Failed> {
        let (mut all, mut first) = (BTreeMap::new(), Some(0));
        while let Some(from) = first {
            first = match side {
                Side::Here(of) => {
                    let found = parts(self.store, key, of, from).await;
                    let (found, next) = found.map_err(|e| own(&e))?;
                    all.extend(found);
                    next
                }
                Side::There(of) => {
                    let request = ReplicaPartsRequest {
                        term: self.term()?,
                        fork: wire::fork_id(key),
                        checkpoint: of.unwrap_or(0),
                        first: from,
                    };
                    let reply = self.call(&request).await?;
                    all.extend(reply.parts.into_iter().map(|part| {
                        let hash = <[u8; 32]>::try_from(&part.hash[..]).ok();
                        (part.number, hash.map(ChunkName::from_bytes))
                    }));
                    reply.next.filter(|next| *next > from)
                }
            };
        }
        Ok(all)
    }

    /// Sends one part as it is here, in the turn that the caller has.
    async fn send_part(
        &mut self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        number: u64,
    ) -> Result<(), Failed> {
        let status = match checkpoint {
            None => self.store.status(key).await.map_err(|e| own(&e))?,
            Some(number) => {
                let forks = self.store.checkpoint_forks(key.file, number);
                let mut forks = forks.map_err(|e| own(&e))?.into_iter();
                forks.find(|(of, _)| of == key).map(|(_, status)| status)
            }
        };
        let Some(status) = status else {
            return Ok(());
        };
        let start = number * REPLICA_PART_BYTES;
        let end = status.length.min(start + REPLICA_PART_BYTES);
        if start >= end {
            return Ok(());
        }
        let data = part(self.store, key, checkpoint, number).await;
        let data = data.map_err(|e| own(&e))?;
        let zeros = ChunkName::of_slices(data.iter().map(|slice| &slice[..])).is_none();
        if zeros {
            let clear = ClearRanges {
                ranges: vec![wire::range(key, &(start..end))],
            };
            return self
                .send(Change::Clear(clear), Vec::new(), status.modified)
                .await;
        }
        let data = wire::joined(&data);
        let write = Scattered {
            key: key.clone(),
            chunk: status.chunk,
            runs: vec![Run {
                offset: CellOffset(start),
                at: 0,
                length: data.len() as u64,
                count: 1,
                stride: 1,
            }],
            data,
        };
        let (pieces, payload) = wire::write_pieces(&[write]);
        self.send(Change::Write(pieces), payload, status.modified)
            .await
    }
}

fn numbers(file: &StoredFile) -> Vec<u64> {
    file.checkpoints.iter().map(|(number, _)| *number).collect()
}

fn key_of(file: FileId, (cell, fork): &(CellIndex, ForkName)) -> ForkKey {
    ForkKey {
        file,
        cell: *cell,
        fork: fork.clone(),
    }
}

fn forks_here(file: &StoredFile, checkpoint: Option<u64>) -> Forks {
    let of = file.forks.iter().filter(|(of, ..)| *of == checkpoint);
    of.map(|(_, key, status)| ((key.cell, key.fork.clone()), *status))
        .collect()
}

fn forks_there(file: &ReplicaFile, checkpoint: u64) -> Result<Forks, Failed> {
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
fn differences(
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
