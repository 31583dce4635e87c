//! The service's handle: format, open, and how operations reach the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use prost::Message;
use weft_kv::{Batch, History, OrderedKv, Reader, transact_with};
use weft_layout::{SERVERS_MAX, ServerId};
use weft_proto::Kind;
use weft_proto::meta::{FileKind, ROOT};

use super::edit::Edit;
use super::error::MetaError;
use crate::access::MODE;
use crate::leases::{ChangeLog, Delegations, Leases, Watched};
use crate::open::{OpenFiles, Unsettled};
use crate::quota::{Growth, Payer, first_count};
use crate::records::keys::{
    self, CLEAN_KEY, COUNTERS_KEY, INODES, QUOTAS, SERVERS, VOLUME, VOLUME_KEY,
};
use crate::records::record::{
    CountersRecord, FORMAT, FORMAT_UNCOUNTED, InodeRecord, QuotaRecord, ServerRecord, VolumeRecord,
};
use crate::servers::ServerTable;

/// Ids that are skipped after a crash: more than anybody can have been given in the seconds whose commits power loss
/// may have taken back. I/O servers may hold data under those ids, and clients may still believe in them.
const IDS_LOST: u64 = 1 << 20;

/// What is fixed when a volume is formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSettings {
    /// The volume's id.
    pub id: [u8; 16],
    /// Its name, for humans.
    pub name: String,
    /// Its I/O servers and where they listen.
    pub servers: Vec<(ServerId, String)>,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Permission bits of the root directory.
    pub mode: u32,
    /// The time of formatting, in nanoseconds since the epoch.
    pub now: i64,
}

/// Counts of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Files, directories and other inodes, the root and orphans included.
    pub files: u64,
    /// Deletes and truncates owed to I/O servers.
    pub intents: u64,
}

/// The namespace of one volume. All methods may be called from any thread and block for as long as
/// the engine does. Cheap to clone; clones are the same namespace.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
    /// The client that what is done through this handle is published as a change by; 0: nobody.
    origin: u64,
}

impl std::ops::Deref for Namespace {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

/// What all handles share.
pub struct Inner {
    pub(crate) kv: Arc<dyn OrderedKv>,
    pub(crate) open_files: Mutex<OpenFiles>,
    pub(crate) servers: RwLock<ServerTable>,
    pub(crate) growth: Growth,
    pub(crate) unsettled: Unsettled,
    /// No intent below this number is left: keeps scans off the graves of carried-through ones.
    pub(crate) oldest_intent: AtomicU64,
    recovering: AtomicBool,
    changes: ChangeLog,
    leases: Leases,
    delegations: Delegations,
    /// Files from this id on were made in this life of the service.
    first_id: u64,
    /// Intents from before were owed when the last run broke off; 0 where it ended well.
    pub(crate) first_intent: u64,
    volume: VolumeRecord,
    /// The engine's last commit when it was opened.
    pub(crate) found: u64,
    pub(crate) history: RwLock<History>,
    /// Commits up to this one survive power loss.
    pub(crate) durable: AtomicU64,
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace")
            .field("volume", &self.volume)
            .finish_non_exhaustive()
    }
}

impl Namespace {
    /// Writes an empty volume into an engine that holds none.
    ///
    /// # Durability
    /// On stable storage on return.
    pub fn format(kv: &dyn OrderedKv, settings: &VolumeSettings) -> Result<(), MetaError> {
        check_settings(settings)?;
        if let Some(volume) = keys::volume(&*kv.snapshot()?)? {
            return Err(MetaError::AlreadyFormatted { name: volume.name });
        }
        let volume = VolumeRecord {
            format: FORMAT,
            id: settings.id.to_vec(),
            name: settings.name.clone(),
        };
        let counters = CountersRecord {
            next_id: ROOT + 1,
            next_intent: 1,
            files: 1,
            intents: 0,
            epoch: 1,
        };
        let counted = QuotaRecord {
            files: 1,
            ..QuotaRecord::default()
        };
        let root = InodeRecord {
            kind: FileKind::Directory as i32,
            mode: settings.mode & MODE,
            uid: settings.uid,
            gid: settings.gid,
            links: 2,
            size_exact: true,
            accessed: settings.now,
            modified: settings.now,
            changed: settings.now,
            created: settings.now,
            parent: ROOT,
            ..InodeRecord::default()
        };
        let mut changes = vec![
            (VOLUME, VOLUME_KEY.to_vec(), Some(volume.encode_to_vec())),
            (
                VOLUME,
                COUNTERS_KEY.to_vec(),
                Some(counters.encode_to_vec()),
            ),
            (
                INODES,
                ROOT.to_be_bytes().to_vec(),
                Some(root.encode_to_vec()),
            ),
            (VOLUME, CLEAN_KEY.to_vec(), Some(Vec::new())),
        ];
        for payer in [Payer::User(settings.uid), Payer::Group(settings.gid)] {
            let record = Some(counted.encode_to_vec());
            changes.push((QUOTAS, payer.key().to_vec(), record));
        }
        for (id, address) in &settings.servers {
            let address = address.clone();
            let record = ServerRecord {
                address,
                ..ServerRecord::default()
            };
            let record = record.encode_to_vec();
            changes.push((SERVERS, id.0.to_be_bytes().to_vec(), Some(record)));
        }
        kv.write(Batch { changes })?;
        Ok(kv.sync()?)
    }

