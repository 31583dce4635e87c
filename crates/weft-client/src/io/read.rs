//! Fan-out of a read: one request per server, each answered by one stream, dealt into the caller's
//! memory by one owner.

use std::collections::HashMap;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{self, Stream};
use weft_layout::{
    CellIndex, CellLengths, Map, Pieces, Request, ServerSlot, Splitter, Storage, StridedPieces,
};
use weft_net::{CallError, Incoming};
use weft_proto::io::{CellRun, Pattern, ReadReply, ReadRequest};
use weft_proto::order::Claim;

use super::copying::Copying;
use super::span::Sink;
use crate::limits::BACKUP_ANSWER_MAX;
use crate::policy::Kept;
use crate::scheduled::note_scheduled;
use crate::volume::{Backup, Repeat, Retry};
use crate::{Error, OpenView};

/// Entries of strided pieces that are dealt together.
const TOGETHER: usize = 64;

/// The outcome of a read beside its bytes.
#[derive(Default)]
pub(crate) struct Moved {
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// The lengths of the touched cells that have bytes.
    pub(crate) lengths: HashMap<CellIndex, u64>,
    /// It is in doubt whether cells are longer.
    pub(crate) doubted: bool,
}

impl Moved {
    /// Adds what was read of other slots.
    pub(super) fn add(&mut self, other: Moved) {
        self.bytes += other.bytes;
        self.lengths.extend(other.lengths);
        self.doubted |= other.doubted;
    }
}

/// How a read ended that did not fail.
pub(super) enum ReadOutcome {
    Moved(Moved),
    /// This server has refused the claim.
    Refused(ServerSlot),
}

/// What arrives from one server, in order.
enum Arrived {
    /// The stream begins, perhaps again: lengths of the cells.
    Head(ReadReply),
    /// The next bytes.
    Bytes(Bytes),
}

/// Deals one server's stream into memory.
pub(crate) struct Scatter {
    start: Pieces,
    splitter: Splitter<Lengths>,
    /// What is dealt next, kept for its memory.
    together: Vec<(StridedPieces, usize)>,
    expected: u64,
    moved: u64,
}

/// The lengths of cells; the one last looked up is remembered, because neighbours mostly lie in
/// one.
#[derive(Default)]
pub(super) struct Lengths {
    all: HashMap<CellIndex, u64>,
    last: Option<(CellIndex, u64)>,
}

impl Lengths {
    pub(super) fn of(all: HashMap<CellIndex, u64>) -> Lengths {
        Lengths { all, last: None }
    }

    pub(super) fn all(&self) -> &HashMap<CellIndex, u64> {
        &self.all
    }

    pub(super) fn into_all(self) -> HashMap<CellIndex, u64> {
        self.all
    }
}

impl CellLengths for Lengths {
    fn length_of(&mut self, cell: CellIndex) -> u64 {
        match self.last {
            Some((last, length)) if last == cell => length,
            _ => {
                let length = self.all.get(&cell).copied().unwrap_or(0);
                self.last = Some((cell, length));
                length
            }
        }
    }
}

impl Scatter {
    pub(crate) fn new(pieces: Pieces) -> Scatter {
        Scatter {
            start: pieces.clone(),
            splitter: Splitter::new(pieces, Lengths::default()),
            together: Vec::new(),
            expected: 0,
            moved: 0,
        }
    }

    pub(crate) fn begin(&mut self, head: &ReadReply, map: &Map) -> Result<(), String> {
        self.moved = 0;
        self.expected = head.bytes;
        let lengths = Lengths {
            all: lengths(&head.lengths, map.grid().cells())?,
            last: None,
        };
        let ends = lengths.all.iter().map(|(cell, l)| map.extent(*cell, *l));
        let pieces = self.start.clone().below(ends.max().unwrap_or(0));
        self.splitter = Splitter::new(pieces, lengths);
        Ok(())
    }

