//! The role of an I/O server, from its section of the configuration.

use std::path::Path;

use anyhow::Result;
use weft_server::IoRole;

use super::disks::store_config;
use crate::volume_config::config::file::{Config, ServerSection};

/// The role of the server of `section`, whose data lie in `folder`.
pub(crate) fn io_role(
    config: &Config,
    section: &ServerSection,
    folder: &Path,
    store_id: String,
) -> Result<IoRole> {
    Ok(IoRole {
        server: section.id,
        replica: section.replica,
        store: store_config(config, section, folder, false)?,
        store_id: store_id.into_bytes(),
        rebuild_rate: config.volume.rebuild_rate.map_or(0, |rate| rate.0),
        code_after: config.volume.code_after.0,
        meta_address: config.meta.address.clone(),
        metrics_address: section.metrics.clone().unwrap_or_default(),
    })
}