    /// Opens the volume in an engine. Unless nobody had anything open when it was closed, every
    /// file that loses its last name is kept until [`Namespace::reap_orphans`] is called first,
    /// because clients of an earlier life of the service may have it open.
    ///
    /// # Errors
    /// [`MetaError::NotFormatted`], [`MetaError::FormatVersion`], or the engine's.
    pub fn open(kv: Arc<dyn OrderedKv>) -> Result<Namespace, MetaError> {
        Namespace::open_for(kv, false)
    }

    /// As [`Namespace::open`], for a caller who alone reaches it: no client of an earlier life can come back and tell what he
    /// holds, so nothing is held but by who says so.
    pub fn open_alone(kv: Arc<dyn OrderedKv>) -> Result<Namespace, MetaError> {
        Namespace::open_for(kv, true)
    }

    fn open_for(kv: Arc<dyn OrderedKv>, alone: bool) -> Result<Namespace, MetaError> {
        let found = kv.committed();
        count_first(&*kv)?;
        let (volume, mut counters, servers) = {
            let reader = kv.snapshot()?;
            let volume = keys::volume(&*reader)?.ok_or(MetaError::NotFormatted)?;
            if volume.format != FORMAT {
                return Err(MetaError::FormatVersion {
                    found: volume.format,
                    known: FORMAT,
                });
            }
            let counters = keys::counters(&*reader)?;
            (
                volume,
                counters,
                ServerTable::load(&*reader, counters.epoch)?,
            )
        };
        tracing::info!(volume = %volume.name, files = counters.files, "namespace opened");
        let clean = kv.snapshot()?.get(VOLUME, CLEAN_KEY)?.is_some();
        if clean {
            // From now on a crash finds a service that may have had clients.
            kv.write(Batch {
                changes: vec![(VOLUME, CLEAN_KEY.to_vec(), None)],
            })?;
        } else {
            counters.next_id += IDS_LOST;
            let record = Some(counters.encode_to_vec());
            kv.write(Batch {
                changes: vec![(VOLUME, COUNTERS_KEY.to_vec(), record)],
            })?;
        }
        kv.sync()?;
        let inner = Inner {
            kv,
            changes: ChangeLog::default(),
            leases: Leases::default(),
            delegations: Delegations::default(),
            open_files: Mutex::new(OpenFiles::of_run(counters.next_id)),
            servers: RwLock::new(servers),
            growth: Growth::default(),
            unsettled: Unsettled::default(),
            oldest_intent: AtomicU64::new(0),
            recovering: AtomicBool::new(!clean),
            first_id: if alone { 0 } else { counters.next_id },
            first_intent: if clean { 0 } else { counters.next_intent },
            volume,
            found,
            history: RwLock::default(),
            durable: AtomicU64::new(0),
        };
        let namespace = Namespace {
            inner: Arc::new(inner),
            origin: 0,
        };
        namespace.look_for_bounds()?;
        Ok(namespace)
    }

    /// The same namespace, for what this client does: watchers of the same client are not told of it.
    #[must_use]
    pub fn by(&self, client: u64) -> Namespace {
        Namespace {
            inner: self.inner.clone(),
            origin: client,
        }
    }

    /// Directories whose names one client knows.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Directories in which one client changes names ahead of the service.
    pub fn delegations(&self) -> &Delegations {
        &self.delegations
    }

    /// Gives a client that has just made a directory the lease of it, if nobody has made anything in it.
    pub fn lease(&self, client: u64, directory: u64) -> Result<bool, MetaError> {
        if !self.leases.grant(client, directory) {
            return Ok(false);
        }
        // Whatever is made from here on ends the lease.
        let inode = self.read(|reader| keys::inode(reader, directory))?;
        let empty = inode.is_some_and(|inode| inode.size == 0);
        if !empty {
            self.leases.end(directory);
        }
        Ok(empty)
    }

