//! Where a file's bytes lie, what they are if they lie with the metadata, and whether that is
//! certain.
//!
//! Another client may store other content for an inline file. So the content is *doubtful* after an
//! invalidation, until an answer that was asked for later confirms or replaces it. An answer counts
//! only if this cache has not changed the content since it was asked for.

use bytes::Bytes;
use weft_client::Attributes;

use crate::data::clock::{Clock, Moment};

/// Where the bytes lie.
#[derive(Debug)]
pub(in crate::data) enum Location {
    /// In the file's cells.
    Cells,
    /// With the metadata: all of them.
    Inline(Bytes),
    /// With the metadata, and on their way to the cells.
    Moving(Bytes),
}

/// An answer about where the bytes lie, and what it changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// Nothing: this cache has changed the content since the answer was asked for.
    Outdated,
    /// The bytes were in the cells already.
    InCells,
    /// They are inline, this many.
    Inline(u64),
    /// Another client has moved them to the cells.
    MovedToCells,
}

/// The location, and how certain it is.
#[derive(Debug)]
pub(super) struct Content {
    location: Location,
    /// When this mount last stored or truncated the content.
    changed: Moment,
    /// When the latest answer about it was asked for.
    asked: Moment,
    /// When it last became doubtful.
    doubted: Moment,
    /// The service's attributes after the store of all bytes as of this time of writing.
    stored: Option<(i64, Attributes)>,
}

impl Content {
    pub(super) fn new(inline: Option<Bytes>) -> Content {
        Content {
            location: inline.map_or(Location::Cells, Location::Inline),
            changed: Moment::default(),
            asked: Moment::default(),
            doubted: Moment::default(),
            stored: None,
        }
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    pub(super) fn is_in_cells(&self) -> bool {
        matches!(self.location, Location::Cells)
    }

    /// Whether another client may have changed the content of an inline file.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubted > self.asked && !self.is_in_cells()
    }

    /// Whether this mount has ever changed it.
    pub(super) fn was_changed(&self) -> bool {
        self.changed != Moment::default()
    }

    pub(super) fn doubt(&mut self, clock: &Clock) {
        self.doubted = clock.tick();
    }

    /// Takes an answer that was asked for at this moment: the content, or that it is in the cells.
    pub(super) fn learn(&mut self, asked: Moment, inline: Option<Bytes>) -> Learned {
        // The service may have answered before it had what was stored since.
        if self.changed > asked {
            return Learned::Outdated;
        }
        self.asked = self.asked.max(asked);
        let (Location::Inline(content) | Location::Moving(content)) = &mut self.location else {
            return Learned::InCells;
        };
        if let Some(now) = inline {
            let length = now.len() as u64;
            *content = now;
            return Learned::Inline(length);
        }
        self.location = Location::Cells;
        Learned::MovedToCells
    }

    /// The bytes begin to move to the cells; only if they are inline.
    pub(super) fn begin_move(&mut self) {
        if let Location::Inline(content) = &self.location {
            self.location = Location::Moving(content.clone());
        }
    }

    /// The move has ended; a failed one leaves the bytes where they were.
    pub(super) fn end_move(&mut self, moved: bool) {
        if let Location::Moving(content) = &self.location {
            self.location = if moved {
                Location::Cells
            } else {
                Location::Inline(content.clone())
            };
        }
    }

    /// The bytes are in the cells; false if they were before.
    pub(super) fn set_in_cells(&mut self) -> bool {
        let moved = !self.is_in_cells();
        self.location = Location::Cells;
        moved
    }

    /// All content was stored by a call that began at this moment.
    pub(super) fn stored(
        &mut self,
        content: &Bytes,
        written: i64,
        attributes: Attributes,
        began: Moment,
        clock: &Clock,
    ) {
        self.stored = Some((written, attributes));
        self.changed = clock.tick();
        if matches!(self.location, Location::Inline(_)) {
            self.location = Location::Inline(content.clone());
            if self.asked > began {
                // Another client may have stored after this, and an answer have shown it already.
                self.doubted = clock.tick();
            }
        }
    }

    /// The file was truncated by an attachment of this cache, whose bytes are `inline` since.
    pub(super) fn truncated_here(&mut self, size: u64, inline: bool, clock: &Clock) {
        self.changed = clock.tick();
        if let Location::Inline(content) = &self.location {
            self.location = if inline {
                let mut content = Vec::from(content.clone());
                content.resize(size as usize, 0);
                Location::Inline(content.into())
            } else {
                Location::Cells
            };
        }
    }

    /// The file was truncated by another call, which may have moved it to the cells.
    pub(super) fn truncated_elsewhere(&mut self, clock: &Clock) {
        self.changed = clock.tick();
        if matches!(self.location, Location::Inline(_)) {
            self.doubted = clock.tick();
        }
    }

    /// Forgets the attributes of earlier stores.
    pub(super) fn forget_stored(&mut self) {
        self.stored = None;
    }

    /// The attributes of the store of all bytes as of this time of writing; once.
    pub(super) fn take_stored(&mut self, written: i64) -> Option<Attributes> {
        let stored = self.stored.take();
        stored
            .filter(|stored| stored.0 == written)
            .map(|stored| stored.1)
    }
}
