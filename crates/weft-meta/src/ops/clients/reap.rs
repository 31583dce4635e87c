//! The end of the grace period: removing orphans that no client has open.

use std::ops::{Bound, ControlFlow};

use crate::error::MetaError;
use crate::limits::ORPHANS_PAGE;
use crate::records::keys::{self, ORPHANS};
use crate::tx::Volume;

pub(crate) fn reap_orphans(volume: &Volume) -> Result<u64, MetaError> {
    volume.state().grace().end();
    let mut reaped = 0;
    let mut after = Vec::new();
    loop {
        let (count, last) = volume.transact(|tx| {
            let mut ids = Vec::new();
            let mut visit = |key: &[u8], _: &[u8]| {
                ids.extend(keys::number(key));
                if ids.len() == ORPHANS_PAGE {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            let from = Bound::Excluded(after.as_slice());
            tx.reader()
                .scan(ORPHANS, from, Bound::Unbounded, &mut visit)?;
            let mut count = 0;
            for id in &ids {
                if !tx.open_files().is_open(*id) {
                    count += u64::from(tx.reap(*id)?);
                }
            }
            Ok((count, ids.last().copied()))
        })?;
        reaped += count;
        match last {
            Some(id) => after = id.to_be_bytes().to_vec(),
            None => return Ok(reaped),
        }
    }
}
