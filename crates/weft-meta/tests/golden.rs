//! The bytes of every record, which never change: a volume outlives every build.

use std::fmt::Write;

use prost::Message;
use weft_meta::record::*;

fn fixed<M: Message + Default + PartialEq>(record: &M, hex: &str) {
    let mut bytes = String::new();
    for byte in record.encode_to_vec() {
        write!(bytes, "{byte:02x}").unwrap();
    }
    assert_eq!(bytes, hex);
    let read = M::decode(record.encode_to_vec().as_slice()).unwrap();
    assert!(read == *record);
}

fn acl() -> AclRecord {
    AclRecord {
        owner: 6,
        group: 4,
        other: 1,
        mask: Some(7),
        users: vec![1000, 6],
        groups: vec![300, 0],
    }
}

fn layout() -> LayoutRecord {
    LayoutRecord {
        cells: 4,
        bsu: 65536,
        chunk: 262_144,
        servers: vec![3, 1, 300],
        storage: 1,
        parity: 0,
    }
}

#[test]
fn layout_records_keep_their_bytes() {
    fixed(&layout(), "0804108080041880801022040301ac022801");
}

#[test]
fn default_layout_records_keep_their_bytes() {
    let record = DefaultLayoutRecord {
        cells: Some(0),
        bsu: Some(7),
        chunk: Some(4096),
        servers: vec![2],
        base: Some(2),
        storage: None,
        replicas: None,
        parity: None,
    };
    fixed(&record, "080010071880202201022802");
    let addressed = DefaultLayoutRecord {
        storage: Some(1),
        ..record
    };
    fixed(&addressed, "0800100718802022010228023001");
    let replicated = DefaultLayoutRecord {
        replicas: Some(2),
        ..addressed
    };
    fixed(&replicated, "08001007188020220102280230013802");
}

#[test]
fn inode_records_keep_their_bytes() {
    let record = InodeRecord {
        kind: 1,
        mode: 0o6755,
        uid: 1000,
        gid: 100,
        links: 2,
        size: 1 << 40,
        size_exact: true,
        accessed: 1,
        modified: -2,
        changed: 3,
        created: 4,
        modified_set: 5,
        written: 6,
        device: 7,
        layout: Some(layout()),
        layout_options: Some(DefaultLayoutRecord::default()),
        parent: 8,
        text: b"text".to_vec(),
        xattr_bytes: 9,
        truncate: 10,
        truncate_raced: true,
        inline: true,
        acl: Some(acl()),
        default_acl: Some(AclRecord::default()),
        frozen: None,
        tree: 0,
        fork_bytes: 300,
        forks_changed: true,
        policy: String::new(),
        codings: None,
    };
    fixed(
        &record,
        "080110ed1b18e80720642802308080808080203801400148feffffffffffffffff01500358046005680670077a120804108080041880801022040301ac02280182010088010892010474657874980109a0010aa80101b00101ba011208061004180120072a03e807063203ac0200c20100d801ac02e00101",
    );
}

fn codings() -> CodingsRecord {
    CodingsRecord {
        done: Some(CodingRecord {
            checkpoint: 300,
            parity_file: 301,
            shape: 4 << 8 | 1,
            primaries: vec![1, 300, 2],
            written: 6,
            modified: -2,
            size: 12,
        }),
        begun: None,
    }
}

#[test]
fn records_of_parity_keep_their_bytes() {
    let with_parity = LayoutRecord {
        parity: 4 << 8 | 1,
        ..LayoutRecord::default()
    };
    fixed(&with_parity, "308108");
    let chosen = DefaultLayoutRecord {
        parity: Some(0),
        ..DefaultLayoutRecord::default()
    };
    fixed(&chosen, "4000");
    let begun = CodingsRecord {
        begun: Some(CodingRecord::default()),
        ..CodingsRecord::default()
    };
    let inode = InodeRecord {
        codings: Some(begun),
        ..InodeRecord::default()
    };
    fixed(&inode, "f201021200");
    fixed(&ParityRecord { file: 300 }, "08ac02");
}

