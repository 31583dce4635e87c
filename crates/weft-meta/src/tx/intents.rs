//! Work owed to the I/O servers: noting it, and taking it away.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use super::transaction::Tx;
use crate::error::MetaError;
use crate::intents::is_tree;
use crate::records::keys::{self, INTENTS};
use crate::records::record::IntentRecord;

impl Tx<'_, '_> {
    /// Owes work to the I/O servers.
    pub(crate) fn owe(&mut self, intent: &IntentRecord) -> Result<u64, MetaError> {
        let counters = self.counters()?;
        let number = counters.next_intent;
        counters.next_intent += 1;
        counters.intents += 1;
        self.put(INTENTS, &number.to_be_bytes(), intent);
        Ok(number)
    }

    /// Takes an intent away.
    pub(crate) fn settle(&mut self, number: u64) -> Result<(), MetaError> {
        self.delete(keys::INTENTS, &number.to_be_bytes());
        // Where the counter is damaged a check finds it: that must not keep anything from being settled.
        let counters = self.counters()?;
        counters.intents = counters.intents.saturating_sub(1);
        Ok(())
    }

    /// Takes away what else is owed for files whose delete is owed now: nothing of them matters any more, and one that a
    /// server refuses must not stand in the way.
    ///
    /// Cost: a scan of all intents.
    pub(crate) fn supersede(&mut self, files: &BTreeSet<u64>) -> Result<(), MetaError> {
        let oldest = self.state().oldest_intent().get();
        let (mut found, start) = (Vec::new(), oldest.to_be_bytes());
        let start = Bound::Included(&start[..]);
        let mut visit = |key: &[u8], value: &[u8]| {
            let number = keys::number(key).unwrap_or_default();
            // What cannot be read is found by a check.
            let record = keys::decode::<IntentRecord>("intent", number, value);
            if record.is_ok_and(|r| r.delete.is_none() && !is_tree(&r) && files.contains(&r.file)) {
                found.push(number);
            }
            ControlFlow::Continue(())
        };
        self.reader()
            .scan(INTENTS, start, Bound::Unbounded, &mut visit)?;
        found.into_iter().try_for_each(|number| self.settle(number))
    }
}
