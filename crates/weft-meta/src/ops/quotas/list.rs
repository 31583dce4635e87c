//! ListQuotas: usages and bounds, page by page.

use std::ops::{Bound, ControlFlow};

use prost::Message;
use weft_proto::limits::LIST_PAGE_MAX;
use weft_proto::quota::{ListQuotasReply, ListQuotasRequest, QuotaKind};

use super::info::{may_see, quota_info};
use crate::access::check_caller;
use crate::error::MetaError;
use crate::limits::QUOTAS_PAGE_BYTES;
use crate::quota::Payer;
use crate::records::keys::{self, QUOTAS};
use crate::tx::Volume;

pub(crate) fn list_quotas(
    volume: &Volume,
    request: &ListQuotasRequest,
) -> Result<ListQuotasReply, MetaError> {
    check_caller(&request.who)?;
    let payer = request.after.map(|id| Payer::new(request.kind(), id));
    let from = match payer {
        None => vec![request.kind().max(QuotaKind::User) as u8],
        Some(Some(payer)) => payer.key().to_vec(),
        Some(None) => {
            return Err(MetaError::Invalid {
                path: "a list of quotas".into(),
                reason: "it continues after a user, a group or a directory",
            });
        }
    };
    volume.read(|reader| {
        let (mut reply, mut failed, mut bytes) = (ListQuotasReply::default(), None, 0);
        let from = Bound::Excluded(from.as_slice());
        reader.scan(QUOTAS, from, Bound::Unbounded, &mut |key, value| {
            let info = Payer::from_key(key).map(|payer| -> Result<_, MetaError> {
                if !may_see(reader, &request.who, payer)? {
                    return Ok(None);
                }
                let record = keys::decode("quota of", payer.id(), value)?;
                Ok(Some(quota_info(volume, reader, payer, &record)?))
            });
            match info.transpose().map(Option::flatten) {
                Ok(None) => {}
                Ok(Some(quota)) => {
                    bytes += quota.encoded_len();
                    reply.quotas.push(quota);
                    reply.more =
                        reply.quotas.len() == LIST_PAGE_MAX as usize || bytes > QUOTAS_PAGE_BYTES;
                }
                Err(error) => failed = Some(error),
            }
            if reply.more || failed.is_some() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(reply), Err)
    })
}
