//! A view onto an attached file, with an offset pointer.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use weft_layout::{CellIndex, Map, OFFSET_MAX, Request, ServerSlot, View, ViewOffset};
use weft_proto::io::{Access, Grid, Pattern, View as WireView};

use super::span::{Durability, Source, Target};
use crate::names::Cells;
use crate::{Error, File};

/// An open view. Several views of one file may be open at once; each has its own pointer.
pub struct OpenView {
    pub(crate) file: File,
    pub(crate) map: Map,
    pub(crate) fork: String,
    /// 0: the file as it is.
    pub(crate) checkpoint: u64,
    /// What the servers note as the time of writes; 0: when they arrive.
    written: i64,
    /// Reads put zeros where the file has no bytes.
    zeros: bool,
    position: AtomicU64,
}

impl File {
    /// Opens a view onto the `data` forks. Local: no message.
    pub fn view(&self, view: View) -> Result<OpenView, Error> {
        self.view_of_fork(view, "data")
    }

    /// Opens a view onto the forks of this name. Local: no message.
    ///
    /// # Errors
    /// [`Error::Inline`] while the file's bytes lie with its metadata ([`File::inline_data`]).
    pub fn view_of_fork(&self, view: View, fork: &str) -> Result<OpenView, Error> {
        self.needs_cells()?;
        Ok(OpenView::new(
            self.clone(),
            Map::new(self.0.layout.grid(), view)?,
            fork,
        ))
    }

    /// The whole file in canonical order. Local: no message.
    pub fn canonical(&self) -> Result<OpenView, Error> {
        self.view(View::canonical())
    }
}

impl OpenView {
    pub(crate) fn new(file: File, map: Map, fork: &str) -> OpenView {
        OpenView {
            checkpoint: file.0.cells.checkpoint,
            file,
            map,
            fork: fork.to_owned(),
            written: 0,
            zeros: false,
            position: AtomicU64::new(0),
        }
    }

    /// The same view with a pointer of its own, at byte 0. Local: no message.
    #[must_use]
    pub fn another(&self) -> OpenView {
        let view = OpenView::new(self.file.clone(), self.map, &self.fork);
        OpenView {
            checkpoint: self.checkpoint,
            written: self.written,
            zeros: self.zeros,
            ..view
        }
    }

    /// Reads of this view put zeros where the file has no bytes: in ghosts, and beyond the end of a
    /// cell. Such bytes are still not counted as moved. Without this, memory keeps what it had.
    ///
    /// Cost: none where the file has all the bytes; else a walk over the request's pieces, and over
    /// all of its memory if the view has ghosts.
    #[must_use]
    pub fn zeroed(self) -> OpenView {
        OpenView {
            zeros: true,
            ..self
        }
    }

    /// Whether reads put zeros where the file has no bytes.
    pub(crate) fn is_zeroed(&self) -> bool {
        self.zeros
    }

    /// What [`OpenView::written_at`] has set.
    pub(super) fn time_written(&self) -> Option<i64> {
        Some(self.written).filter(|time| *time != 0)
    }

    /// Writes through this view count as of this time, in nanoseconds since the epoch, and not as
    /// of their arrival: for bytes that were written before the file's time of modification was
    /// set. For plain files, and calls that are not cautious.
    #[must_use]
    pub fn written_at(mut self, time: i64) -> OpenView {
        self.written = time;
        self
    }

    /// The file below.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The view's parameters.
    pub fn view(&self) -> &View {
        self.map.view()
    }

    /// The checked mapping of the view.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Reads view bytes `offset..` into `buffer`; one request to each server that holds pieces.
    ///
    /// Ghosts, and holes beyond their cell's end, leave the buffer as it was and count nothing;
    /// holes before it are zeros and count. So the count is not always a prefix: a caller that
    /// wants zeros there clears the buffer first.
    ///
    /// Returns the number of bytes moved.
    /// # Cancellation
    /// Dropped, the servers stop; the buffer may be partly filled.
    /// # Source
    /// Vesta §3.2.
    pub async fn read_at(&self, offset: ViewOffset, buffer: &mut [u8]) -> Result<u64, Error> {
        let request = Request::Contiguous {
            offset,
            length: buffer.len() as u64,
        };
        Ok(self
            .read_request(&request, Target::Packed(buffer))
            .await?
            .bytes)
    }

