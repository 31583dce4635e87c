//! Names of the chunks that a read touches: kept ones, or from the servers (CAPFS §3.4.2).

use futures_util::future::join_all;
use tokio::time::sleep;
use weft_layout::{Request, ServerId, ServerSlot, Splitter};
use weft_net::CallError;
use weft_proto::Code;
use weft_proto::addressed::{ReadNamesReply, ReadNamesRequest};
use weft_proto::io::Pattern;
use weft_proto::order::Claim;

use super::in_order::is_passing;
use super::read::lengths;
use crate::cache::{Fill, Given, Names, WantedChunks};
use crate::limits::{KEPT_PIECES_MAX, NAMED_CHUNKS_MAX, OPERATION_BACKOFF, OPERATION_TRIES};
use crate::policy::Kept;
use crate::session::TakenAlong;
use crate::volume::Repeat;
use crate::{Error, OpenView};

/// What a read touches on one server.
pub(super) struct SlotChunks {
    pub(super) slot: ServerSlot,
    pub(super) server: ServerId,
    pub(super) wanted: WantedChunks,
}

/// What one server answers.
#[derive(Clone, Default)]
struct Answer {
    names: Names,
    /// What is needed to keep them, once they are known to be of one moment.
    kept: Option<(Fill, Given)>,
}

/// Why there are no names.
enum NoNames {
    /// The read has to do without.
    Unsupported,
    /// Other operations are in the way.
    Again,
    Failed(ServerId, CallError),
}

impl OpenView {
    /// The chunks that a request touches; `None` if they are too many to be read by name.
    pub(super) fn chunks_of(
        &self,
        request: &Request,
        slots: &[ServerSlot],
    ) -> Result<Option<Vec<SlotChunks>>, Error> {
        let layout = &self.file.0.layout;
        let size = u64::from(layout.chunk());
        let most = self.file.0.volume.shared.chunks.most() / size / 2;
        let (mut all, mut count, mut pieces) = (Vec::with_capacity(slots.len()), 0, 0);
        for slot in slots {
            let mut chunks = std::collections::BTreeSet::new();
            let mut splitter = Splitter::whole(self.map.pieces(request, *slot)?);
            while let Some(strided) = splitter.next(u64::MAX) {
                pieces += strided.count;
                if pieces > KEPT_PIECES_MAX {
                    return Ok(None);
                }
                for n in 0..strided.count {
                    let start = strided.offset.0 + n * strided.stride;
                    let touched = start / size..(start + strided.length).div_ceil(size);
                    count += touched.end - touched.start;
                    if count > most.min(NAMED_CHUNKS_MAX) {
                        return Ok(None);
                    }
                    chunks.extend(touched.map(|chunk| (strided.cell, chunk)));
                }
            }
            all.push(SlotChunks {
                slot: *slot,
                server: layout.servers()[slot.0 as usize],
                wanted: WantedChunks { chunks, size },
            });
        }
        Ok(Some(all))
    }

    /// The names of these chunks, of all at one moment if the policy is in order; `None`: the read
    /// has to do without.
    pub(super) async fn names_of(
        &self,
        request: &Request,
        slots: &[SlotChunks],
        kept: Kept,
    ) -> Result<Option<Vec<Names>>, Error> {
        let file = &self.file.0;
        match kept {
            Kept::None => Ok(None),
            Kept::Coherent => {
                let shared = &file.volume.shared.kept_names;
                let wanted = slots.iter().map(|slot| (slot.server, &slot.wanted));
                if let Some(names) = shared.all_of(file.cells.file, wanted) {
                    return Ok(Some(names));
                }
                self.names_in_order(request, slots).await
            }
            Kept::Own { believed, .. } => {
                let wanted = slots.iter().map(|slot| &slot.wanted);
                if let Some(names) = file.own_names.all_of(wanted, believed) {
                    return Ok(Some(names));
                }
                let begun = file.own_names.begin();
                let asks = slots.iter().map(|slot| self.ask_names(request, slot, None));
                let names = self.outcome(join_all(asks).await)?;
                for names in names.iter().flatten() {
                    file.own_names.keep(begun, names.clone());
                }
                Ok(names)
            }
        }
    }

    /// What came of asking all servers once.
    fn outcome(&self, asked: Vec<Result<Answer, NoNames>>) -> Result<Option<Vec<Names>>, Error> {
        let mut all = Vec::with_capacity(asked.len());
        for names in asked {
            match names {
                Ok(answer) => all.push(answer.names),
                Err(NoNames::Unsupported | NoNames::Again) => return Ok(None),
                Err(NoNames::Failed(server, error)) => return Err(self.no_names(server, error)),
            }
        }
        Ok(Some(all))
    }

    fn no_names(&self, server: ServerId, error: CallError) -> Error {
        let what = format!("{} from server {server}", self.what("read"));
        Error::of_call(what, error)
    }

