//! How to open the engine.

/// How to open a [`FjallKv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FjallOptions {
    /// Bytes of the block cache.
    pub cache: u64,
    /// Bytes of writes held in memory before they go to a table; the journal is kept until then.
    /// The value at the engine's creation counts; on a small file system it is less.
    pub memtable: u64,
    /// Bytes of the disk kept for deletions when others have filled it; 0: none.
    pub reserve: u64,
    /// What becomes of an engine whose journals lack commits that were on stable storage.
    pub loss: OnLoss,
}

/// What becomes of an engine whose journals lack commits that were on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// It is not opened, and nothing is changed.
    #[default]
    Refuse,
    /// It skips commits that cannot be read, and keeps those in later journals.
    Skip,
    /// It rolls back to before the first missing commit, for a caller that can repeat what came
    /// after.
    RollBack,
}

impl Default for FjallOptions {
    fn default() -> Self {
        FjallOptions {
            cache: 64 << 20,
            memtable: 64 << 20,
            reserve: 0,
            loss: OnLoss::Refuse,
        }
    }
}
