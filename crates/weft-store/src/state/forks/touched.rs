//! The `Touched` records of the log: reports on the forks that the last frames touched.

use std::collections::BTreeMap;

use crate::doubt::TouchedSpan;
use crate::key::{ADDRESSED, ForkKey};
use crate::record::{ItemRecord, TouchedRecord};
use crate::state::StoreState;

impl StoreState {
    /// Adds the reports to the next frame; `segment`: where that will be, if known.
    pub(in crate::state) fn append_touched(&mut self, segment: Option<u64>, body: &mut Vec<u8>) {
        let next = self.next_sequence();
        for window in self.touches().take(segment, next) {
            self.encode_touched(&window, body);
        }
    }

    fn encode_touched(&self, window: &TouchedSpan, body: &mut Vec<u8>) {
        let mut keys: BTreeMap<&ForkKey, u64> = window.gone_names().map(|key| (key, 0)).collect();
        // Removed forks are among the names that lost theirs.
        let forks = window.forks().filter_map(|id| self.forks.get(id));
        keys.extend(forks.map(|fork| (fork.key(), 0)));
        let forks = keys.into_keys().filter(|key| key.file != ADDRESSED);
        let length = |key: &ForkKey| self.find(key).map_or(0, |id| self.forks[id].length());
        let forks = forks.map(|key| (key.clone(), length(key))).collect();
        let record = TouchedRecord {
            from: window.from(),
            any: window.any(),
            forks,
        };
        ItemRecord::Touched(record).encode(body);
    }
}
