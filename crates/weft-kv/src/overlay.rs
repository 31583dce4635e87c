//! The uncommitted writes of one transaction, laid over a consistent state.
//!
//! Both engines use it, so a transaction reads its writes in the same way on either. An engine only
//! has to read a state and apply the changes that [`Overlay::into_changes`] yields: at most one per
//! key, in key order per space.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::KvError;
use crate::traits::{Batch, Reader, Space, Transaction};

type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Writes that are not committed yet; the last one on a key counts.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    // There are a handful of spaces: searching a short list beats hashing.
    spaces: Vec<(Space, Changes)>,
}

impl Overlay {
    pub(crate) fn from_batch(batch: Batch) -> Overlay {
        let mut overlay = Overlay::default();
        for (space, key, value) in batch.changes {
            overlay.of_mut(space).insert(key, value);
        }
        overlay
    }

    /// The writes of a transaction whose reads see `base` below them.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn of_transaction<R: Reader>(
        base: R,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<Overlay, KvError> {
        let mut layered = Layered {
            overlay: Overlay::default(),
            base,
        };
        work(&mut layered)?;
        Ok(layered.overlay)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spaces.iter().all(|(_, changes)| changes.is_empty())
    }

    pub(crate) fn into_changes(self) -> impl Iterator<Item = (Space, Vec<u8>, Option<Vec<u8>>)> {
        self.spaces.into_iter().flat_map(|(space, changes)| {
            changes
                .into_iter()
                .map(move |(key, value)| (space, key, value))
        })
    }

    fn of(&self, space: Space) -> Option<&Changes> {
        let found = self.spaces.iter().find(|(name, _)| *name == space);
        found.map(|(_, changes)| changes)
    }

    fn of_mut(&mut self, space: Space) -> &mut Changes {
        let at = self.spaces.iter().position(|(name, _)| *name == space);
        let at = at.unwrap_or_else(|| {
            self.spaces.push((space, Changes::new()));
            self.spaces.len() - 1
        });
        &mut self.spaces[at].1
    }
}

/// A transaction: an overlay and the state below it.
struct Layered<R> {
    overlay: Overlay,
    base: R,
}

impl<R: Reader> Reader for Layered<R> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        match self.overlay.of(space).and_then(|changes| changes.get(key)) {
            Some(value) => Ok(value.clone()),
            None => self.base.get(space, key),
        }
    }

    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError> {
        if is_empty_range(from, to) {
            return Ok(());
        }
        let Some(changes) = self.overlay.of(space) else {
            return self.base.scan(space, from, to, visit);
        };
        let mut ours = changes.range::<[u8], _>((from, to)).peekable();
        let mut stopped = false;
        self.base.scan(space, from, to, &mut |key, value| {
            while let Some((our_key, our_value)) = ours.next_if(|(k, _)| k.as_slice() <= key) {
                let replaces = our_key.as_slice() == key;
                if let Some(our_value) = our_value
                    && visit(our_key, our_value).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
                if replaces {
                    return ControlFlow::Continue(());
                }
            }
            let flow = visit(key, value);
            stopped = flow.is_break();
            flow
        })?;
        if stopped {
            return Ok(());
        }
        for (key, value) in ours {
            if let Some(value) = value
                && visit(key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

impl<R: Reader> Transaction for Layered<R> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        let changes = self.overlay.of_mut(space);
        changes.insert(key.to_vec(), Some(value.to_vec()));
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        self.overlay.of_mut(space).insert(key.to_vec(), None);
    }
}

/// True where no key can lie between the bounds; `BTreeMap::range` panics on such bounds.
pub(crate) fn is_empty_range(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
    }
}
