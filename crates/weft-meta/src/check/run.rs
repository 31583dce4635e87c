//! The check of the namespace, in the order of its passes.

use super::finding::index_finding;
use super::pass::{CheckObserver, Pass};
use crate::error::MetaError;
use crate::limits::CHECK_WINDOW;
use crate::tx::Volume;

pub(crate) fn check(volume: &Volume, observer: &mut dyn CheckObserver) -> Result<(), MetaError> {
    for file in volume.state().kv().files()? {
        if let Some(bad) = volume.state().kv().verify(&file)?.1 {
            observer.found(index_finding(&bad));
        }
        if observer.seen(0, 0).is_break() {
            return Ok(());
        }
    }
    volume.read(|reader| {
        let mut pass = Pass::new(reader, observer);
        pass.inodes(CHECK_WINDOW)?;
        pass.entries_of_no_directory()?;
        pass.related()
    })
}
