//! One pass over the volume: the namespace and the stores by themselves, and the join of both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_util::future::{join_all, try_join_all};
use weft_layout::ServerId;
use weft_proto::Code;
use weft_proto::fsck::{
    CellState, CheckNamespaceRequest, CheckStoreRequest, CheckpointedState, FileState, Finding,
    ListCellsRequest, ListFilesReply, ListFilesRequest, ListKeptRequest, WhichDeletedRequest,
};
use weft_proto::io::ForkPlace;

use super::compare::Known;
use super::{Fsck, locked};
use crate::Error;
use crate::limits::{
    FINDINGS_MAX, PROGRESS_INTERVAL, STORE_PASSES_MAX, SUSPECT_CHECKS_MAX, SUSPECTS_PER_BATCH,
};
use crate::volume::Repeat;

/// What a pass over the namespace, or over the stores, found.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) inodes: u64,
    pub(super) files: u64,
    pub(super) cells: u64,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) not_kept: u64,
    /// Files that changed whenever they were looked at.
    pub(super) in_use: u64,
}

/// A server's cells, or checkpoints, from a place on, page by page.
struct Stream<T> {
    server: u32,
    /// Cells of files before this one that are not listed may have been there.
    doubted_below: u64,
    page: VecDeque<T>,
    more: bool,
}

/// An entry of a server's list, which is in the order of files.
trait OfFile {
    fn file(&self) -> u64;
}

impl OfFile for CellState {
    fn file(&self) -> u64 {
        self.file
    }
}

impl OfFile for CheckpointedState {
    fn file(&self) -> u64 {
        self.file
    }
}

impl<T: OfFile> Stream<T> {
    fn new(server: u32) -> Stream<T> {
        Stream {
            server,
            doubted_below: 0,
            page: VecDeque::new(),
            more: true,
        }
    }

    /// The file of the next entry.
    fn head(&self) -> Option<u64> {
        self.page.front().map(OfFile::file)
    }

    /// Moves the page's next entries of a file to `all`; whether the next page may have more.
    fn take_of(&mut self, file: u64, all: &mut Vec<(u32, T)>) -> bool {
        while self.head() == Some(file) {
            all.extend(self.page.pop_front().map(|entry| (self.server, entry)));
        }
        self.page.is_empty() && self.more
    }
}

