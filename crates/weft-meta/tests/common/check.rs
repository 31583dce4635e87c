//! The invariants of the namespace, checked on the bytes in the engine. The key layout is repeated
//! here on purpose: it must not change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use prost::Message;
use weft_kv::{OrderedKv, Reader, Space};
use weft_meta::record::{
    CheckpointRecord, CountersRecord, EntryRecord, HoldRecord, InlineRecord, InodeRecord,
    IntentRecord, OrphanRecord, QuotaRecord, TreeFileRecord, XattrRecord,
};

const REGULAR: i32 = 1;
const DIRECTORY: i32 = 2;

fn all<M: Message + Default>(reader: &dyn Reader, space: &'static str) -> Vec<(Vec<u8>, M)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), M::decode(value).unwrap()));
        ControlFlow::Continue(())
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(Space(space), all.0, all.1, &mut visit).unwrap();
    found
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().unwrap())
}

#[allow(clippy::too_many_lines, reason = "a list of checks")]
pub fn invariants(kv: &dyn OrderedKv) {
    let reader = &*kv.snapshot().unwrap();
    let inodes: BTreeMap<u64, InodeRecord> = all(reader, "inodes")
        .into_iter()
        .map(|(key, record)| (number(&key), record))
        .collect();
    let orphans: BTreeSet<u64> = all::<OrphanRecord>(reader, "orphans")
        .iter()
        .map(|(key, _)| number(key))
        .collect();
    let mut names: BTreeMap<u64, u32> = BTreeMap::new();
    let mut entries: BTreeMap<u64, u64> = BTreeMap::new();
    let mut subdirectories: BTreeMap<u64, u32> = BTreeMap::new();
    for (key, entry) in all::<EntryRecord>(reader, "entries") {
        let parent = number(&key);
        let inode = inodes.get(&entry.id).expect("an entry names an inode");
        assert_eq!(inode.kind, entry.kind);
        assert_eq!(inodes[&parent].kind, DIRECTORY);
        assert!(
            inodes[&parent].links > 0,
            "a removed directory has an entry"
        );
        *names.entry(entry.id).or_default() += 1;
        *entries.entry(parent).or_default() += 1;
        if entry.kind == DIRECTORY {
            *subdirectories.entry(parent).or_default() += 1;
            assert_eq!(inode.parent, parent, "a directory records its parent");
        }
    }
    let intents: Vec<(u64, IntentRecord)> = all(reader, "intents")
        .into_iter()
        .map(|(key, record)| (number(&key), record))
        .collect();
    let images: BTreeMap<u64, (u64, u64)> = all::<CheckpointRecord>(reader, "checkpoints")
        .into_iter()
        .filter(|(_, record)| record.image != 0)
        .map(|(key, record)| (record.image, (number(&key), record.number)))
        .collect();
    trees(reader, &inodes, &images);
    for (id, inode) in &inodes {
        let known_by = names.get(id).copied().unwrap_or(0);
        assert_eq!(orphans.contains(id), inode.links == 0, "orphan {id}");
        if inode.kind == DIRECTORY {
            assert!(known_by <= 1, "a directory has one name");
            let inside = subdirectories.get(id).copied().unwrap_or(0);
            assert!(
                known_by == 1 || *id == 1 || inode.links == 0 || images.contains_key(id),
                "directory {id} is unreachable"
            );
            if inode.links > 0 {
                assert_eq!(inode.links, 2 + inside, "links of directory {id}");
            }
            assert_eq!(
                inode.size,
                entries.get(id).copied().unwrap_or(0),
                "entries of {id}"
            );
        } else {
            assert_eq!(inode.links, known_by, "links of {id}");
        }
        assert_eq!(inode.kind == REGULAR, inode.layout.is_some());
        if inode.truncate != 0 {
            assert!(
                !inode.size_exact,
                "a size is exact while a truncate is pending"
            );
            let intent = intents.iter().find(|(number, _)| *number == inode.truncate);
            let intent = &intent.expect("the truncate is pending").1;
            let of_tree = intent.checkpoint.as_ref().filter(|task| task.image != 0);
            assert!(intent.file == *id || of_tree.is_some());
        }
        // Every directory leads to the root.
        let (mut at, mut steps) = (*id, 0);
        while inode.kind == DIRECTORY && inode.links > 0 && at != 1 && !images.contains_key(&at) {
            at = inodes[&at].parent;
            steps += 1;
            assert!(steps <= inodes.len(), "directories form a cycle");
        }
    }
    for id in &orphans {
        assert!(inodes.contains_key(id), "an orphan is an inode");
    }
    for (_, intent) in &intents {
        let sorts = [
            intent.delete.is_some(),
            intent.truncate.is_some(),
            intent.checkpoint.is_some(),
        ];
        assert_eq!(sorts.iter().filter(|sort| **sort).count(), 1);
        if intent.delete.is_some() {
            assert!(
                !inodes.contains_key(&intent.file),
                "a deleted file has no inode"
            );
        }
    }
    let mut xattrs: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, record) in all::<XattrRecord>(reader, "xattrs") {
        let bytes = (key.len() - 8 + record.value.len()) as u64;
        *xattrs.entry(number(&key)).or_default() += bytes;
    }
    for (id, bytes) in xattrs {
        assert_eq!(
            inodes[&id].xattr_bytes, bytes,
            "bytes of attributes of {id}"
        );
    }
    let inline: BTreeMap<u64, InlineRecord> = all(reader, "inline")
        .into_iter()
        .map(|(key, record)| (number(&key), record))
        .collect();
    for (id, inode) in inodes.iter().filter(|(_, inode)| inode.inline) {
        let length = inline.get(id).map_or(0, |record| record.data.len());
        assert_eq!(inode.size, length as u64, "bytes of inline file {id}");
        assert!(inode.size_exact && inode.kind == REGULAR);
    }
    for (id, record) in &inline {
        assert!(inodes[id].inline, "a record of a file of cells");
        assert!(!record.data.is_empty());
    }
    usage(reader, &inodes);
    let counters = reader.get(Space("volume"), b"counters").unwrap().unwrap();
    let counters = CountersRecord::decode(counters.as_slice()).unwrap();
    assert_eq!(counters.files, inodes.len() as u64);
    assert_eq!(counters.intents, intents.len() as u64);
    assert!(inodes.keys().all(|id| *id < counters.next_id));
    assert!(
        intents
            .iter()
            .all(|(number, _)| *number < counters.next_intent)
    );
}

