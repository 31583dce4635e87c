//! The trait of an ordered transactional key-value engine.

use std::ops::{Bound, ControlFlow};

use crate::{DamagedFile, EngineFile, KvError};

/// A named key space inside one engine; spaces share transactions and syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub &'static str);

/// Reads of one consistent state.
pub trait Reader {
    /// The value under `key`, if there is one.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, KvError>;

    /// Visits the pairs between two bounds in ascending order of keys until `visit` breaks.
    #[allow(
        clippy::type_complexity,
        reason = "an alias would hide what a visitor is"
    )]
    fn scan(
        &self,
        space: Space,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), KvError>;
}

/// Reads and writes that take effect together or not at all; reads see the writes before them.
pub trait Transaction: Reader {
    /// Sets the value under `key`.
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]);

    /// Removes `key`; removing a missing key is no error.
    fn delete(&mut self, space: Space, key: &[u8]);
}

/// Blind writes that take effect together or not at all, in the order given.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// `(space, key, new value or removal)`.
    pub changes: Vec<(Space, Vec<u8>, Option<Vec<u8>>)>,
}

/// An ordered, transactional key-value engine.
pub trait OrderedKv: Send + Sync {
    /// A consistent state to read from; later commits do not show in it.
    fn snapshot(&self) -> Result<Box<dyn Reader + '_>, KvError>;

    /// Runs `work` in one serializable transaction and commits it; `Err` from `work` rolls back.
    /// `work` may run again where an engine finds a conflict, so it must not have other effects.
    ///
    /// # Durability
    /// On `Ok` the writes survive kill −9; [`OrderedKv::sync`] makes them survive power loss.
    fn transact(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), KvError>,
    ) -> Result<(), KvError>;

    /// Commits a batch of blind writes; durable as [`OrderedKv::transact`].
    fn write(&self, batch: Batch) -> Result<(), KvError>;

    /// Whether the disk has space for the engine to grow. Call it before changes that make the
    /// engine larger; deletions are committed as long as the disk accepts them.
    ///
    /// # Errors
    /// [`KvError::NoSpace`].
    fn check_space(&self) -> Result<(), KvError> {
        Ok(())
    }

    /// As [`OrderedKv::check_space`], for commits of so many bytes together that free more space,
    /// in the engine or elsewhere: the last of the space is kept for them.
    ///
    /// # Errors
    /// [`KvError::NoSpace`].
    fn check_reclaim_space(&self, bytes: u64) -> Result<(), KvError> {
        let _ = bytes;
        Ok(())
    }

    /// The engine's files at the moment, and their copies, for [`OrderedKv::verify`].
    ///
    /// # Errors
    /// When its folders cannot be read.
    fn files(&self) -> Result<Vec<EngineFile>, KvError> {
        Ok(Vec::new())
    }

    /// Verifies one of [`OrderedKv::files`], which may be deleted by now. Returns the bytes read
    /// and the damage found.
    ///
    /// Cost: reads the file, some 64 MiB.
    /// # Errors
    /// When it cannot be read for another reason than damage.
    fn verify(&self, file: &EngineFile) -> Result<(u64, Option<DamagedFile>), KvError> {
        let _ = file;
        Ok((0, None))
    }

    /// Writes everything committed before the call to tables. Journals have one copy, tables get a
    /// second one some seconds later. Tables always hold all commits up to some moment, and none
    /// after it.
    ///
    /// Cost: everything committed since the last flush is written once more.
    /// # Errors
    /// [`KvError::Engine`]; everything is still in journals then.
    fn flush(&self) -> Result<(), KvError> {
        self.sync()
    }

    /// The number of the last commit: each transaction or batch that changes something gets the
    /// next one. An engine that lost its last commits continues after the last one that it has.
    fn committed(&self) -> u64;

    /// Blocks until everything committed before the call is on stable storage.
    ///
    /// # Errors
    /// [`KvError::Poisoned`] from the disk's first failure on; another error where the sync could
    /// not begin.
    fn sync(&self) -> Result<(), KvError>;
}
