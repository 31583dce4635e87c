//! Intents that nobody needs to carry through any more: those of a file that goes, and those that a server refuses for good.

use crate::error::MetaError;
use crate::tx::Volume;

pub(crate) fn withdraw(volume: &Volume, number: u64) -> Result<Option<&'static str>, MetaError> {
    volume.transact(|tx| tx.withdraw(number))
}