#[test]
fn small_records_keep_their_bytes() {
    fixed(&EntryRecord { id: 300, kind: 2 }, "08ac021002");
    fixed(&OrphanRecord { since: 5 }, "0805");
    let inline = InlineRecord {
        data: b"in".to_vec(),
        spilling: true,
    };
    fixed(&inline, "0a02696e1001");
    let with_policy = InodeRecord {
        policy: "nfs".into(),
        ..InodeRecord::default()
    };
    fixed(&with_policy, "ea01036e6673");
    let value = b"v".to_vec();
    fixed(&XattrRecord { value }, "0a0176");
    let address = "host:1".to_owned();
    let known = ServerRecord {
        address,
        ..ServerRecord::default()
    };
    fixed(&known, "0a06686f73743a31");
    let reformatted = ServerRecord {
        store: b"id".to_vec(),
        since: 300,
        ..known
    };
    fixed(&reformatted, "0a06686f73743a311202696418ac02");
    let said = ServerRecord {
        incarnation: 0x0102_0304_0506_0708,
        sequence: 300,
        ..reformatted
    };
    fixed(
        &said,
        "0a06686f73743a311202696418ac0221080706050403020128ac02",
    );
    let accepted = ServerRecord { doubt: 300, ..said };
    fixed(
        &accepted,
        "0a06686f73743a311202696418ac0221080706050403020128ac0230ac02",
    );
    let replicated = ServerRecord {
        replicas: vec![ReplicaRecord {
            number: 1,
            address: "b:1".into(),
            store: b"id".to_vec(),
            incarnation: 2,
            ..ReplicaRecord::default()
        }],
        in_sync: vec![0, 1],
        primary: 1,
        term: 300,
        ..ServerRecord::default()
    };
    fixed(
        &replicated,
        "3a1408011203623a311a02696421020000000000000042020001480150ac02",
    );
    let left = ReplicaRecord {
        leaving: true,
        domain: "r".into(),
        restarted: true,
        ..ReplicaRecord::default()
    };
    fixed(&left, "28013201723801");
    let joined = ServerRecord {
        next_replica: 2,
        joined: true,
        removed: true,
        ..ServerRecord::default()
    };
    fixed(&joined, "580260016801");
}

#[test]
fn intent_records_keep_their_bytes() {
    let delete = IntentRecord {
        file: 9,
        delete: Some(DeleteRecord {
            servers: vec![1, 2],
        }),
        truncate: None,
        checkpoint: None,
    };
    fixed(&delete, "080912040a020102");
    let truncate = IntentRecord {
        file: 9,
        delete: None,
        truncate: Some(TruncateRecord {
            layout: Some(layout()),
            size: 0,
        }),
        checkpoint: None,
    };
    fixed(
        &truncate,
        "08091a140a120804108080041880801022040301ac022801",
    );
    let rollback = IntentRecord {
        file: 9,
        delete: None,
        truncate: None,
        checkpoint: Some(CheckpointTaskRecord {
            layout: Some(layout()),
            task: 1,
            checkpoint: 5,
            size: 300,
            name: "c".into(),
            image: 0,
        }),
    };
    fixed(
        &rollback,
        "0809221e0a120804108080041880801022040301ac022801100118052\
         0ac022a0163",
    );
    let checkpoint = CheckpointRecord {
        number: 5,
        made: 1,
        size: 300,
        state: 1,
        image: 0,
        names: 0,
        forks: true,
    };
    fixed(&checkpoint, "0805100118ac0220013801");
}

#[test]
fn tree_records_keep_their_bytes() {
    let checkpoint = CheckpointRecord {
        number: 5,
        made: 1,
        size: 300,
        state: 1,
        image: 6,
        names: 7,
        forks: false,
    };
    fixed(&checkpoint, "0805100118ac02200128063007");
    let task = CheckpointTaskRecord {
        name: "c".into(),
        image: 6,
        ..CheckpointTaskRecord::default()
    };
    fixed(&task, "2a01633006");
    fixed(&TreeFileRecord { image: 6 }, "0806");
    let held = HoldRecord {
        checkpoints: 2,
        deleted: true,
        codings: None,
        layout: None,
    };
    fixed(&held, "08021001");
    let coded = HoldRecord {
        codings: Some(codings()),
        layout: Some(LayoutRecord::default()),
        ..held
    };
    fixed(
        &coded,
        "080210011a200a1e08ac0210ad02188108220401ac0202280630feffffffffffffffff01380c2200",
    );
    let frozen = FrozenRecord {
        checkpoint: 5,
        source: 300,
        own_cells: true,
    };
    fixed(&frozen, "080510ac021801");
    let inode = InodeRecord {
        frozen: Some(frozen),
        ..InodeRecord::default()
    };
    fixed(&inode, "ca0107080510ac021801");
    let inode = InodeRecord {
        tree: 300,
        ..InodeRecord::default()
    };
    fixed(&inode, "d001ac02");
    let quota = QuotaRecord {
        bytes: 300,
        bytes_high: 1,
        files: 2,
        bytes_max: Some(0),
        files_max: Some(300),
        above: 7,
    };
    fixed(&quota, "08ac0210011802200028ac023007");
}

#[test]
fn volume_records_keep_their_bytes() {
    let volume = VolumeRecord {
        format: 1,
        id: (0..16).collect(),
        name: "home".into(),
    };
    fixed(
        &volume,
        "08011210000102030405060708090a0b0c0d0e0f1a04686f6d65",
    );
    let counters = CountersRecord {
        next_id: 1,
        next_intent: 2,
        files: 3,
        intents: 4,
        epoch: 5,
    };
    fixed(&counters, "08011002180320042805");
}

#[test]
fn a_record_of_a_later_version_can_be_read() {
    let mut bytes = EntryRecord { id: 300, kind: 2 }.encode_to_vec();
    // Tag 100, as a later version might add.
    bytes.extend_from_slice(&[0xa0, 0x06, 0x01]);
    assert_eq!(EntryRecord::decode(bytes.as_slice()).unwrap().id, 300);
}
