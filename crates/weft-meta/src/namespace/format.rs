//! Formatting: the records of an empty volume.

use prost::Message;
use weft_kv::{Batch, OrderedKv};
use weft_layout::{SERVERS_MAX, ServerId};
use weft_proto::meta::{FileKind, ROOT};

use crate::access::MODE;
use crate::error::MetaError;
use crate::limits::REPLICAS_MAX;
use crate::quota::Payer;
use crate::records::keys::{
    self, CLEAN_KEY, COUNTERS_KEY, INODES, QUOTAS, SERVERS, VOLUME, VOLUME_KEY,
};
use crate::records::record::{
    CountersRecord, FORMAT, InodeRecord, QuotaRecord, ReplicaRecord, ServerRecord, VolumeRecord,
};

/// What is fixed when a volume is formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSettings {
    /// The volume's id.
    pub id: [u8; 16],
    /// Its name, for humans.
    pub name: String,
    /// Its I/O servers and where they listen.
    pub servers: Vec<(ServerId, String)>,
    /// Further replicas of servers: their numbers, 1 to 3, and where they listen. The replica at
    /// the server's own address has the number 0.
    pub replicas: Vec<(ServerId, u32, String)>,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Permission bits of the root directory.
    pub mode: u32,
    /// The time of formatting, in nanoseconds since the epoch.
    pub now: i64,
}

/// Writes an empty volume into an engine that holds none.
///
/// # Durability
/// On stable storage on return.
pub(super) fn format(kv: &dyn OrderedKv, settings: &VolumeSettings) -> Result<(), MetaError> {
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
        let record = server_record(*id, address, settings);
        let record = record.encode_to_vec();
        changes.push((SERVERS, id.0.to_be_bytes().to_vec(), Some(record)));
    }
    kv.write(Batch { changes })?;
    Ok(kv.sync()?)
}

/// The record of a server whose stores are all empty, and so in sync.
fn server_record(id: ServerId, address: &str, settings: &VolumeSettings) -> ServerRecord {
    let further = settings.replicas.iter().filter(|(of, ..)| *of == id);
    let further = further.map(|(_, number, address)| (*number, address.as_str()));
    let mut replicas: Vec<(u32, &str)> = std::iter::once((0, address)).chain(further).collect();
    replicas.sort_unstable();
    let mut record = ServerRecord {
        address: address.to_owned(),
        ..ServerRecord::default()
    };
    if replicas.len() > 1 {
        record.term = 1;
        record.in_sync = replicas.iter().map(|(number, _)| *number).collect();
        let replicas = replicas.into_iter().map(|(number, address)| ReplicaRecord {
            number,
            address: address.to_owned(),
            ..ReplicaRecord::default()
        });
        record.replicas = replicas.collect();
    }
    record
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
    for (at, (id, number, _)) in settings.replicas.iter().enumerate() {
        let same = |other: &&(ServerId, u32, String)| (other.0, other.1) == (*id, *number);
        if settings.replicas[..at].iter().any(|other| same(&other)) {
            return refuse(format!("replica {number} of server {id} is named twice"));
        }
        if *number == 0 || *number as usize >= REPLICAS_MAX || ids.binary_search(&id.0).is_err() {
            return refuse(format!(
                "server {id} cannot have a replica {number}: replicas have the numbers 0 to {}",
                REPLICAS_MAX - 1
            ));
        }
    }
    Ok(())
}
