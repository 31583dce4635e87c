//! Access control lists: what they allow, how they relate to modes, and what new files inherit.

use crate::common;

use common::{Volume, at, attaching, creating, who};
use proptest::prelude::*;
use weft_meta::MetaError;
use weft_proto::meta::*;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const NOBODY: u32 = u32::MAX;

on_both_engines! {
    the_acl_and_the_mode_agree
    an_acl_that_a_mode_can_express_is_stored_as_the_mode
    only_the_owner_sets_an_acl_and_only_directories_have_default_ones
    new_files_inherit_the_default_acl_of_their_directory
    without_a_default_acl_the_umask_applies
    acls_are_listed_and_removed
    other_system_attributes_are_not_supported
}

type Entries = Vec<(u16, u16, u32)>;

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set(v: &mut Volume, uid: u32, path: &str, name: &str, value: &[u8]) -> Result<(), MetaError> {
    let request = SetXattrRequest {
        who: who(uid),
        target: at(path),
        name: name.as_bytes().to_vec().into(),
        value: value.to_vec().into(),
        create: false,
        replace: false,
    };
    let now = v.tick();
    v.meta.set_xattr(now, &request).map(|_| ())
}

fn get(v: &Volume, path: &str, name: &str) -> Result<Vec<u8>, MetaError> {
    let request = GetXattrRequest {
        who: who(0),
        target: at(path),
        name: name.as_bytes().to_vec().into(),
    };
    Ok(v.meta.get_xattr(&request)?.value.to_vec())
}

