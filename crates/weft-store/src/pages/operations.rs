//! Disk writes of pages: slices for consecutive places become one operation.

use std::sync::Arc;

use super::page::Page;
use crate::limits::OPERATION_BLOCKS;
use crate::pool::{BLOCK, Slice};
use crate::record::Place;

/// Disk writes, each of slices for consecutive places.
#[derive(Default)]
pub(crate) struct Operations(Vec<(Place, u32, Vec<Slice>)>);

impl Operations {
    /// Adds the blocks of `page` from `first` on that lie at `places`.
    pub(crate) fn add(&mut self, page: &Page, first: u32, places: impl Iterator<Item = Place>) {
        for (i, place) in (0_u32..).zip(places) {
            let at = page.at((first + i) % 16);
            if let Some((start, blocks, slices)) = self.0.last_mut()
                && *blocks < OPERATION_BLOCKS
                && start.plus(*blocks) == place
            {
                *blocks += 1;
                match slices.last_mut() {
                    Some(last) if last.continues_at(page.buffer(), at) => last.grow(BLOCK),
                    _ => slices.push(Slice::new(Arc::clone(page.buffer()), at..at + BLOCK)),
                }
                continue;
            }
            let slice = Slice::new(Arc::clone(page.buffer()), at..at + BLOCK);
            self.0.push((place, 1, vec![slice]));
        }
    }

    /// The operations: first place, blocks, bytes.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (Place, u32, Vec<Slice>)> {
        self.0.into_iter()
    }
}
