//! Copying between files, by the servers.
//!
//! Each does it alone when the grids have the same cells and BSUs, the distance is a whole number
//! of BSUs, and every cell's server is that of the cell where its BSUs arrive; equal layouts and a
//! distance of whole rows are such a case. Else servers send each other what they have. What is
//! short, or of servers that do not reach each other, is read and written here, several windows at
//! a time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{self, TryStreamExt};
use tokio::time::Instant;
use weft_layout::{CellIndex, FileOffset, Layout, Map, Request, ServerId, ServerSlot, ViewOffset};
use weft_proto::io::{Access, CopyRangeRequest, SendRangeReply, SendRangeRequest};
use weft_proto::{Code, limits};

use crate::volume::Repeat;
use crate::{Error, File, OpenView};

/// Bytes that one call to a server copies: some seconds of its disk.
const SERVER_PART: u64 = 256 << 20;
/// Bytes read and written at a time when they go through this process.
const WINDOW: u64 = 1 << 20;
/// Windows of a stretch of data under way at once, and stretches: 8 MiB of memory for one, 64 MiB
/// for as many long ones.
const DEPTH: usize = 8;
/// Shorter stretches of data go through this process: two requests for each server, too, and one
/// way less.
const SEND_MIN: u64 = 256 << 10;
/// How long servers that were found not to reach each other are not asked to.
const APART: Duration = Duration::from_mins(1);

impl File {
    /// Copies bytes of `from`, as far as it reaches, to this file, both in canonical order. Returns
    /// how many. Holes stay holes, in blocks of 4 KiB.
    ///
    /// Cost: one request to each server of `from` for its size; then one to each for every 256 MiB
    /// of its own, where servers can copy alone, or for each stretch of data between holes, of 1
    /// GiB at most, where they send. Stretches of less than 256 KiB, and all if servers do not
    /// reach each other, cost two for each server and MiB, eight MiB of a stretch at a time.
    /// # Durability
    /// As [`OpenView::write_at`].
    /// # Errors
    /// `Invalid` when both ranges are of one file and overlap. [`Error::MayHaveHappened`] when a
    /// server was lost: any part of the bytes may have been copied.
    /// # Cancellation
    /// Dropped, any part of the bytes may have been copied.
    pub async fn copy_range(
        &self,
        from: &File,
        from_offset: FileOffset,
        to_offset: FileOffset,
        length: u64,
    ) -> Result<u64, Error> {
        self.needs_write("copy to")?;
        self.commit().await?;
        let length = from.size().await?.saturating_sub(from_offset.0).min(length);
        if length == 0 {
            return Ok(0);
        }
        if from.id() == self.id() && from_offset.0.abs_diff(to_offset.0) < length {
            let what = format!("copy within {}", self.path());
            return Err(Error::invalid(what, "the two ranges overlap"));
        }
        let copy = Copy {
            from: from.canonical()?,
            to: self.canonical()?,
        };
        // Both ends are legal before anything is copied.
        copy.to.map.slots(&contiguous(to_offset.0, length))?;
        let copied = if meet(from.layout(), self.layout(), from_offset.0, to_offset.0) {
            copy.by_servers(from_offset.0, to_offset.0, length).await
        } else {
            copy.data_by_data(from_offset.0, to_offset.0, length).await
        };
        // Even a failed copy may have moved the end of the file.
        self.note_write(copied.is_ok().then_some(to_offset.0 + length));
        copied.map(|()| length)
    }
}

fn contiguous(offset: u64, length: u64) -> Request {
    Request::Contiguous {
        offset: ViewOffset(offset),
        length,
    }
}

/// Whether every byte and the place that it goes to lie on the same server, whatever the length.
fn meet(from: &Layout, to: &Layout, from_offset: u64, to_offset: u64) -> bool {
    let (bsu, cells) = (from.bsu(), from.cells());
    let same = bsu == to.bsu()
        && cells == to.cells()
        && from.servers().len() == to.servers().len()
        && from_offset % bsu == to_offset % bsu;
    // A server that a layout names twice would have two slots' pieces, in no order of their own.
    let mut servers = from.servers().to_vec();
    servers.sort_unstable();
    let distinct = servers.windows(2).all(|pair| pair[0] != pair[1]);
    let cells = u64::from(cells);
    let cell_of = |offset: u64| offset / bsu % cells;
    let shift = cells + cell_of(to_offset) - cell_of(from_offset);
    let arrives = |cell: u64| CellIndex(((cell + shift) % cells) as u32);
    same && distinct
        && (0..cells)
            .all(|cell| from.server_of(CellIndex(cell as u32)) == to.server_of(arrives(cell)))
}