    /// Writes `data` at view bytes `offset..`; one request to each server that holds pieces. Ghosts
    /// swallow their bytes and count nothing.
    ///
    /// Returns the number of bytes moved.
    /// # Durability
    /// On return the bytes survive the death of any server's process; [`File::sync`] makes them
    /// survive power loss.
    /// # Errors
    /// [`Error::MayHaveHappened`] when a server was lost: any part of the bytes may have been
    /// written.
    /// # Cancellation
    /// Dropped, any part of the bytes may have been written.
    pub async fn write_at(&self, offset: ViewOffset, data: Bytes) -> Result<u64, Error> {
        self.write_contiguous(offset, Source::Packed(data), Durability::Process)
            .await
    }

    /// As [`OpenView::write_at`], and on return the bytes survive power loss; still one request to
    /// each server.
    pub async fn write_at_synced(&self, offset: ViewOffset, data: Bytes) -> Result<u64, Error> {
        self.write_contiguous(offset, Source::Packed(data), Durability::Power)
            .await
    }

    pub(crate) async fn write_contiguous(
        &self,
        offset: ViewOffset,
        source: Source,
        durability: Durability,
    ) -> Result<u64, Error> {
        let request = Request::Contiguous {
            offset,
            length: source.len(),
        };
        self.write_request(&request, source, durability, false)
            .await
    }

    /// Reads at the view's pointer and advances it by the buffer's length, at the start of the
    /// operation.
    pub async fn read(&self, buffer: &mut [u8]) -> Result<u64, Error> {
        let at = self.advance(buffer.len() as u64);
        self.read_at(at, buffer).await
    }

    /// Writes at the view's pointer and advances it by the data's length, at the start of the
    /// operation.
    pub async fn write(&self, data: Bytes) -> Result<u64, Error> {
        let at = self.advance(data.len() as u64);
        self.write_at(at, data).await
    }

    /// Moves the pointer on, to the largest offset at most; where it was.
    pub(crate) fn advance(&self, by: u64) -> ViewOffset {
        let moved = |at: u64| Some(at.saturating_add(by).min(OFFSET_MAX));
        let was = (self.position).fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
        ViewOffset(was.unwrap_or_else(|at| at))
    }

    /// Moves the view's pointer. Local.
    pub fn seek(&self, to: ViewOffset) {
        self.position.store(to.0, Ordering::Release);
    }

    /// Where the view's pointer is.
    pub fn position(&self) -> ViewOffset {
        ViewOffset(self.position.load(Ordering::Acquire))
    }

    /// One past the last view byte that holds data: one request to each server of the file.
    ///
    /// # Errors
    /// Refused with [`weft_proto::Code::Lost`] where a server is in doubt of how much it had, and
    /// the file's size does not say.
    pub async fn size(&self) -> Result<u64, Error> {
        self.file.commit().await?;
        let a = &self.file.0;
        let cells = Cells {
            checkpoint: self.checkpoint,
            ..a.cells
        };
        let what = format!("size of a view of {}", a.path);
        let states = a
            .volume
            .fork_states(&what, cells, &a.layout, &self.fork)
            .await?;
        let forks = states.forks;
        let mut least = 0;
        if states.doubted {
            if self.fork != "data" || self.checkpoint != a.cells.checkpoint {
                return Err(Error::end_in_doubt(what));
            }
            let (size, grid) = (self.file.stat().await?.size, a.layout.grid());
            let cells = (0..grid.cells()).map(CellIndex);
            let extents = cells.map(|cell| self.map.extent(cell, grid.cell_length(size, cell)));
            least = extents.max().unwrap_or(0);
        }
        let extent = |f: &crate::Fork| self.map.extent(CellIndex(f.cell), f.length);
        Ok(forks
            .iter()
            .filter(|f| f.cell < a.layout.cells())
            .map(extent)
            .max()
            .unwrap_or(0)
            .max(least))
    }

    pub(crate) fn access(&self, pattern: &Pattern, slot: ServerSlot) -> Access {
        Access {
            file: self.file.0.cells.file,
            grid: Grid::from(self.map.grid()),
            view: WireView::from(self.map.view()),
            pattern: pattern.clone(),
            slot: slot.0,
            fork: self.fork.clone(),
            epoch: self.file.0.volume.shared.servers.epoch(),
            checkpoint: self.checkpoint,
        }
    }

    pub(crate) fn pattern(&self, request: &Request) -> Result<Pattern, Error> {
        Pattern::from_request(request, !self.map.rearranges())
            .map_err(|e| Error::of_convert("send a request", &e))
    }

    pub(crate) fn what(&self, doing: &str) -> String {
        format!("{doing} {}", self.file.0.path)
    }
}
