//! The volume of a run as its clients see it: the file that all of them share, and layouts.

use std::time::Duration;

use weft_client::{ConnectOptions, NewLayout, Volume};
use weft_layout::Storage;

use crate::plan::Plan;

/// Bytes of the file that all clients write.
pub(super) const LENGTH: usize = 48 << 10;
pub(super) const BSU: u64 = 1000;
pub(super) const CELLS: u32 = 5;
/// Wait after the last fault: by then every dead connection has been detected.
pub(crate) const RECOVERY_TIME: Duration = Duration::from_secs(7);

/// Connects, retrying until the volume is up.
pub(crate) async fn connect(options: ConnectOptions) -> Volume {
    loop {
        match Volume::connect(options.clone()).await {
            Ok(volume) => return volume,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// How files are laid out.
pub(super) fn layout(plan: Plan) -> NewLayout {
    NewLayout {
        cells: Some(CELLS),
        bsu: Some(BSU),
        chunk: Some(4096 + 512),
        servers: (0..plan.servers as u32).collect(),
        base: None,
        // Every third run has addressed files.
        storage: plan.seed.is_multiple_of(3).then_some(Storage::Addressed),
        replicas: None,
        parity: None,
    }
}