/// Copies the first bytes of a view to those of another, both of files that have one server only,
/// and the same. Holes stay holes.
pub(crate) async fn copy_there(from: &OpenView, to: &OpenView, length: u64) -> Result<(), Error> {
    let (source, target) = (&from.file.0, &to.file.0);
    let server = source.layout.servers()[0];
    let what = format!("copy from {} to {}", source.path, target.path);
    let mut done = 0;
    while done < length {
        let now = SERVER_PART.min(length - done);
        let request = CopyRangeRequest {
            from: access(from, done, now, ServerSlot(0))?,
            to: access(to, done, now, ServerSlot(0))?,
            chunk: target.layout.chunk_code(),
        };
        // Not repeated: one that is on its way still may come when the source is gone, and copy
        // that.
        let reply = to.file.change(&what, server, &request, Repeat::Unsafe);
        all_copied(&what, server, reply.await?.bytes, now)?;
        done += now;
    }
    Ok(())
}

/// A copy under way.
struct Copy {
    from: OpenView,
    to: OpenView,
}

impl Copy {
    async fn by_servers(&self, from: u64, to: u64, length: u64) -> Result<(), Error> {
        let part = SERVER_PART.saturating_mul(u64::from(self.from.map.grid().servers()));
        let mut done = 0;
        while done < length {
            let now = part.min(length - done);
            let request = contiguous(from + done, now);
            let slots = self.from.map.slots(&request)?;
            let copies = slots
                .iter()
                .map(|slot| self.on_server(*slot, from + done, to + done, now));
            try_join_all(copies).await?;
            done += now;
        }
        Ok(())
    }

    /// Copies what one server has of the range.
    async fn on_server(&self, slot: ServerSlot, from: u64, to: u64, now: u64) -> Result<(), Error> {
        let (source, target) = (&self.from.file.0, &self.to.file.0);
        let server = source.layout.servers()[slot.0 as usize];
        let place = target.layout.servers().iter().position(|s| *s == server);
        let place = place.expect("the layouts were found to name the same servers");
        let request = CopyRangeRequest {
            from: access(&self.from, from, now, slot)?,
            to: access(&self.to, to, now, ServerSlot(place as u32))?,
            chunk: target.layout.chunk_code(),
        };
        let what = format!("copy from {} to {}", source.path, target.path);
        let reply = self.to.file.change(&what, server, &request, Repeat::Unsafe);
        let bytes = reply.await?.bytes;
        all_copied(
            &what,
            server,
            bytes,
            bytes_of(&self.from.map, from, now, slot),
        )
    }

    /// Holes are made, and data is copied from each hole to the next, some at a time.
    async fn data_by_data(&self, from: u64, to: u64, length: u64) -> Result<(), Error> {
        let end = from + length;
        let ranges = self.from.file.data_ranges(FileOffset(from), 0);
        let stretches = stream::try_unfold((ranges, from), |(mut ranges, at)| async move {
            if at >= end {
                return Ok::<_, Error>(None);
            }
            let found = ranges.next().await?;
            let data = found.map_or(end..end, |r| r.start.clamp(at, end)..r.end.clamp(at, end));
            let next = data.end;
            Ok(Some(((at, data), (ranges, next))))
        });
        let written = AtomicU64::new(from);
        let copied = stretches.try_for_each_concurrent(DEPTH, |(at, data)| {
            let written = &written;
            async move {
                if at < data.start {
                    let hole = data.start - at;
                    self.to.clear(ViewOffset(at - from + to), hole).await?;
                }
                if !data.is_empty() {
                    self.data(data.start, data.start - from + to, data.end - data.start)
                        .await?;
                    written.fetch_max(data.end, Relaxed);
                }
                Ok(())
            }
        });
        copied.await?;
        if written.into_inner() < end {
            self.to.file.extend(to + length).await?;
        }
        Ok(())
    }