fn may(v: &mut Volume, uid: u32, path: &str, read: bool, write: bool) -> bool {
    let request = attaching(uid, path, read, write);
    match v.attach(9, &request) {
        Ok(attached) => {
            v.detach(9, attached.reply.attributes.id, write);
            true
        }
        Err(MetaError::Denied { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn sample() -> Entries {
    vec![
        (1, 6, NOBODY),
        (2, 7, 5),
        (4, 0, NOBODY),
        (8, 4, 20),
        (16, 6, NOBODY),
        (32, 0, NOBODY),
    ]
}

fn the_acl_and_the_mode_agree(v: &mut Volume) {
    v.create(1, "f", 0o644).unwrap();
    refused!(get(v, "f", ACCESS), NoAttribute);
    let before = v.stat(0, "f").unwrap();
    set(v, 1, "f", ACCESS, &acl(&sample())).unwrap();
    let after = v.stat(0, "f").unwrap();
    assert_eq!(after.mode, 0o660, "the group's bits are the mask");
    assert!(after.changed > before.changed);
    assert_eq!(get(v, "f", ACCESS).unwrap(), acl(&sample()));
    assert!(may(v, 5, "f", true, true));
    assert!(may(v, 6, "f", true, false), "group 20 grants it");
    assert!(!may(v, 6, "f", true, true));
    v.chmod(1, "f", 0o604).unwrap();
    assert!(!may(v, 5, "f", true, false), "the mask is empty");
    let masked = get(v, "f", ACCESS).unwrap();
    let mut expected = sample();
    expected[4].1 = 0;
    expected[5].1 = 4;
    assert_eq!(masked, acl(&expected));
}

fn an_acl_that_a_mode_can_express_is_stored_as_the_mode(v: &mut Volume) {
    v.create(1, "f", 0o7644).unwrap();
    let minimal = acl(&[(1, 7, NOBODY), (4, 5, NOBODY), (32, 1, NOBODY)]);
    set(v, 1, "f", ACCESS, &minimal).unwrap();
    assert_eq!(v.stat(0, "f").unwrap().mode, 0o7751);
    refused!(get(v, "f", ACCESS), NoAttribute);
}

fn only_the_owner_sets_an_acl_and_only_directories_have_default_ones(v: &mut Volume) {
    v.create(1, "f", 0o666).unwrap();
    v.mkdir(1, "d", 0o777).unwrap();
    v.symlink(1, "l", "f").unwrap();
    let value = acl(&sample());
    refused!(set(v, 2, "f", ACCESS, &value), NotOwner);
    refused!(set(v, 2, "d", DEFAULT, &value), NotOwner);
    refused!(set(v, 1, "f", DEFAULT, &value), Permission);
    refused!(set(v, 1, "@l", ACCESS, &value), Unsupported);
    set(v, 0, "d", DEFAULT, &value).unwrap();
    assert_eq!(
        v.stat(0, "d").unwrap().mode,
        0o777,
        "a default ACL does not change the mode of its directory"
    );
    // On a file of a group that the caller is not in, the set-group-ID bit is cleared, as by chmod.
    v.chown(0, "f", None, Some(77)).unwrap();
    v.chmod(0, "f", 0o2755).unwrap();
    set(v, 1, "f", ACCESS, &value).unwrap();
    assert_eq!(v.stat(0, "f").unwrap().mode, 0o660);
}

fn attach_with(v: &mut Volume, path: &str, mode: u32, umask: u32) -> Attributes {
    let mut request = creating(1, path, mode, true);
    request.create.as_mut().unwrap().umask = umask;
    v.attach(1, &request).unwrap().reply.attributes
}

fn new_files_inherit_the_default_acl_of_their_directory(v: &mut Volume) {
    v.mkdir(1, "d", 0o777).unwrap();
    let default = [
        (1, 7, NOBODY),
        (2, 7, 5),
        (4, 5, NOBODY),
        (16, 7, NOBODY),
        (32, 5, NOBODY),
    ];
    set(v, 1, "d", DEFAULT, &acl(&default)).unwrap();
    let file = attach_with(v, "d/f", 0o640, 0o077);
    assert_eq!(file.mode, 0o640, "the umask does not apply");
    let mut inherited = default;
    (inherited[0].1, inherited[3].1, inherited[4].1) = (6, 4, 0);
    assert_eq!(get(v, "d/f", ACCESS).unwrap(), acl(&inherited));
    assert!(may(v, 5, "d/f", true, false));
    assert!(
        !may(v, 5, "d/f", true, true),
        "the requested mode limits the mask"
    );
    let request = MakeDirectoryRequest {
        who: who(1),
        target: at("d/e"),
        mode: 0o777,
        umask: 0o077,
        lease: false,
    };
    let now = v.tick();
    let made = v.meta.make_directory(now, &request).unwrap().attributes;
    assert_eq!(made.mode, 0o775);
    assert_eq!(get(v, "d/e", DEFAULT).unwrap(), acl(&default));
    v.symlink(1, "d/l", "f").unwrap();
    assert_eq!(v.stat(0, "@d/l").unwrap().mode, 0o777);
    // A default ACL without a mask gives a mode and no ACL.
    let minimal = [(1, 7, NOBODY), (4, 5, NOBODY), (32, 0, NOBODY)];
    set(v, 1, "d", DEFAULT, &acl(&minimal)).unwrap();
    assert_eq!(attach_with(v, "d/g", 0o666, 0).mode, 0o640);
    refused!(get(v, "d/g", ACCESS), NoAttribute);
}

fn without_a_default_acl_the_umask_applies(v: &mut Volume) {
    assert_eq!(attach_with(v, "f", 0o4777, 0o027).mode, 0o4750);
    let request = MakeNodeRequest {
        who: who(1),
        target: at("n"),
        kind: FileKind::Fifo.into(),
        mode: 0o666,
        device: 0,
        umask: 0o022,
    };
    assert_eq!(
        v.meta.make_node(5, &request).unwrap().attributes.mode,
        0o644
    );
}

fn acls_are_listed_and_removed(v: &mut Volume) {
    v.mkdir(1, "d", 0o755).unwrap();
    set(v, 1, "d", ACCESS, &acl(&sample())).unwrap();
    set(v, 1, "d", DEFAULT, &acl(&sample())).unwrap();
    set(v, 1, "d", "user.x", b"v").unwrap();
    let list = |v: &Volume| {
        let request = ListXattrRequest {
            who: who(0),
            target: at("d"),
        };
        v.meta.list_xattr(&request).unwrap().names
    };
    assert_eq!(list(v), [ACCESS, DEFAULT, "user.x"]);
    for name in [ACCESS, DEFAULT] {
        let request = RemoveXattrRequest {
            who: who(1),
            target: at("d"),
            name: name.as_bytes().to_vec().into(),
        };
        v.meta.remove_xattr(9, &request).unwrap();
        v.meta.remove_xattr(9, &request).unwrap();
        refused!(get(v, "d", name), NoAttribute);
    }
    assert_eq!(list(v), ["user.x"]);
    assert_eq!(
        v.stat(0, "d").unwrap().mode,
        0o660,
        "the mask stays the group's"
    );
    // A list without entries removes it, too.
    set(v, 1, "d", DEFAULT, &acl(&sample())).unwrap();
    set(v, 1, "d", DEFAULT, &acl(&[])).unwrap();
    refused!(get(v, "d", DEFAULT), NoAttribute);
}

fn other_system_attributes_are_not_supported(v: &mut Volume) {
    v.create(0, "f", 0o644).unwrap();
    refused!(set(v, 0, "f", "system.else", b"v"), Unsupported);
    refused!(get(v, "f", "system.else"), Unsupported);
    refused!(set(v, 0, "f", "user.", b"v"), Invalid);
}

#[test]
fn malformed_acls_are_refused() {
    let mut v = Volume::mem();
    v.create(0, "f", 0o644).unwrap();
    let change = |at: usize, entry: (u16, u16, u32)| {
        let mut entries = sample();
        entries[at] = entry;
        acl(&entries)
    };
    let without = |at: usize| {
        let mut entries = sample();
        entries.remove(at);
        acl(&entries)
    };
    let mut many = sample();
    for id in 0..251 {
        many.insert(2, (2, 7, id));
    }
    let mut version = acl(&sample());
    version[0] = 1;
    let mut longer = acl(&sample());
    longer.push(0);
    let bad = [
        Vec::new(),
        vec![2, 0, 0],
        version,
        longer,
        change(0, (1, 8, NOBODY)),
        change(1, (2, 7, NOBODY)),
        change(1, (1, 7, NOBODY)),
        change(1, (3, 7, 5)),
        change(3, (2, 4, 20)),
        without(0),
        without(2),
        without(4),
        without(5),
        acl(&many),
    ];
    for (number, value) in bad.iter().enumerate() {
        let error = set(&mut v, 0, "f", ACCESS, value);
        let error = error.expect_err(&format!("number {number} was accepted"));
        assert_eq!(error.code(), weft_proto::Code::Invalid);
    }
    many.pop();
    let most: Entries = many[..255]
        .iter()
        .copied()
        .chain([(32, 0, NOBODY)])
        .collect();
    let fits = most.len() == 256 && most.iter().any(|e| e.0 == 16);
    if fits {
        set(&mut v, 0, "f", ACCESS, &acl(&most)).unwrap();
    }
}

/// POSIX.1e 23.1.5: the steps of the access check algorithm for one process.
fn naive(entries: &Entries, owner: u32, group: u32, who: &Credentials, wanted: u16) -> bool {
    let find = |tag: u16| entries.iter().find(|e| e.0 == tag);
    let mask = find(16).map_or(7, |e| e.1);
    let member = |gid: u32| who.gid == gid || who.groups.contains(&gid);
    if who.uid == owner {
        return find(1).unwrap().1 & wanted == wanted;
    }
    for entry in entries.iter().filter(|e| e.0 == 2) {
        if entry.2 == who.uid {
            return entry.1 & mask & wanted == wanted;
        }
    }
    let mut matching = Vec::new();
    if member(group) {
        matching.push(find(4).unwrap().1);
    }
    for entry in entries.iter().filter(|e| e.0 == 8) {
        if member(entry.2) {
            matching.push(entry.1);
        }
    }
    if !matching.is_empty() {
        return matching.iter().any(|bits| bits & mask & wanted == wanted);
    }
    find(32).unwrap().1 & wanted == wanted
}

fn entries() -> impl Strategy<Value = Entries> {
    let named = || prop::collection::btree_map(1u32..6, 0u16..8, 0..4);
    let groups = prop::collection::btree_map(
        prop::sample::select(vec![1u32, 2, 3, 20, 30]),
        0u16..8,
        0..4,
    );
    (
        (0u16..8, 0u16..8, 0u16..8),
        named(),
        groups,
        prop::option::of(0u16..8),
    )
        .prop_map(|((owner, group, other), users, groups, mask)| {
            let mask = mask.or((!users.is_empty() || !groups.is_empty()).then_some(5));
            let mut entries = vec![(1, owner, NOBODY)];
            entries.extend(users.into_iter().map(|(id, bits)| (2, bits, id)));
            entries.push((4, group, NOBODY));
            entries.extend(groups.into_iter().map(|(id, bits)| (8, bits, id)));
            entries.extend(mask.map(|bits| (16, bits, NOBODY)));
            entries.push((32, other, NOBODY));
            entries
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_acl_grants_access_as_posix_specifies(
        entries in entries(),
        owner in 1u32..6,
        group in prop::sample::select(vec![1u32, 2, 3, 20, 30, 40]),
    ) {
        let mut v = Volume::mem();
        v.create(0, "f", 0o600).unwrap();
        v.chown(0, "f", Some(owner), Some(group)).unwrap();
        set(&mut v, 0, "f", ACCESS, &acl(&entries)).unwrap();
        for uid in 1..7 {
            for wanted in [4u16, 2, 6] {
                let allowed = may(&mut v, uid, "f", wanted & 4 != 0, wanted & 2 != 0);
                let expected = naive(&entries, owner, group, &who(uid), wanted);
                prop_assert_eq!(allowed, expected, "user {} wants {}", uid, wanted);
            }
        }
        v.check();
    }
}