    /// The last changes.
    pub fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// Notes, if so, that nobody has anything open: the next life of the service need not wait for
    /// clients to tell. No operation may follow.
    ///
    /// # Durability
    /// On stable storage on return.
    pub fn close(&self) -> Result<(), MetaError> {
        let settled = self.open_files.lock().is_empty() && self.unsettled.is_empty();
        if settled && !self.recovering() {
            self.kv.write(Batch {
                changes: vec![(VOLUME, CLEAN_KEY.to_vec(), Some(Vec::new()))],
            })?;
        }
        self.kv.sync()?;
        // Journals are there once only, and a service that is stopped may stay so for long. Nothing is lost without.
        if self.kv.check_room().is_ok()
            && let Err(error) = self.kv.settle()
        {
            tracing::warn!(%error, "some of the namespace stays in its journal");
        }
        Ok(())
    }

    /// Whether the engine holds the mark that [`Namespace::close`] leaves when nobody has anything
    /// open. It is the last thing written: an engine that lacks it after such a close lost its end.
    pub fn closed_cleanly(kv: &dyn OrderedKv) -> Result<bool, MetaError> {
        Ok(kv.snapshot()?.get(VOLUME, CLEAN_KEY)?.is_some())
    }

    /// The volume's id.
    pub fn id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        let length = self.volume.id.len().min(16);
        id[..length].copy_from_slice(&self.volume.id[..length]);
        id
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        &self.volume.name
    }

    /// How many files there are, and how much is owed. Cost: one read.
    pub fn counts(&self) -> Result<Counts, MetaError> {
        let counters = keys::counters(&*self.kv.snapshot()?)?;
        Ok(Counts {
            files: counters.files,
            intents: counters.intents,
        })
    }

    /// Whether this client has this file attached.
    pub fn is_attached(&self, client: u64, file: u64) -> bool {
        self.open_files.lock().is_holder(client, file)
    }

    /// Whether clients of an earlier life of the service may hold something of a file without having told yet.
    pub fn may_be_held(&self, file: u64) -> bool {
        self.recovering() && file < self.first_id
    }

    /// The client on whose connection this handle acts.
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// Whether clients of an earlier life may not have told yet what they have open.
    pub fn recovering(&self) -> bool {
        self.recovering.load(Ordering::Acquire)
    }

    pub(crate) fn recovered(&self) {
        self.recovering.store(false, Ordering::Release);
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&dyn Reader) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        // Before the snapshot: what is given back later may not be in it.
        let held = self.delegations.in_the_way_of(self.origin);
        let mut snapshot = self.kv.snapshot()?;
        let watched = Watched::new(&mut *snapshot, held, self.origin);
        let outcome = work(&watched);
        watched.verdict(outcome)
    }

    /// Runs one transaction; an error leaves nothing behind.
    pub(crate) fn edit<T>(
        &self,
        work: impl FnMut(&mut Edit<'_, '_>) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        self.run(&mut None, work)
    }

    /// Runs one transaction and then, if it was committed, `then` on the open files; where `work`
    /// looked at them nobody else did in between.
    pub(crate) fn edit_then<T>(
        &self,
        work: impl FnMut(&mut Edit<'_, '_>) -> Result<T, MetaError>,
        then: impl FnOnce(&mut OpenFiles, &T),
    ) -> Result<T, MetaError> {
        let mut open = None;
        let value = self.run(&mut open, work)?;
        let mut open = open.unwrap_or_else(|| self.open_files.lock());
        then(&mut open, &value);
        Ok(value)
    }

    fn run<'n, T>(
        &'n self,
        open: &mut Option<MutexGuard<'n, OpenFiles>>,
        mut work: impl FnMut(&mut Edit<'_, 'n>) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        let mut changes = Vec::new();
        let value = transact_with(&*self.kv, |txn| {
            let held = self.delegations.in_the_way_of(self.origin);
            let mut watched = Watched::new(txn, held, self.origin);
            let mut edit = Edit::new(self, &mut watched, open);
            let value = work(&mut edit);
            let outcome = value.and_then(|value| {
                changes = edit.finish()?;
                Ok(value)
            });
            watched.verdict(outcome)
        })?;
        self.changes.publish(self.origin, changes, &self.leases);
        Ok(value)
    }
}

