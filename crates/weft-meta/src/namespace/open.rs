//! Opening and closing a volume.

use std::sync::Arc;

use prost::Message;
use weft_kv::{Batch, OrderedKv};

use crate::error::MetaError;
use crate::limits::IDS_SKIPPED;
use crate::open::{Clients, Grace, LastRun};
use crate::ops::load_bounds;
use crate::quota::first_count;
use crate::records::keys::{self, CLEAN_KEY, COUNTERS_KEY, QUOTAS, VOLUME, VOLUME_KEY};
use crate::records::record::{FORMAT, FORMAT_UNCOUNTED};
use crate::servers::ServerTable;
use crate::state::{Incarnations, VolumeState};
use crate::tx::Volume;

/// Opens the volume in an engine; see [`Namespace::open`](super::Namespace::open).
pub(super) fn open(kv: Arc<dyn OrderedKv>, clients: Clients) -> Result<Volume, MetaError> {
    let found = kv.committed();
    count_first(&*kv)?;
    let (volume, mut counters, servers) = {
        let reader = kv.snapshot()?;
        let volume = keys::volume(&*reader)?.ok_or(MetaError::NotFormatted)?;
        if volume.format != FORMAT {
            return Err(MetaError::FormatVersion {
                found: volume.format,
                known: FORMAT,
            });
        }
        let counters = keys::counters(&*reader)?;
        (
            volume,
            counters,
            ServerTable::load(&*reader, counters.epoch)?,
        )
    };
    tracing::info!(volume = %volume.name, files = counters.files, "namespace opened");
    let last = if closed_cleanly(&*kv)? {
        // After a crash from here on, clients may have files open.
        kv.write(Batch {
            changes: vec![(VOLUME, CLEAN_KEY.to_vec(), None)],
        })?;
        LastRun::Clean
    } else {
        counters.next_id += IDS_SKIPPED;
        let record = Some(counters.encode_to_vec());
        kv.write(Batch {
            changes: vec![(VOLUME, COUNTERS_KEY.to_vec(), record)],
        })?;
        LastRun::Crashed
    };
    kv.sync()?;
    let grace = Grace::begin(&counters, last, clients);
    let incarnations = Incarnations::new(found);
    let volume = Volume::new(VolumeState::new(
        kv,
        volume,
        &counters,
        servers,
        grace,
        incarnations,
    ));
    load_bounds(&volume)?;
    Ok(volume)
}

/// Marks a volume of which no client has anything open, and flushes the engine.
pub(super) fn close(volume: &Volume) -> Result<(), MetaError> {
    let state = volume.state();
    let settled = state.open_files().is_empty() && state.unknown_sizes().is_empty();
    let kv = state.kv();
    if settled && !state.grace().is_active() {
        kv.write(Batch {
            changes: vec![(VOLUME, CLEAN_KEY.to_vec(), Some(Vec::new()))],
        })?;
    }
    kv.sync()?;
    // A journal has one copy, tables get two, and a stopped service may stay stopped for long.
    // Nothing is lost where this fails.
    if kv.check_space().is_ok()
        && let Err(error) = kv.flush()
    {
        tracing::warn!(%error, "the namespace is not flushed: some of it stays in its journal");
    }
    Ok(())
}

/// Whether the engine has the mark that [`close`] writes.
pub(super) fn closed_cleanly(kv: &dyn OrderedKv) -> Result<bool, MetaError> {
    Ok(kv.snapshot()?.get(VOLUME, CLEAN_KEY)?.is_some())
}

/// Counts the usage of all payers in a volume of an older version that did not, and upgrades it.
///
/// # Durability
/// Survives power loss with the next sync, all or nothing.
fn count_first(kv: &dyn OrderedKv) -> Result<(), MetaError> {
    let reader = kv.snapshot()?;
    let Some(mut volume) = keys::volume(&*reader)?.filter(|v| v.format == FORMAT_UNCOUNTED) else {
        return Ok(());
    };
    tracing::info!(volume = %volume.name, "counting the usage of all payers, once");
    let counted = first_count(&*reader)?.into_iter();
    volume.format = FORMAT;
    let mut changes = vec![(VOLUME, VOLUME_KEY.to_vec(), Some(volume.encode_to_vec()))];
    changes.extend(counted.map(|(payer, record)| (QUOTAS, payer.key().to_vec(), Some(record))));
    Ok(kv.write(Batch { changes })?)
}
