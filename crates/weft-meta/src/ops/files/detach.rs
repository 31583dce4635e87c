//! Detach: ends attachments that have nothing to report.

use weft_proto::limits::DETACH_MAX;
use weft_proto::meta::{DetachReply, DetachRequest, ReportRequest};

use super::report::{detach_idle, report};
use crate::error::MetaError;
use crate::ops::attributes::note_accesses;
use crate::tx::Volume;

pub(crate) fn detach(
    volume: &Volume,
    client: u64,
    request: &DetachRequest,
) -> Result<DetachReply, MetaError> {
    let (reading, writing) = (&request.reading, &request.writing);
    if reading.len() + writing.len() > DETACH_MAX || request.accessed.len() > DETACH_MAX {
        return Err(MetaError::Invalid {
            path: "a list of files".into(),
            reason: "one call ends at most 4096 attachments",
        });
    }
    note_accesses(volume, &request.accessed);
    let reading = reading.iter().map(|file| (*file, false));
    for (file, write) in reading.chain(writing.iter().map(|file| (*file, true))) {
        let last = ReportRequest {
            file,
            write,
            detach: true,
            ..ReportRequest::default()
        };
        if !detach_idle(volume, client, &last)? {
            report(volume, client, &last)?;
        }
        // Under the lock of the open files: an attach does not come in between.
        let open = volume.state().open_files();
        if !open.is_holder(client, file) {
            volume.state().leases().end_file(client, file);
        }
        drop(open);
    }
    Ok(DetachReply {})
}