    pub(crate) fn take(&mut self, bytes: &Bytes, memory: &mut impl Sink) -> Result<(), String> {
        let mut done = 0;
        while done < bytes.len() {
            self.together.clear();
            while done < bytes.len() && self.together.len() < TOGETHER {
                let Some(strided) = self.splitter.next((bytes.len() - done) as u64) else {
                    return Err(
                        "the server sent more bytes than the request's pieces hold".to_owned()
                    );
                };
                self.together.push((strided, done));
                self.moved += strided.bytes();
                done += strided.bytes() as usize;
            }
            memory.deal_all(&self.together, bytes);
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<u64, String> {
        if self.moved == self.expected && self.splitter.is_done() {
            return Ok(self.moved);
        }
        Err(format!(
            "the server sent {} of {} bytes",
            self.moved, self.expected
        ))
    }

    /// The lengths of the touched cells that have bytes.
    pub(crate) fn into_lengths(self) -> HashMap<CellIndex, u64> {
        self.splitter.into_lengths().all
    }
}

pub(crate) fn lengths(runs: &[CellRun], cells: u32) -> Result<HashMap<CellIndex, u64>, String> {
    let mut lengths = HashMap::new();
    for run in runs {
        let last = u64::from(run.first) + u64::from(run.step) * u64::from(run.count.max(1) - 1);
        if last >= u64::from(cells) || run.step == 0 {
            return Err(format!("the server speaks of cell {last} of {cells}"));
        }
        for i in 0..run.count {
            lengths.insert(CellIndex(run.first + run.step * i), run.length);
        }
    }
    Ok(lengths)
}

type ServerStream<'a> = Pin<Box<dyn Stream<Item = (usize, Result<Arrived, Error>)> + Send + 'a>>;

impl OpenView {
    /// Reads what `request` touches into `memory`.
    pub(crate) async fn read_request(
        &self,
        request: &Request,
        mut memory: impl Sink,
    ) -> Result<Moved, Error> {
        self.clear_ghosts(request, &mut memory);
        let moved = if self.is_recorded() {
            // Boxed: otherwise every reader's future is twice as large.
            Box::pin(self.read_recorded(request, &mut memory)).await?
        } else {
            self.read_by_policy(request, &mut memory).await?
        };
        self.clear_beyond(request, moved.bytes, &moved.lengths, &mut memory)?;
        Ok(moved)
    }

    async fn read_recorded(
        &self,
        request: &Request,
        memory: &mut impl Sink,
    ) -> Result<Moved, Error> {
        let (file, begun) = (&self.file, self.file.now());
        let mut memory = Copying::new(memory, request);
        let moved = self.read_by_policy(request, &mut memory).await?;
        let read = self.recorded_read(request, &moved, &memory.into_copy());
        file.note(begun, Some(file.now()), read);
        Ok(moved)
    }

    async fn read_by_policy(
        &self,
        request: &Request,
        memory: &mut impl Sink,
    ) -> Result<Moved, Error> {
        let file = &self.file;
        let Some(chosen) = file.chosen() else {
            file.commit().await?;
            return self.read_now(request, memory).await;
        };
        let touched = || self.touched(request);
        let asked = file.call(&chosen, "read", |opened, core| {
            opened.pre_read(core, &touched())
        })?;
        let moved = async {
            file.do_pending().await?;
            file.do_asked_for(asked).await?;
            file.commit().await?;
            self.read_now(request, memory).await
        };
        let moved = moved.await;
        let bytes = |moved: &Moved| moved.bytes;
        let after = file.after(&chosen, "read", moved, bytes, |opened, core, bytes| {
            opened.post_read(core, &touched(), bytes)
        });
        after.await
    }

    async fn read_now(&self, request: &Request, memory: &mut impl Sink) -> Result<Moved, Error> {
        let slots = self.map.slots(request)?;
        if let Some(kept) = self.keeps_names() {
            // Boxed: otherwise every reader's future is as large as this one.
            let moved = Box::pin(self.read_kept(request, &slots, kept, memory));
            if let Some(moved) = moved.await? {
                return Ok(moved);
            }
        }
        if self.file.is_cautious() && self.checkpoint == 0 {
            // Boxed: otherwise every reader's future is as large as this one.
            return Box::pin(self.read_in_order(request, &slots, memory)).await;
        }
        let moved = self.read_slots(request, &slots, memory, None);
        match moved.await {
            Ok(ReadOutcome::Moved(moved)) => Ok(moved),
            Ok(ReadOutcome::Refused(_)) => unreachable!("nothing was claimed"),
            Err(error) if self.file.becomes_cautious(&error) => {
                Box::pin(self.read_in_order(request, &slots, memory)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Whether reads go by kept names.
    fn keeps_names(&self) -> Option<Kept> {
        let addressed = self.file.0.layout.storage() == Storage::Addressed;
        let kept = self.file.values().names;
        let here = addressed && self.fork == "data" && self.checkpoint == 0;
        (here && kept != Kept::None).then_some(kept)
    }

    /// Reads what `request` touches of some slots, with a claim or without.
    pub(super) async fn read_slots(
        &self,
        request: &Request,
        slots: &[ServerSlot],
        memory: &mut impl Sink,
        claim: Option<Claim>,
    ) -> Result<ReadOutcome, Error> {
        let pattern = self.pattern(request)?;
        let mut scatters = Vec::with_capacity(slots.len());
        let mut streams: Vec<ServerStream<'_>> = Vec::with_capacity(slots.len());
        let bytes = request.memory() / slots.len().max(1) as u64;
        let may_be_spread = self.checkpoint == 0 && claim.is_none();
        let is_spread = may_be_spread && self.file.0.volume.spreads_read_of(bytes);
        let place = is_spread.then(|| request.end());
        for (i, slot) in slots.iter().enumerate() {
            scatters.push(Scatter::new(self.map.pieces(request, *slot)?));
            let backup = place.and_then(|at| self.backup_for(*slot, at));
            streams.push(Box::pin(
                self.server_stream(&pattern, *slot, claim.clone(), backup)
                    .map(move |item| (i, item)),
            ));
        }
        let mut doubted = false;
        if claim.is_some() {
            // No byte is dealt before all claims are granted: those of a try that is refused may be
            // beyond the end of what the next one finds.
            let heads = join_all(streams.iter_mut().map(StreamExt::next)).await;
            for (i, arrived) in heads.into_iter().flatten() {
                match arrived? {
                    Arrived::Head(head) if head.granted => {
                        doubted |= head.doubted;
                        let begun = scatters[i].begin(&head, &self.map);
                        begun.map_err(|reason| self.broken(slots[i], reason))?;
                    }
                    _ => return Ok(ReadOutcome::Refused(slots[i])),
                }
            }
        }
        if claim.is_some_and(|claim| claim.alone || !claim.wait) {
            note_scheduled();
        }
        let mut arriving = stream::select_all(streams);
        while let Some((i, arrived)) = arriving.next().await {
            let done = match arrived? {
                Arrived::Head(head) => {
                    doubted |= head.doubted;
                    scatters[i].begin(&head, &self.map)
                }
                Arrived::Bytes(bytes) => scatters[i].take(&bytes, memory),
            };
            done.map_err(|reason| self.broken(slots[i], reason))?;
        }
        let (mut bytes, mut lengths) = (0, HashMap::new());
        for (mut scatter, slot) in scatters.into_iter().zip(slots) {
            bytes += scatter
                .finish()
                .map_err(|reason| self.broken(*slot, reason))?;
            lengths.extend(scatter.into_lengths());
        }
        Ok(ReadOutcome::Moved(Moved {
            bytes,
            lengths,
            doubted,
        }))
    }

    pub(crate) fn broken(&self, slot: ServerSlot, reason: String) -> Error {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        Error::Protocol {
            what: format!("{} from server {server}", self.what("read")),
            reason,
        }
    }

    /// The backup that answers a large read at this place; `None`: the primary does.
    fn backup_for(&self, slot: ServerSlot, at: u64) -> Option<Backup> {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        self.file.0.volume.reader(server, at)
    }

    /// One server's answer; without a claim it starts again, once, if the server was lost
    /// meanwhile. What a backup does not answer, the primary does.
    fn server_stream<'a>(
        &'a self,
        pattern: &'a Pattern,
        slot: ServerSlot,
        claim: Option<Claim>,
        backup: Option<Backup>,
    ) -> impl Stream<Item = Result<Arrived, Error>> + Send + 'a {
        enum State {
            Ask,
            Stream(Box<Incoming<ReadRequest>>),
            Done,
        }
        let tries = u32::from(claim.is_none());
        let start = (State::Ask, Retry::times(tries, Repeat::Safe), backup);
        stream::unfold(start, move |(mut state, mut retry, mut backup)| {
            let claim = claim.clone();
            async move {
                loop {
                    let error = match state {
                        State::Done => return None,
                        State::Ask => {
                            let asked = match &backup {
                                Some(backup) => self.ask_backup(backup, pattern, slot).await,
                                None => self.ask(pattern, slot, claim.clone()).await,
                            };
                            match asked {
                                Ok((head, incoming)) => {
                                    let next = State::Stream(Box::new(incoming));
                                    return Some((Ok(Arrived::Head(head)), (next, retry, backup)));
                                }
                                Err(e) => e,
                            }
                        }
                        State::Stream(mut incoming) => match incoming.next().await {
                            Ok(Some(bytes)) => {
                                let next = State::Stream(incoming);
                                return Some((Ok(Arrived::Bytes(bytes)), (next, retry, backup)));
                            }
                            Ok(None) => return None,
                            Err(e) => e,
                        },
                    };
                    if let Some(backup) = backup.take() {
                        backup.rest();
                        self.file.0.volume.refresh_servers_soon();
                        state = State::Ask;
                        continue;
                    }
                    if retry.again(&self.file.0.volume, &error).await {
                        state = State::Ask;
                        continue;
                    }
                    let server = self.file.0.layout.servers()[slot.0 as usize];
                    let what = format!("{} from server {server}", self.what("read"));
                    let end = (State::Done, retry, None);
                    return Some((Err(Error::of_call(what, error)), end));
                }
            }
        })
    }

    async fn ask_backup(
        &self,
        backup: &Backup,
        pattern: &Pattern,
        slot: ServerSlot,
    ) -> Result<(ReadReply, Incoming<ReadRequest>), CallError> {
        let request = ReadRequest {
            access: self.access(pattern, slot),
            claim: None,
        };
        let asked = async { backup.connection().await?.fetch(&request).await };
        let asked = tokio::time::timeout(BACKUP_ANSWER_MAX, asked).await;
        asked.unwrap_or_else(|_| Err(backup.silent(BACKUP_ANSWER_MAX)))
    }

    async fn ask(
        &self,
        pattern: &Pattern,
        slot: ServerSlot,
        claim: Option<Claim>,
    ) -> Result<(ReadReply, Incoming<ReadRequest>), CallError> {
        let server = self.file.0.layout.servers()[slot.0 as usize];
        let connection = self.file.0.volume.server_connection(server).await?;
        let Some(claim) = claim else {
            let request = ReadRequest {
                access: self.access(pattern, slot),
                claim: None,
            };
            return connection.fetch(&request).await;
        };
        let along = self.file.0.volume.shared.ended_operations.take(server);
        let request = ReadRequest {
            access: self.access(pattern, slot),
            claim: Some(Claim {
                ended: along.operations(),
                ..claim
            }),
        };
        let fetched = connection.fetch(&request).await;
        along.delivered();
        fetched
    }
}