    /// Asks all servers for names as they are at one moment, and keeps them.
    async fn names_in_order(
        &self,
        request: &Request,
        slots: &[SlotChunks],
    ) -> Result<Option<Vec<Names>>, Error> {
        let mut last = None;
        for attempt in 0..OPERATION_TRIES {
            if attempt > 0 {
                sleep(OPERATION_BACKOFF * attempt).await;
            }
            match self.try_names(request, slots, attempt > 0).await {
                Ok(names) => return Ok(Some(names)),
                Err(NoNames::Unsupported) => return Ok(None),
                Err(NoNames::Again) => {}
                Err(NoNames::Failed(server, error)) => {
                    let volume = &self.file.0.volume;
                    if !is_passing(&error) && !volume.may_retry(&error, Repeat::Safe).await {
                        return Err(self.no_names(server, error));
                    }
                    last = Some((server, error));
                }
            }
        }
        match last {
            Some((server, error)) => Err(self.no_names(server, error)),
            // Reading the bytes in order says what is in the way.
            None => Ok(None),
        }
    }

    async fn try_names(
        &self,
        request: &Request,
        slots: &[SlotChunks],
        waits: bool,
    ) -> Result<Vec<Names>, NoNames> {
        let places: Vec<_> = slots.iter().map(|slot| slot.slot).collect();
        let turn = self.turn(&places);
        let ask = |slot, waits| self.ask_names(request, slot, Some(turn.claim(waits)));
        let answers: Vec<Answer> = if slots.len() == 1 || !waits {
            let asks = slots.iter().map(|slot| ask(slot, slots.len() == 1));
            let asked = join_all(asks).await;
            asked.into_iter().collect::<Result<_, _>>()?
        } else {
            let mut in_order: Vec<_> = slots.iter().enumerate().collect();
            in_order.sort_unstable_by_key(|(_, slot)| slot.server);
            let mut answers = vec![Answer::default(); slots.len()];
            for (place, slot) in in_order {
                answers[place] = ask(slot, true).await?;
            }
            answers
        };
        if !turn.was_kept().await {
            return Err(NoNames::Again);
        }
        turn.note_done();
        for (answer, slot) in answers.iter().zip(slots) {
            if let Some(kept) = &answer.kept {
                self.keep_names(slot.server, kept, answer.names.clone());
            }
        }
        Ok(answers.into_iter().map(|answer| answer.names).collect())
    }

    /// Keeps names of a server, and hears of changes from now on.
    fn keep_names(&self, server: ServerId, (fill, given): &(Fill, Given), names: Names) {
        let volume = &self.file.0.volume;
        if volume.shared.kept_names.keep(fill, *given, names) {
            volume.ask_for_callbacks(server);
        }
    }

    /// Asks one server; with a claim, for names that it keeps coherent.
    async fn ask_names(
        &self,
        request: &Request,
        slot: &SlotChunks,
        claim: Option<Claim>,
    ) -> Result<Answer, NoNames> {
        let file = &self.file.0;
        let shared = &file.volume.shared;
        let failed = |error| NoNames::Failed(slot.server, error);
        let pattern = Pattern::from_request(request, !self.map.rearranges());
        let pattern = pattern.map_err(|_| NoNames::Unsupported)?;
        let connection = file.volume.server_connection(slot.server).await;
        let connection = connection.map_err(failed)?;
        let coherent = claim.is_some();
        let asked_for = coherent.then(|| {
            let (id, size) = (file.cells.file, slot.wanted.size);
            shared.kept_names.begin(slot.server, id, size)
        });
        let along = claim
            .is_some()
            .then(|| shared.ended_operations.take(slot.server));
        let asked = ReadNamesRequest {
            access: self.access(&pattern, slot.slot),
            claim: claim.map(|claim| Claim {
                ended: along
                    .as_ref()
                    .map(TakenAlong::operations)
                    .unwrap_or_default(),
                ..claim
            }),
            callback: coherent,
            after: asked_for.map_or(0, Fill::after),
        };
        let answer = connection.call(&asked).await;
        if let Some(along) = along {
            along.delivered();
        }
        let reply: ReadNamesReply = answer.map_err(|error| match error.code() {
            Code::Unsupported | Code::TooLarge => NoNames::Unsupported,
            Code::Cautious => {
                self.file.become_cautious();
                NoNames::Unsupported
            }
            _ => NoNames::Failed(slot.server, error),
        })?;
        if coherent && !reply.granted {
            return Err(NoNames::Again);
        }
        let kept = asked_for.map(|asked| (asked, Given::of(&reply)));
        if let Some(kept) = &kept {
            // Whatever the other servers say, this one waits from now on for what it tells.
            self.keep_names(slot.server, kept, Names::default());
        }
        let protocol = |reason| {
            let address = format!("server {}", slot.server);
            NoNames::Failed(slot.server, CallError::Protocol { address, reason })
        };
        let found = lengths(&reply.lengths, self.map.grid().cells()).map_err(protocol)?;
        let names = Names::of_reply(&reply, &found, &slot.wanted).map_err(protocol)?;
        // Without a claim, the cell may have become shorter between its length and its names.
        let names = names.all_of(&slot.wanted).ok_or(NoNames::Again)?;
        Ok(Answer { names, kept })
    }
}
