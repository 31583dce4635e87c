//! Withdraw: gives up an intent that a server refuses for good.

use crate::error::MetaError;
use crate::tx::Volume;

pub(crate) fn withdraw(volume: &Volume, number: u64) -> Result<Option<&'static str>, MetaError> {
    volume.transact(|tx| tx.withdraw(number))
}