impl Fsck<'_> {
    /// The namespace in itself.
    pub(super) async fn check_namespace(&self) -> Result<Looked, Error> {
        let mut looked = Looked::default();
        let pass = self.volume.shared.env.random_u64();
        loop {
            let request = CheckNamespaceRequest {
                pass,
                seen: looked.findings.len() as u64,
            };
            let what = "check the namespace";
            let reply = self.volume.meta(what, &request, Repeat::Safe).await?;
            looked.findings.extend(reply.findings);
            looked.not_kept = reply.more;
            looked.inodes = reply.files;
            locked(&self.progress).inodes = (reply.files, reply.total.max(reply.files));
            self.tell();
            if !reply.failed.is_empty() {
                return Err(Error::Configuration(format!(
                    "the namespace cannot be checked: {}",
                    reply.failed
                )));
            }
            if reply.done {
                return Ok(looked);
            }
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    /// Each store in itself.
    pub(super) async fn check_stores(&self, wanted: bool) -> Looked {
        let mut all = Looked::default();
        if !wanted {
            return all;
        }
        for looked in join_all(self.servers.iter().map(|s| self.check_store(*s))).await {
            all.chunks += looked.chunks;
            all.bytes += looked.bytes;
            all.not_kept += looked.not_kept;
            all.findings.extend(looked.findings);
        }
        all
    }

    async fn check_store(&self, server: u32) -> Looked {
        for _ in 0..STORE_PASSES_MAX {
            match self.store_pass(server).await {
                Ok(Some(looked)) => return looked,
                Ok(None) => {}
                Err(error) => {
                    self.lose(server, &error);
                    return Looked::default();
                }
            }
        }
        Looked::default()
    }

    /// One pass; nothing where the server was restarted meanwhile.
    async fn store_pass(&self, server: u32) -> Result<Option<Looked>, Error> {
        let mut looked = Looked::default();
        let (pass, mut step) = (self.volume.shared.env.random_u64(), 0);
        let (mut seen, mut total) = (0, 0);
        loop {
            let request = CheckStoreRequest {
                pass,
                part: step,
                data: self.options.data,
                repair: self.options.repair,
            };
            let id = ServerId(server);
            let reply = match self.volume.io("check", id, &request, Repeat::Unsafe).await {
                Ok(reply) => reply,
                Err(error) if error.code() == Code::Stale => return Ok(None),
                Err(error) => return Err(error),
            };
            step += 1;
            looked.chunks += reply.chunks;
            // Steps that read data examine no chunk's entry: those bytes were counted before.
            if reply.chunks > 0 {
                looked.bytes += reply.bytes;
            }
            looked.not_kept += reply.more;
            {
                let mut progress = locked(&self.progress);
                progress.bytes.0 += reply.bytes;
                if step == 1 {
                    total = reply.total * if self.options.data { 2 } else { 1 };
                    progress.bytes.1 += total;
                }
                seen += reply.bytes;
                if reply.done {
                    // What was freed meanwhile is not waited for.
                    progress.bytes.1 = progress.bytes.1 + seen - total;
                }
            }
            self.tell();
            for mut finding in reply.findings {
                finding.server = Some(server);
                if looked.findings.len() < FINDINGS_MAX {
                    looked.findings.push(finding);
                } else {
                    looked.not_kept += 1;
                }
            }
            if reply.done {
                return Ok(Some(looked));
            }
        }
    }

    /// Joins what the namespace and the servers list, in the order of the files' ids, and looks at
    /// suspects again.
    pub(super) async fn join(&self) -> Result<Looked, Error> {
        let mut looked = Looked::default();
        let mut cells: Vec<Stream<CellState>> =
            self.servers.iter().map(|s| Stream::new(*s)).collect();
        let mut kept: Vec<Stream<CheckpointedState>> =
            self.servers.iter().map(|s| Stream::new(*s)).collect();
        let (mut files, mut through, mut more) = (VecDeque::new(), 0, true);
        let (mut cell_at, mut kept_at) = (vec![None; cells.len()], vec![None; kept.len()]);
        let mut deleted = BTreeMap::new();
        let mut suspects: Vec<(u64, BTreeSet<u32>)> = Vec::new();
        loop {
            // The namespace is asked before the servers are, page by page.
            if files.is_empty() && more {
                let page = self.files(through, Vec::new()).await?;
                (through, more) = (page.through, page.more);
                deleted = self.deleted(&page.files).await;
                files.extend(page.files);
            }
            try_join_all(
                cells
                    .iter_mut()
                    .zip(&mut cell_at)
                    .map(|(s, at)| self.fill_cells(s, at)),
            )
            .await?;
            try_join_all(
                kept.iter_mut()
                    .zip(&mut kept_at)
                    .map(|(s, at)| self.fill_kept(s, at)),
            )
            .await?;
            let cell_heads = cells.iter().filter_map(Stream::head);
            let of_servers = cell_heads.chain(kept.iter().filter_map(Stream::head)).min();
            let head: Option<&FileState> = files.front();
            let id = match (head.map(|f| f.file), of_servers) {
                (Some(a), Some(b)) => a.min(b),
                (Some(id), None) | (None, Some(id)) => id,
                (None, None) if more => continue,
                (None, None) => break,
            };
            if head.is_none() && more && id > through {
                continue;
            }
            let mut known = Known::default();
            known.state.file = id;
            if head.is_some_and(|f| f.file == id) {
                known.state = files.pop_front().unwrap_or_default();
                known.deleted = deleted.remove(&id).unwrap_or_default();
                looked.files += u64::from(known.state.there);
            }
            for (stream, at) in cells.iter_mut().zip(&mut cell_at) {
                while stream.take_of(id, &mut known.cells) {
                    self.fill_cells(stream, at).await?;
                }
            }
            for (stream, at) in kept.iter_mut().zip(&mut kept_at) {
                while stream.take_of(id, &mut known.kept) {
                    self.fill_kept(stream, at).await?;
                }
            }
            looked.cells += known.cells.len() as u64;
            let doubted = cells.iter().filter(|stream| id < stream.doubted_below);
            known.doubted = doubted.map(|stream| stream.server).collect();
            if !known.compare(&self.known_servers()).is_empty() {
                suspects.push((id, servers_of(&known)));
            }
            if suspects.len() >= SUSPECTS_PER_BATCH {
                self.look_again(std::mem::take(&mut suspects), &mut looked)
                    .await?;
            }
            if looked.files.is_multiple_of(256) {
                locked(&self.progress).files = looked.files;
                self.tell();
            }
        }
        self.look_again(suspects, &mut looked).await?;
        locked(&self.progress).files = looked.files;
        self.tell();
        Ok(looked)
    }

    pub(super) async fn files(&self, after: u64, files: Vec<u64>) -> Result<ListFilesReply, Error> {
        let request = ListFilesRequest { after, files };
        self.volume.meta("list files", &request, Repeat::Safe).await
    }

    /// Which servers have deleted which of these files: each is asked once, about those that it
    /// should have something of.
    async fn deleted(&self, files: &[FileState]) -> BTreeMap<u64, BTreeSet<u32>> {
        let down: BTreeSet<u32> = locked(&self.down).keys().copied().collect();
        let mut asked: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for state in files.iter().filter(|state| state.there && !state.owed) {
            let layout = state.layout.iter();
            for server in layout.flat_map(|layout| &layout.servers) {
                if self.servers.contains(server) && !down.contains(server) {
                    asked.entry(*server).or_default().push(state.file);
                }
            }
        }
        let answers = asked
            .into_iter()
            .map(async |(server, files)| (server, self.deleted_on(server, files).await));
        let mut deleted: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for (server, answer) in join_all(answers).await {
            match answer {
                Ok(files) => files.into_iter().for_each(|file| {
                    deleted.entry(file).or_default().insert(server);
                }),
                Err(error) => self.lose(server, &error),
            }
        }
        deleted
    }

    async fn deleted_on(&self, server: u32, files: Vec<u64>) -> Result<Vec<u64>, Error> {
        let (id, request) = (ServerId(server), WhichDeletedRequest { files });
        let reply = self
            .volume
            .io("ask for deleted files", id, &request, Repeat::Safe);
        Ok(reply.await?.files)
    }

    /// Fetches the next page of a server's cells, if the last is used up.
    async fn fill_cells(
        &self,
        stream: &mut Stream<CellState>,
        at: &mut Option<(u64, ForkPlace)>,
    ) -> Result<(), Error> {
        while stream.page.is_empty() && stream.more {
            let (file, after) = at
                .clone()
                .map_or((0, None), |(file, place)| (file, Some(place)));
            let request = ListCellsRequest {
                file,
                after,
                only: false,
            };
            let page = self.volume.io(
                "list cells",
                ServerId(stream.server),
                &request,
                Repeat::Safe,
            );
            match page.await {
                Ok(page) => {
                    stream.doubted_below = page.doubted_below;
                    stream.more = page.more && !page.cells.is_empty();
                    if let Some(last) = page.cells.last() {
                        let (cell, fork) = (last.cell, last.fork.clone());
                        *at = Some((last.file, ForkPlace { cell, fork }));
                    }
                    // A fork that was removed meanwhile only marks the page's end.
                    let there = page
                        .cells
                        .into_iter()
                        .filter(|c| c.chunk != 0 || c.modified != 0);
                    stream.page.extend(there);
                }
                Err(error) => {
                    self.lose(stream.server, &error);
                    stream.more = false;
                }
            }
        }
        Ok(())
    }

    async fn fill_kept(
        &self,
        stream: &mut Stream<CheckpointedState>,
        at: &mut Option<(u64, u64)>,
    ) -> Result<(), Error> {
        while stream.page.is_empty() && stream.more {
            let (file, number) = at.unwrap_or_default();
            let request = ListKeptRequest {
                file,
                number,
                only: false,
            };
            let page = self.volume.io(
                "list checkpoints",
                ServerId(stream.server),
                &request,
                Repeat::Safe,
            );
            match page.await {
                Ok(page) => {
                    stream.more = page.more && !page.kept.is_empty();
                    *at = page.kept.last().map(|k| (k.file, k.number));
                    stream.page.extend(page.kept);
                }
                Err(error) => {
                    self.lose(stream.server, &error);
                    stream.more = false;
                }
            }
        }
        Ok(())
    }

    /// Looks at suspects until the namespace says the same before and after the servers were asked.
    async fn look_again(
        &self,
        mut suspects: Vec<(u64, BTreeSet<u32>)>,
        looked: &mut Looked,
    ) -> Result<(), Error> {
        for _ in 0..SUSPECT_CHECKS_MAX {
            if suspects.is_empty() {
                return Ok(());
            }
            let ids: Vec<u64> = suspects.iter().map(|(id, _)| *id).collect();
            let before = self.files(0, ids.clone()).await?;
            let known = self.look(&suspects).await?;
            let after = self.files(0, ids).await?;
            let mut again = Vec::new();
            for (i, mut known) in known.into_iter().enumerate() {
                let (old, new) = (before.files.get(i), after.files.get(i));
                let (Some(old), Some(new)) = (old, new) else {
                    continue;
                };
                let fresh = new.file >= before.next_id && new.file < after.next_id;
                if old != new || fresh {
                    again.push(suspects[i].clone());
                    continue;
                }
                known.state = new.clone();
                looked.findings.extend(known.compare(&self.known_servers()));
            }
            suspects = again;
        }
        // What changes all the time is in use, and looked at the next time.
        looked.in_use += suspects.len() as u64;
        Ok(())
    }

    /// What these servers, and the layouts' servers, have of some files.
    pub(super) async fn look(&self, files: &[(u64, BTreeSet<u32>)]) -> Result<Vec<Known>, Error> {
        let ids = files.iter().map(|(id, _)| *id).collect();
        let states = self.files(0, ids).await?.files;
        let mut all = Vec::new();
        for (state, (file, servers)) in states.into_iter().zip(files) {
            let mut known = Known {
                state,
                ..Known::default()
            };
            let mut servers = servers.clone();
            servers.extend(servers_of(&known));
            for server in servers {
                if let Err(error) = self.look_on(server, *file, &mut known).await {
                    self.lose(server, &error);
                }
            }
            all.push(known);
        }
        Ok(all)
    }

    async fn look_on(&self, server: u32, file: u64, known: &mut Known) -> Result<(), Error> {
        if !self.deleted_on(server, vec![file]).await?.is_empty() {
            known.deleted.insert(server);
        }
        let (id, mut after) = (ServerId(server), None);
        loop {
            let request = ListCellsRequest {
                file,
                after,
                only: true,
            };
            let page = self
                .volume
                .io("list cells", id, &request, Repeat::Safe)
                .await?;
            if file < page.doubted_below {
                known.doubted.insert(server);
            }
            known.ends_doubted |= page.doubted_ends;
            after = page.cells.last().map(|last| ForkPlace {
                cell: last.cell,
                fork: last.fork.clone(),
            });
            known
                .cells
                .extend(page.cells.into_iter().map(|cell| (server, cell)));
            if !page.more || after.is_none() {
                break;
            }
        }
        let mut number = 0;
        loop {
            let request = ListKeptRequest {
                file,
                number,
                only: true,
            };
            let page = self
                .volume
                .io("list checkpoints", id, &request, Repeat::Safe)
                .await?;
            let last = page.kept.last().map(|k| k.number);
            known
                .kept
                .extend(page.kept.into_iter().map(|kept| (server, kept)));
            match last {
                Some(last) if page.more => number = last,
                _ => return Ok(()),
            }
        }
    }
}

/// The servers that have, or should have, something of a file.
fn servers_of(known: &Known) -> BTreeSet<u32> {
    let cells = known.cells.iter().map(|(server, _)| *server);
    let kept = known.kept.iter().map(|(server, _)| *server);
    let layout = known.layout();
    let named = layout
        .iter()
        .flat_map(weft_layout::Layout::servers)
        .map(|server| server.0);
    cells.chain(kept).chain(named).collect()
}
