//! QuotasOf: the payers of a file or directory.

use weft_proto::quota::{QuotasOfReply, QuotasOfRequest};

use super::info::{may_see, quota_info};
use crate::error::MetaError;
use crate::paths::resolve;
use crate::quota::{Payer, quota_record, trees_above};
use crate::tx::Volume;

pub(crate) fn quotas_of(
    volume: &Volume,
    request: &QuotasOfRequest,
) -> Result<QuotasOfReply, MetaError> {
    let who = &request.who;
    volume.read(|reader| {
        let inode = resolve(reader, who, &request.target)?.inode;
        let mut quotas = Vec::new();
        for (tree, record) in trees_above(reader, inode.tree)? {
            quotas.push(quota_info(volume, reader, Payer::Tree(tree), &record)?);
        }
        for payer in [Payer::User(inode.uid), Payer::Group(inode.gid)] {
            if may_see(reader, who, payer)? {
                let record = quota_record(reader, payer)?.unwrap_or_default();
                quotas.push(quota_info(volume, reader, payer, &record)?);
            }
        }
        Ok(QuotasOfReply { quotas })
    })
}
