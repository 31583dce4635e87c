//! Withdraw: cancels an intent that a server refuses permanently.

use crate::error::MetaError;
use crate::tx::Volume;

pub(crate) fn withdraw(volume: &Volume, number: u64) -> Result<Option<&'static str>, MetaError> {
    volume.transact(|tx| tx.withdraw(number))
}
