//! Counting usage from the inodes, to check or correct the recorded usage.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, ControlFlow};

use prost::Message;
use weft_kv::Reader;

use super::payer::{Payer, Used};
use super::usage::{charged, trees_above};
use crate::error::MetaError;
use crate::records::keys::{self, INODES, QUOTAS};
use crate::records::record::{InodeRecord, QuotaRecord};

/// The usage of all payers, counted from the inodes. Cost: a scan of all inodes.
pub(crate) fn count_usage(reader: &dyn Reader) -> Result<BTreeMap<Payer, Used>, MetaError> {
    let (mut found, mut failed) = (BTreeMap::<Payer, Used>::new(), None);
    let mut above: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(INODES, all.0, all.1, &mut |key, value| {
        let id = keys::number(key).unwrap_or(0);
        // A check reports unreadable records.
        let Ok(inode) = keys::decode::<InodeRecord>("inode", id, value) else {
            return ControlFlow::Continue(());
        };
        let Some((uid, gid, tree, size)) = charged(&inode) else {
            return ControlFlow::Continue(());
        };
        let mut add = |payer| {
            let used = found.entry(payer).or_default();
            used.bytes += u128::from(size);
            used.files += 1;
        };
        add(Payer::User(uid));
        add(Payer::Group(gid));
        if let Entry::Vacant(place) = above.entry(tree) {
            match trees_above(reader, tree) {
                Ok(trees) => drop(place.insert(trees.iter().map(|(id, _)| *id).collect())),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        above[&tree].iter().for_each(|tree| add(Payer::Tree(*tree)));
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(found), Err)
}

/// The readable records, and the keys of the others.
pub(crate) type StoredQuotas = (BTreeMap<Payer, QuotaRecord>, Vec<(Vec<u8>, MetaError)>);

pub(crate) fn stored_records(reader: &dyn Reader) -> Result<StoredQuotas, MetaError> {
    let (mut found, mut damaged) = (BTreeMap::new(), Vec::new());
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(QUOTAS, all.0, all.1, &mut |key, value| {
        if let Some(payer) = Payer::from_key(key) {
            match keys::decode("quota of", payer.id(), value) {
                Ok(record) => drop(found.insert(payer, record)),
                Err(error) => damaged.push((key.to_vec(), error)),
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok((found, damaged))
}

/// The wrong records, corrected to what was counted.
pub(crate) fn corrected(
    mut records: BTreeMap<Payer, QuotaRecord>,
    used: &BTreeMap<Payer, Used>,
) -> Vec<(Payer, QuotaRecord)> {
    for payer in used.keys() {
        records.entry(*payer).or_default();
    }
    let wrong = records.into_iter().filter_map(|(payer, mut record)| {
        let now = used.get(&payer).copied().unwrap_or_default();
        let right = record.used() == now;
        record.set_used(now);
        (!right).then_some((payer, record))
    });
    wrong.collect()
}

/// The records of all usages, for an engine without any.
pub(crate) fn first_count(reader: &dyn Reader) -> Result<Vec<(Payer, Vec<u8>)>, MetaError> {
    let wrong = corrected(stored_records(reader)?.0, &count_usage(reader)?);
    let encoded = wrong.into_iter().map(|(p, r)| (p, r.encode_to_vec()));
    Ok(encoded.collect())
}