/// Counts what everybody uses in a volume of a version that did not, and makes it one of this version.
///
/// # Durability
/// Survives power loss with the next sync, all or nothing.
fn count_first(kv: &dyn OrderedKv) -> Result<(), MetaError> {
    let reader = kv.snapshot()?;
    let Some(mut volume) = keys::volume(&*reader)?.filter(|v| v.format == FORMAT_UNCOUNTED) else {
        return Ok(());
    };
    tracing::info!(volume = %volume.name, "counting what everybody uses, once");
    let counted = first_count(&*reader)?.into_iter();
    volume.format = FORMAT;
    let mut changes = vec![(VOLUME, VOLUME_KEY.to_vec(), Some(volume.encode_to_vec()))];
    changes.extend(counted.map(|(payer, record)| (QUOTAS, payer.key().to_vec(), Some(record))));
    Ok(kv.write(Batch { changes })?)
}

fn check_settings(settings: &VolumeSettings) -> Result<(), MetaError> {
    let refuse = |reason: String| Err(MetaError::Settings { reason });
    if settings.name.is_empty() || settings.name.len() > 255 {
        return refuse("its name needs 1 to 255 bytes".into());
    }
    let count = settings.servers.len();
    if count == 0 || count > SERVERS_MAX {
        return refuse(format!("it needs 1 to {SERVERS_MAX} servers, not {count}"));
    }
    let mut ids: Vec<u32> = settings.servers.iter().map(|(id, _)| id.0).collect();
    ids.sort_unstable();
    if let Some(at) = (1..count).find(|at| ids[at - 1] == ids[*at]) {
        return refuse(format!("server {} is named twice", ids[at]));
    }
    Ok(())
}

/// Whether a call of this kind, when it succeeded, has committed something that must be on stable
/// storage before it is answered. [`Kind::Attach`] tells it itself
/// ([`Attached::committed`](crate::Attached::committed)); [`Kind::Report`] commits but needs no
/// sync: what is lost with it is only that a size is exact, and that an orphan may go.
pub fn mutates(kind: Kind) -> bool {
    match kind {
        Kind::SetAttributes
        | Kind::Truncate
        | Kind::MakeDirectory
        | Kind::MakeLink
        | Kind::MakeNode
        | Kind::Link
        | Kind::Unlink
        | Kind::RemoveDirectory
        | Kind::Rename
        | Kind::SetXattr
        | Kind::RemoveXattr
        | Kind::StoreInline
        | Kind::ChangeNames
        | Kind::SetQuota
        | Kind::AcceptRollback
        | Kind::Reassert => true,
        Kind::Attach
        | Kind::Report
        | Kind::Stat
        | Kind::List
        | Kind::ReadLink
        | Kind::GetXattr
        | Kind::ListXattr
        | Kind::ServerMap
        | Kind::ListClients
        | Kind::Heartbeat
        | Kind::Lock
        | Kind::TestLock
        | Kind::Watch
        | Kind::Append
        | Kind::SyncNamespace
        | Kind::Spill
        | Kind::Hello
        | Kind::Proof
        | Kind::Ping
        | Kind::Credit
        | Kind::Cancel
        | Kind::Data
        | Kind::Read
        | Kind::Write
        | Kind::Sync
        | Kind::CellStatus
        | Kind::TruncateCells
        | Kind::DeleteCells
        | Kind::CreateFork
        | Kind::RemoveFork
        | Kind::DataRuns
        | Kind::ClearRange
        | Kind::CopyRange
        | Kind::ExtendCells
        | Kind::SendRange
        | Kind::Disks
        | Kind::Trim
        | Kind::Losses
        | Kind::AcceptLosses
        | Kind::Advise
        | Kind::Scrub
        | Kind::ScrubStatus
        | Kind::ListCells
        | Kind::ListKept
        | Kind::WhichDeleted
        | Kind::CheckStore
        | Kind::CheckNamespace
        | Kind::ListFiles
        | Kind::RepairNamespace
        | Kind::AdoptFile
        | Kind::NamesOf
        | Kind::Checkpoint
        | Kind::Rollback
        | Kind::DropCheckpoint
        | Kind::CollectiveRead
        | Kind::CollectiveWrite
        | Kind::JoinedRead
        | Kind::JoinedWrite
        | Kind::MakeCheckpoint
        | Kind::ListCheckpoints
        | Kind::RemoveCheckpoint
        | Kind::RollBack
        | Kind::Detach
        | Kind::Delegate
        | Kind::LimitGrowth
        | Kind::ListQuotas
        | Kind::QuotasOf
        | Kind::ListFileCheckpoints => false,
    }
}