/// The ids of regular files that have an inode and may have cells, and of those with a pending
/// delete. An inline file is deleted in one transaction, without an intent.
pub fn regular_and_owed(kv: &dyn OrderedKv) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let reader = &*kv.snapshot().unwrap();
    let inodes = all::<InodeRecord>(reader, "inodes");
    let inline = all::<InlineRecord>(reader, "inline").into_iter();
    let spilling = inline.filter(|(_, record)| record.spilling);
    let spilling: BTreeSet<u64> = spilling.map(|(key, _)| number(&key)).collect();
    let living = |id: u64, inode: &InodeRecord| {
        let cells = !inode.inline || spilling.contains(&id);
        inode.kind == REGULAR && inode.frozen.is_none() && cells
    };
    let inodes = inodes.iter();
    let inodes = inodes.filter(|(key, inode)| living(number(key), inode));
    let intents = all::<IntentRecord>(reader, "intents");
    let intents = intents.iter().filter(|(_, intent)| intent.delete.is_some());
    // The cells of a deleted file with a hold have no delete yet, and are not lost.
    let holds = all::<HoldRecord>(reader, "held").into_iter();
    let holds = holds.filter(|(_, holds)| holds.deleted);
    let deletes = intents.map(|(_, intent)| intent.file);
    (
        inodes.map(|(key, _)| number(key)).collect(),
        deletes.chain(holds.map(|(key, _)| number(&key))).collect(),
    )
}