    /// Copies bytes that hold data.
    async fn data(&self, from: u64, to: u64, length: u64) -> Result<(), Error> {
        let apart = &self.to.file.0.volume.shared.apart;
        let servers = u64::from(self.from.map.grid().servers());
        let part = (SERVER_PART * servers).min(limits::TRANSFER_MAX);
        let mut done = 0;
        while done < length {
            let now = part.min(length - done);
            let tried = apart.lock().is_some_and(|when| when.elapsed() < APART);
            if now < SEND_MIN || tried {
                return self
                    .through_here(from + done, to + done, length - done)
                    .await;
            }
            let slots = self.from.map.slots(&contiguous(from + done, now))?;
            let sends = slots
                .iter()
                .map(|slot| self.sent_by(*slot, from + done, to + done, now));
            // All of them, whatever becomes of one: what a server still sends must not come after
            // what is written from here.
            let sent = join_all(sends).await;
            let (mut all, mut failed) = (true, None);
            for error in sent.into_iter().filter_map(Result::err) {
                all = false;
                let refused = matches!(error, Error::Refused { .. });
                if !refused || error.code() != Code::Unavailable {
                    failed = Some(error);
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if all {
                done += now;
            } else {
                *apart.lock() = Some(Instant::now());
            }
        }
        Ok(())
    }

    /// Has one server send what it has of a range.
    async fn sent_by(&self, slot: ServerSlot, from: u64, to: u64, now: u64) -> Result<(), Error> {
        let (source, target) = (&self.from.file.0, &self.to.file.0);
        let server = source.layout.servers()[slot.0 as usize];
        let request = SendRangeRequest {
            from: access(&self.from, from, now, slot)?,
            to: access(&self.to, to, now, ServerSlot(0))?,
            chunk: target.layout.chunk_code(),
            servers: target.layout.servers().iter().map(|s| s.0).collect(),
        };
        let what = format!("copy from {} to {}", source.path, target.path);
        let reply = source.volume.io(&what, server, &request, Repeat::Unsafe);
        let SendRangeReply { bytes, written } = reply.await?;
        target.volume.shared.unsynced.note_all(target.id, &written);
        all_copied(
            &what,
            server,
            bytes,
            bytes_of(&self.from.map, from, now, slot),
        )
    }

    /// Reads and writes bytes, in windows that end where blocks of the target do.
    async fn through_here(&self, from: u64, to: u64, length: u64) -> Result<(), Error> {
        let mut done = 0;
        let windows = std::iter::from_fn(|| {
            let now = (WINDOW - (to + done) % WINDOW).min(length - done);
            let window = (done, now);
            done += now;
            (now > 0).then_some(Ok(window))
        });
        stream::iter(windows)
            .try_for_each_concurrent(DEPTH, |(at, now)| self.window(from + at, to + at, now))
            .await
    }

    async fn window(&self, from: u64, to: u64, length: u64) -> Result<(), Error> {
        // What lies beyond the end of its cell is not moved, and zeros.
        let mut buffer = vec![0; length as usize];
        self.from.read_at(ViewOffset(from), &mut buffer).await?;
        self.to.write_at(ViewOffset(to), buffer.into()).await?;
        Ok(())
    }
}

fn all_copied(what: &str, server: ServerId, bytes: u64, expected: u64) -> Result<(), Error> {
    if bytes == expected {
        return Ok(());
    }
    Err(Error::Protocol {
        what: format!("{what} on server {server}"),
        reason: format!("the server copied {bytes} of {expected} bytes"),
    })
}

fn access(view: &OpenView, offset: u64, length: u64, slot: ServerSlot) -> Result<Access, Error> {
    let pattern = view.pattern(&contiguous(offset, length))?;
    Ok(view.access(&pattern, slot))
}

fn bytes_of(map: &Map, offset: u64, length: u64, slot: ServerSlot) -> u64 {
    let (grid, end) = (map.grid(), offset + length);
    let cells = grid.cells_on(slot);
    let bytes = cells.map(|c| grid.cell_length(end, c) - grid.cell_length(offset, c));
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{LayoutSpec, ServerId, Storage};

    fn layout(cells: u32, servers: &[u32]) -> Layout {
        let spec = LayoutSpec {
            cells,
            bsu: 10,
            chunk: 4096,
            servers: servers.iter().map(|s| ServerId(*s)).collect(),
            storage: Storage::Plain,
        };
        Layout::new(spec).unwrap()
    }

    #[test]
    fn a_server_copies_alone_if_every_byte_stays_on_it() {
        let (plain, turned) = (layout(3, &[5, 6, 7]), layout(3, &[6, 7, 5]));
        assert!(meet(&plain, &plain, 7, 37));
        assert!(!meet(&plain, &plain, 7, 17));
        assert!(!meet(&plain, &plain, 7, 38));
        // The base of `turned` is one server further, so its bytes must be one BSU earlier.
        assert!(meet(&plain, &turned, 15, 5));
        assert!(meet(&plain, &turned, 5, 25));
        assert!(!meet(&plain, &turned, 0, 0));
        assert!(!meet(&plain, &layout(4, &[5, 6, 7]), 0, 0));
        // Seven cells do not divide evenly among three servers: bytes of the last cell move.
        let odd = layout(7, &[5, 6, 7]);
        assert!(meet(&odd, &odd, 0, 70));
        assert!(!meet(&odd, &odd, 0, 30));
    }
}
