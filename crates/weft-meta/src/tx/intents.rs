//! Adding and removing intents.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use super::transaction::Tx;
use crate::error::MetaError;
use crate::intents::is_tree;
use crate::records::keys::{self, INTENTS};
use crate::records::record::IntentRecord;

impl Tx<'_, '_> {
    /// Adds an intent. Returns its number.
    pub(crate) fn add_intent(&mut self, intent: &IntentRecord) -> Result<u64, MetaError> {
        let counters = self.counters()?;
        let number = counters.next_intent;
        counters.next_intent += 1;
        counters.intents += 1;
        self.put(INTENTS, &number.to_be_bytes(), intent);
        Ok(number)
    }

    /// Removes an intent that is completed or cancelled.
    pub(crate) fn complete_intent(&mut self, number: u64) -> Result<(), MetaError> {
        self.delete(keys::INTENTS, &number.to_be_bytes());
        // A damaged counter must not block the completion: a check reports it.
        let counters = self.counters()?;
        counters.intents = counters.intents.saturating_sub(1);
        Ok(())
    }

    /// Removes other intents of files that get a delete: nothing else about them matters any more,
    /// and an intent that a server refuses must not block the delete.
    ///
    /// Cost: a scan of all intents.
    pub(crate) fn supersede(&mut self, files: &BTreeSet<u64>) -> Result<(), MetaError> {
        let oldest = self.state().oldest_intent().get();
        let (mut found, start) = (Vec::new(), oldest.to_be_bytes());
        let start = Bound::Included(&start[..]);
        let mut visit = |key: &[u8], value: &[u8]| {
            let number = keys::number(key).unwrap_or_default();
            // A check reports unreadable records.
            let record = keys::decode::<IntentRecord>("intent", number, value);
            if record.is_ok_and(|r| r.delete.is_none() && !is_tree(&r) && files.contains(&r.file)) {
                found.push(number);
            }
            ControlFlow::Continue(())
        };
        self.reader()
            .scan(INTENTS, start, Bound::Unbounded, &mut visit)?;
        found
            .into_iter()
            .try_for_each(|number| self.complete_intent(number))
    }
}