/// The recorded usage of users, groups and trees is that of the inodes; trees are those that
/// directories name.
fn usage(reader: &dyn Reader, inodes: &BTreeMap<u64, InodeRecord>) {
    let records: BTreeMap<Vec<u8>, QuotaRecord> =
        all::<QuotaRecord>(reader, "quotas").into_iter().collect();
    let key = |kind: u8, id: u64| [&[kind][..], &id.to_be_bytes()].concat();
    let mut counted: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    for (id, inode) in inodes.iter().filter(|(_, inode)| inode.frozen.is_none()) {
        let bytes = if inode.kind == REGULAR { inode.size } else { 0 };
        let mut payers = vec![key(1, inode.uid.into()), key(2, inode.gid.into())];
        let mut tree = inode.tree;
        while tree != 0 {
            payers.push(key(3, tree));
            tree = records[&key(3, tree)].above;
        }
        for payer in payers {
            let used = counted.entry(payer).or_default();
            *used = (used.0 + bytes, used.1 + 1);
        }
        let parent = inodes.get(&inode.parent);
        if let Some(parent) =
            parent.filter(|_| inode.kind == DIRECTORY && inode.links > 0 && *id != 1)
        {
            let outer = if inode.tree == *id {
                records[&key(3, *id)].above
            } else {
                inode.tree
            };
            assert_eq!(outer, parent.tree, "the tree of directory {id}");
        }
    }
    for (payer, record) in &records {
        let used = counted.remove(payer).unwrap_or_default();
        assert_eq!((record.bytes, record.files), used, "usage of {payer:?}");
        let bound = record.bytes_max.is_some() || record.files_max.is_some();
        assert!(record.files > 0 || bound, "an idle record of {payer:?}");
    }
    assert!(counted.is_empty(), "usage without a record: {counted:?}");
}

/// The records of checkpoints of trees agree; `images`: the root of each, with its directory and
/// number.
fn trees(
    reader: &dyn Reader,
    inodes: &BTreeMap<u64, InodeRecord>,
    images: &BTreeMap<u64, (u64, u64)>,
) {
    let mut holds: BTreeMap<u64, u32> = BTreeMap::new();
    let mut pairs = BTreeSet::new();
    for (key, record) in all::<TreeFileRecord>(reader, "tree_files") {
        let (checkpoint, file) = (number(&key), number(&key[8..]));
        let frozen = inodes[&record.image].frozen.expect("an image is frozen");
        assert_eq!((frozen.checkpoint, frozen.source), (checkpoint, file));
        *holds.entry(file).or_default() += 1;
        pairs.insert((checkpoint, file));
    }
    let counted = all::<HoldRecord>(reader, "held").into_iter();
    let counted: BTreeMap<u64, HoldRecord> = counted.map(|(key, h)| (number(&key), h)).collect();
    assert_eq!(holds.len(), counted.len(), "holds");
    for (file, count) in holds {
        assert_eq!(
            counted[&file].checkpoints, count,
            "checkpoints that hold {file}"
        );
        assert_eq!(
            counted[&file].deleted,
            !inodes.contains_key(&file),
            "{file}"
        );
    }
    let numbers: BTreeSet<u64> = images.values().map(|(_, number)| *number).collect();
    for (id, inode) in inodes {
        let Some(frozen) = inode.frozen else {
            continue;
        };
        assert!(
            numbers.contains(&frozen.checkpoint),
            "image {id} of no checkpoint"
        );
        if inode.kind == REGULAR && !inode.inline {
            assert!(pairs.contains(&(frozen.checkpoint, frozen.source)));
        }
    }
    for (image, (directory, _)) in images {
        assert_eq!(
            inodes[image].parent, *image,
            "an image's root is its own parent"
        );
        assert_eq!(inodes[directory].kind, DIRECTORY);
    }
}
