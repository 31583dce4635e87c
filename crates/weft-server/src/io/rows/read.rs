//! Reads through rows: a lost piece is computed from k others.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use weft_parity::PART_BYTES;
use weft_proto::parity::FindCodingRequest;
use weft_store::ForkKey;

use super::fetch::read_piece;
use super::file::FileRows;
use crate::io::Peers;
use crate::limits::CODED_FILES_KNOWN;

/// A file and a checkpoint of it, and its rows.
type KnownFile = ((u64, u64), Arc<FileRows>);

/// Reads bytes of files through rows.
pub(crate) struct Rows {
    peers: Arc<Peers>,
    /// Files with the checkpoints of which their rows are made, the last used ones at the end.
    known: Mutex<VecDeque<KnownFile>>,
}

impl Rows {
    /// Knows of no file yet.
    pub(crate) fn new(peers: Arc<Peers>) -> Rows {
        Rows {
            peers,
            known: Mutex::default(),
        }
    }

    /// Bytes of a fork of a coded file, or of a parity file, as they were coded; zeros where the
    /// fork had none. They may be others than the fork's: what was written since is not in rows.
    ///
    /// Cost: k messages at once for each part of 1 MiB, each as long as what is read of it.
    /// # Errors
    /// Why they cannot be computed, in words.
    pub(in crate::io) async fn read(
        &self,
        key: &ForkKey,
        range: Range<u64>,
    ) -> Result<Vec<u8>, String> {
        let rows = self.of(key.file.0).await?;
        let mut data = Vec::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / PART_BYTES + 1) * PART_BYTES);
            let place = (key.cell.0, key.fork.as_str());
            match rows.find(key.file.0, place, at) {
                Some((row, piece)) => {
                    let bytes = at % PART_BYTES..at % PART_BYTES + (end - at);
                    data.extend(self.compute(&rows, row, piece, bytes).await?);
                }
                None => data.resize(data.len() + (end - at) as usize, 0),
            }
            at = end;
        }
        Ok(data)
    }

    /// How a file, or the file that a parity file belongs to, is coded now.
    async fn of(&self, file: u64) -> Result<Arc<FileRows>, String> {
        let found = self.peers.ask_meta(&FindCodingRequest { file }).await;
        let found = found.map_err(|e| format!("the metadata service: {e}"))?;
        let not_coded = || "the file is not coded any more".to_owned();
        let state = found.state.ok_or_else(not_coded)?;
        let coding = state.coded.as_ref().ok_or_else(not_coded)?;
        let id = (state.file, coding.checkpoint);
        {
            let mut known = self.known.lock();
            if let Some(at) = known.iter().position(|(known, _)| *known == id)
                && let Some(found) = known.remove(at)
            {
                known.push_back(found.clone());
                return Ok(found.1);
            }
        }
        let rows = Arc::new(FileRows::load(&self.peers, &state, coding).await?);
        let mut known = self.known.lock();
        known.push_back((id, rows.clone()));
        if known.len() > CODED_FILES_KNOWN {
            known.pop_front();
        }
        Ok(rows)
    }

    /// Bytes of a piece of a row from the same bytes of others.
    async fn compute(
        &self,
        rows: &FileRows,
        row: u64,
        wanted: usize,
        bytes: Range<u64>,
    ) -> Result<Vec<u8>, String> {
        let (length, all) = (bytes.end - bytes.start, rows.pieces(row));
        let mut pieces: Vec<Vec<u8>> = vec![vec![0; length as usize]; all.len()];
        let mut there = vec![false; all.len()];
        let mut left = VecDeque::new();
        for (number, piece) in all.iter().enumerate() {
            match piece {
                _ if number == wanted => {}
                // It counts as zeros.
                None => there[number] = true,
                Some(piece) => left.push_back((number, piece)),
            }
        }
        let (needed, mut asked) = (rows.code().shape().data() as usize, FuturesUnordered::new());
        let (mut known, mut reasons) = (there.iter().filter(|there| **there).count(), Vec::new());
        while known < needed {
            while known + asked.len() < needed
                && let Some((number, piece)) = left.pop_front()
            {
                asked.push(async move {
                    let read = read_piece(&self.peers, piece, bytes.start, length).await;
                    (number, read)
                });
            }
            match asked.next().await {
                Some((number, Ok(data))) => {
                    (pieces[number], there[number]) = (data, true);
                    known += 1;
                }
                Some((_, Err(reason))) => reasons.push(reason),
                None => break,
            }
        }
        drop(asked);
        let done = rows.code().complete(&mut pieces, &there);
        done.map_err(|error| {
            let reasons = reasons.join("; ");
            let gap = if reasons.is_empty() { "" } else { ": " };
            format!("{error}{gap}{reasons}")
        })?;
        Ok(pieces.swap_remove(wanted))
    }
}
