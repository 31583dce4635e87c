//! The usage of all payers, as charged and as counted from the inodes.

use std::collections::BTreeMap;

use crate::error::MetaError;
use crate::quota::{Payer, Used, count_usage, stored_records};
use crate::tx::Volume;

pub(crate) fn count_again(volume: &Volume) -> Result<BTreeMap<Payer, Used>, MetaError> {
    volume.read(count_usage)
}

pub(crate) fn usage(volume: &Volume) -> Result<BTreeMap<Payer, Used>, MetaError> {
    let (records, _) = volume.read(stored_records)?;
    let used = records.into_iter().map(|(p, r)| (p, r.used()));
    Ok(used.filter(|(_, used)| *used != Used::default()).collect())
}
