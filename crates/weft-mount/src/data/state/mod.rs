//! All that is known of an open file, under one lock that is never held across an await.
//!
//! Each concern has a struct with private fields: dirty bytes (`write_back`), where the bytes lie
//! (`content`), the size (`size`), what is synced (`durability`), lost writes (`failures`), and the
//! opens with their read-ahead (`opens`, `streams`, `prefetch`). [`FileState`] composes them; the
//! rules that touch several are in `writes`, `reads` and `reports`. Nothing else sees two concerns
//! at once.

mod content;
mod durability;
mod failures;
mod opens;
mod prefetch;
mod reads;
mod reports;
mod size;
mod streams;
mod write_back;
mod writes;

use std::sync::Arc;

use weft_client::File;

use content::Content;
use durability::Durability;
use failures::Failures;
use opens::Opens;
use size::KnownSize;
use write_back::WriteBack;

use super::budget::DirtyBudget;

pub(super) use prefetch::{FetchedRange, PrefetchedRange};
pub(super) use reads::{Below, Layers};
pub(super) use reports::Report;
pub(super) use size::SizeQueryTicket;
pub(super) use writes::{InlineStep, Transfer, Truncated};

/// The state of an open file.
pub(super) struct FileState {
    write_back: WriteBack,
    content: Content,
    size: KnownSize,
    durability: Durability,
    opens: Opens,
    failures: Failures,
}

impl FileState {
    /// Of a file that was just attached; `strict`: writes go through, and nothing is kept inline.
    pub(super) fn new(file: &File, strict: bool, budget: Arc<DirtyBudget>) -> FileState {
        let attributes = file.attributes();
        let exact = (attributes.size_exact || file.created()).then_some(attributes.size);
        let inline = file.inline_data().filter(|_| !strict);
        let mut size = KnownSize::new(exact);
        if let Some(content) = &inline {
            size.set_end(content.len() as u64);
        }
        FileState {
            write_back: WriteBack::new(budget),
            content: Content::new(inline),
            size,
            durability: Durability::new(file.created()),
            opens: Opens::default(),
            failures: Failures::default(),
        }
    }

    pub(super) fn is_in_cells(&self) -> bool {
        self.content.is_in_cells()
    }

    /// Whether another client may have changed the content of an inline file.
    pub(super) fn is_doubtful(&self) -> bool {
        self.content.is_doubtful()
    }

    /// Whether no batch is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.write_back.is_idle()
    }

    /// Whether everything that was written before this epoch has left the cache.
    pub(super) fn is_flushed_to(&self, epoch: u64) -> bool {
        self.write_back.is_flushed_to(epoch)
    }

    /// Whether this mount has changed the file's bytes.
    pub(super) fn was_changed(&self) -> bool {
        self.opens.written() != 0 || self.content.was_changed()
    }
}
