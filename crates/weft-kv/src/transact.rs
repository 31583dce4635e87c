//! Conveniences over [`OrderedKv`] and [`Reader`] that work with any engine.

use std::ops::{Bound, ControlFlow};

use crate::{KvError, OrderedKv, Reader, Space, Transaction};

/// Runs `work` in one transaction with the caller's result and error types; an `Err` rolls back and
/// is returned unchanged.
///
/// `work` may run again where an engine finds a conflict, so it must not have other effects.
///
/// # Errors
/// What `work` returned, or the engine's error.
/// # Durability
/// As [`OrderedKv::transact`].
pub fn transact_with<T, E: From<KvError>>(
    kv: &dyn OrderedKv,
    mut work: impl FnMut(&mut dyn Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut outcome = None;
    let committed = kv.transact(&mut |txn| match work(txn) {
        Ok(value) => {
            outcome = Some(Ok(value));
            Ok(())
        }
        Err(error) => {
            outcome = Some(Err(error));
            Err(KvError::Aborted)
        }
    });
    match (committed, outcome) {
        (Ok(()) | Err(KvError::Aborted), Some(outcome)) => outcome,
        (Err(error), _) => Err(error.into()),
        (Ok(()), None) => unreachable!("an engine committed a transaction without running it"),
    }
}

/// Visits the pairs whose keys begin with `prefix`, ascending, until `visit` breaks.
#[allow(clippy::type_complexity, reason = "the visitor of `Reader::scan`")]
pub fn scan_prefix(
    reader: &dyn Reader,
    space: Space,
    prefix: &[u8],
    visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<(), KvError> {
    let end = prefix_end(prefix);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    reader.scan(space, Bound::Included(prefix), to, visit)
}

/// The smallest key above every key that begins with `prefix`; none if there is no such key.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn prefix_end_is_the_first_key_past_the_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
