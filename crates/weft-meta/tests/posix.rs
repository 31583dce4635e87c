//! Paths, permissions, links and times, as POSIX specifies them; every test name is a promise.

use crate::common;

use common::{Volume, at, attaching, by_id, creating, who};
use prost::Message;
use weft_meta::HARD_LINKS_MAX;
use weft_meta::record::InodeRecord;
use weft_proto::meta::*;

on_both_engines! {
    dots_and_slashes_resolve_as_in_unix
    dot_dot_above_the_root_is_the_root
    bad_paths_are_refused
    too_long_names_and_paths_are_refused
    every_directory_of_a_path_needs_search_permission
    up_to_forty_symbolic_links_are_followed
    a_link_at_the_end_of_a_path_is_followed_only_on_request
    a_trailing_slash_requires_a_directory
    creating_through_a_dangling_link_creates_its_target
    exclusive_creation_does_not_follow_a_link
    attach_checks_access_and_kind
    a_sticky_directory_protects_the_files_of_others
    a_setgid_directory_passes_on_its_group
    only_root_changes_the_owner_of_files
    chown_clears_set_id_bits
    only_the_owner_can_chmod_and_only_members_keep_setgid
    the_owner_sets_any_time_and_a_writer_only_the_current_one
    creating_and_removing_names_changes_the_times_of_the_parent
    the_links_of_a_directory_count_its_subdirectories
    hard_links_share_one_file
    the_number_of_hard_links_is_bounded
    directories_have_one_name
    only_empty_directories_can_be_removed
    only_root_makes_device_nodes
    a_listing_pages_in_the_order_of_bytes
    a_listing_stays_stable_while_names_are_added_and_removed
    extended_attributes_follow_the_rules_of_linux
    extended_attributes_are_removed_with_their_file
    a_file_id_is_never_used_twice
    layouts_are_inherited
}

fn dots_and_slashes_resolve_as_in_unix(v: &mut Volume) {
    v.mkdir(0, "a", 0o755).unwrap();
    let b = v.mkdir(0, "/a//b/", 0o755).unwrap();
    let f = v.create(0, "a/b/f", 0o644).unwrap();
    for path in ["a/b", "/a/b/", "//a/./b//", "a/b/.", "a/b/../b", "a/../a/b"] {
        assert_eq!(v.stat(0, path).unwrap().id, b.id, "{path}");
    }
    assert_eq!(v.stat(0, "a/b/../b/./f").unwrap().id, f.id);
    let from_b = |path: &str| Target {
        at: b.id,
        ..at(path)
    };
    assert_eq!(v.stat_target(0, from_b("f")).unwrap().id, f.id);
    assert_eq!(v.stat_target(0, from_b("../../a/b/f")).unwrap().id, f.id);
    assert_eq!(v.stat_target(0, from_b("/a/b")).unwrap().id, b.id);
    assert_eq!(v.stat_target(0, by_id(f.id)).unwrap().id, f.id);
    refused!(v.stat(0, "a/b/f/."), NotDirectory);
    refused!(v.stat(0, "a/b/f/.."), NotDirectory);
    refused!(v.stat(0, "a/x/b"), NotFound);
    refused!(v.stat_target(0, by_id(999)), Stale);
}

fn dot_dot_above_the_root_is_the_root(v: &mut Volume) {
    let a = v.mkdir(0, "../../a", 0o755).unwrap();
    assert_eq!(v.stat(0, "/../..").unwrap().id, ROOT);
    assert_eq!(v.stat(0, "/../a/../../a").unwrap().id, a.id);
}

fn bad_paths_are_refused(v: &mut Volume) {
    refused!(v.stat(0, "a\0b"), Invalid);
    refused!(v.mkdir(0, "", 0o755), NotFound);
    refused!(v.create(0, "", 0o644), Exists);
    refused!(v.unlink(0, ""), NotFound);
    refused!(v.rename(0, "", "b"), NotFound);
    refused!(v.mkdir(0, "/", 0o755), Exists);
    refused!(v.mkdir(0, "..", 0o755), Exists);
    refused!(v.unlink(0, "."), IsDirectory);
    refused!(v.rmdir(0, "."), Invalid);
    refused!(v.rmdir(0, ".."), NotEmpty);
    refused!(v.rmdir(0, "/"), Invalid);
    refused!(v.rename(0, ".", "b"), Invalid);
    refused!(v.symlink(0, "l", ""), NotFound);
    refused!(v.symlink(0, "l", "a\0b"), Invalid);
}

fn too_long_names_and_paths_are_refused(v: &mut Volume) {
    let name = "n".repeat(255);
    v.mkdir(0, &name, 0o755).unwrap();
    refused!(v.mkdir(0, &"n".repeat(256), 0o755), NameTooLong);
    refused!(v.stat(0, &"n".repeat(256)), NameTooLong);
    let deep = "./".repeat(2048);
    assert_eq!(v.stat(0, &deep).unwrap().id, ROOT);
    refused!(v.stat(0, &format!("{deep}.")), NameTooLong);
    refused!(v.symlink(0, "l", &"t".repeat(4097)), NameTooLong);
}

fn every_directory_of_a_path_needs_search_permission(v: &mut Volume) {
    v.mkdir(1, "a", 0o700).unwrap();
    v.mkdir(1, "a/b", 0o777).unwrap();
    v.create(1, "a/b/f", 0o666).unwrap();
    assert!(v.stat(1, "a/b/f").is_ok());
    refused!(v.stat(2, "a/b/f"), Permission);
    refused!(v.stat(2, "a/."), Permission);
    refused!(v.stat(2, "a/.."), Permission);
    refused!(v.create(2, "a/b/g", 0o666), Permission);
    assert!(v.stat(0, "a/b/f").is_ok());
    v.chmod(1, "a", 0o711).unwrap();
    assert!(v.stat(2, "a/b/f").is_ok());
    refused!(v.list(2, "a"), Permission);
    v.chmod(1, "a", 0o744).unwrap();
    assert_eq!(v.list(2, "a").unwrap(), ["b"]);
    refused!(v.stat(2, "a/b"), Permission);
    // The owner's class counts for the owner, even if others have more permissions.
    v.chmod(1, "a", 0o077).unwrap();
    refused!(v.stat(1, "a/b"), Permission);
    // A supplementary group counts.
    v.chown(0, "a", Some(3), Some(20)).unwrap();
    v.chmod(0, "a", 0o710).unwrap();
    assert!(v.stat(2, "a/b/f").is_ok());
    refused!(v.mkdir(2, "a/new", 0o777), Permission);
}

fn up_to_forty_symbolic_links_are_followed(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap();
    let mut last = "f".to_owned();
    for i in 0..40 {
        let link = format!("l{i}");
        v.symlink(0, &link, &last).unwrap();
        last = link;
    }
    assert_eq!(v.stat(0, "l39").unwrap().id, f.id);
    v.symlink(0, "l40", "l39").unwrap();
    refused!(v.stat(0, "l40"), Loop);
    v.symlink(0, "x", "y").unwrap();
    v.symlink(0, "y", "x").unwrap();
    refused!(v.stat(0, "x"), Loop);
    refused!(v.stat(0, "x/z"), Loop);
    refused!(v.attach(1, &creating(0, "x", 0o644, false)), Loop);
}

fn a_link_at_the_end_of_a_path_is_followed_only_on_request(v: &mut Volume) {
    let d = v.mkdir(0, "d", 0o755).unwrap();
    v.mkdir(0, "d/e", 0o755).unwrap();
    let f = v.create(0, "d/e/f", 0o644).unwrap();
    let l = v.symlink(0, "l", "d").unwrap();
    v.symlink(0, "d/up", "../d/e/./f").unwrap();
    v.symlink(0, "abs", "/d/e").unwrap();
    assert_eq!(v.stat(0, "l").unwrap().id, d.id);
    assert_eq!(v.stat(0, "@l").unwrap().id, l.id);
    assert_eq!(v.stat(0, "@l/").unwrap().id, d.id);
    assert_eq!(v.stat(0, "@l/e/f").unwrap().id, f.id);
    assert_eq!(v.stat(0, "l/up").unwrap().id, f.id);
    assert_eq!(v.stat(0, "l/../abs/f").unwrap().id, f.id);
    let read = |path: &str| {
        let request = ReadLinkRequest {
            who: who(0),
            target: at(path),
        };
        v.meta.read_link(&request).map(|reply| reply.text)
    };
    assert_eq!(read("l").unwrap(), &b"d"[..]);
    refused!(read("d"), Invalid);
    assert_eq!((l.size, l.mode), (1, 0o777));
    // Removing and renaming a link concerns the link.
    v.rename(0, "l", "m").unwrap();
    assert_eq!(v.stat(0, "@m").unwrap().id, l.id);
    v.unlink(0, "m").unwrap();
    assert_eq!(v.stat(0, "d").unwrap().id, d.id);
    refused!(v.attach(1, &attaching(0, "@abs", true, false)), Loop);
}

fn a_trailing_slash_requires_a_directory(v: &mut Volume) {
    v.create(0, "f", 0o644).unwrap();
    v.mkdir(0, "d", 0o755).unwrap();
    v.symlink(0, "lf", "f").unwrap();
    v.symlink(0, "ld", "d").unwrap();
    refused!(v.stat(0, "f/"), NotDirectory);
    refused!(v.stat(0, "@lf/"), NotDirectory);
    assert!(v.stat(0, "ld/").is_ok());
    refused!(v.unlink(0, "f/"), NotDirectory);
    refused!(v.unlink(0, "ld/"), NotDirectory);
    refused!(v.rmdir(0, "ld/"), NotDirectory);
    refused!(v.rename(0, "f/", "g"), NotDirectory);
    refused!(v.rename(0, "f", "g/"), NotDirectory);
    v.rename(0, "d/", "e/").unwrap();
    refused!(v.symlink(0, "new/", "f"), NotFound);
    refused!(v.link(0, "f", "new/"), NotFound);
    refused!(v.attach(1, &creating(0, "new/", 0o644, false)), IsDirectory);
    refused!(v.attach(1, &attaching(0, "f/", true, false)), NotDirectory);
}

fn creating_through_a_dangling_link_creates_its_target(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    v.symlink(0, "l", "d/f").unwrap();
    refused!(v.stat(0, "l"), NotFound);
    let attached = v.attach(1, &creating(0, "l", 0o644, false)).unwrap();
    assert!(attached.reply.created && attached.committed);
    assert_eq!(v.stat(0, "d/f").unwrap().id, attached.reply.attributes.id);
    let again = v.attach(1, &creating(0, "l", 0o644, false)).unwrap();
    assert!(!again.reply.created && !again.committed);
}

fn exclusive_creation_does_not_follow_a_link(v: &mut Volume) {
    v.symlink(0, "l", "nowhere").unwrap();
    refused!(v.create(0, "l", 0o644), Exists);
    refused!(v.stat(0, "nowhere"), NotFound);
}

fn attach_checks_access_and_kind(v: &mut Volume) {
    v.create(1, "f", 0o640).unwrap();
    v.mkdir(1, "d", 0o755).unwrap();
    assert!(v.attach(1, &attaching(1, "f", true, true)).is_ok());
    refused!(v.attach(1, &attaching(2, "f", true, false)), Permission);
    v.chown(0, "f", None, Some(20)).unwrap();
    assert!(v.attach(1, &attaching(2, "f", true, false)).is_ok());
    refused!(v.attach(1, &attaching(2, "f", false, true)), Permission);
    refused!(v.attach(1, &attaching(2, "f", true, true)), Permission);
    assert!(v.attach(1, &attaching(0, "f", true, true)).is_ok());
    assert!(v.attach(1, &attaching(2, "d", true, false)).is_ok());
    refused!(v.attach(1, &attaching(0, "d", false, true)), IsDirectory);
    refused!(v.attach(1, &creating(0, "d", 0o644, false)), IsDirectory);
    refused!(v.attach(1, &attaching(0, "none", true, false)), NotFound);
    // The creator may write a new file, whatever its mode.
    let mut request = creating(1, "secret", 0, true);
    request.write = true;
    assert!(v.attach(1, &request).is_ok());
    refused!(
        v.attach(1, &attaching(1, "secret", true, false)),
        Permission
    );
}

fn a_sticky_directory_protects_the_files_of_others(v: &mut Volume) {
    v.mkdir(3, "tmp", 0o1777).unwrap();
    v.create(1, "tmp/f", 0o666).unwrap();
    v.mkdir(1, "tmp/d", 0o777).unwrap();
    v.create(2, "tmp/mine", 0o666).unwrap();
    refused!(v.unlink(2, "tmp/f"), NotOwner);
    refused!(v.rmdir(2, "tmp/d"), NotOwner);
    refused!(v.rename(2, "tmp/f", "tmp/g"), NotOwner);
    refused!(v.rename(2, "tmp/mine", "tmp/f"), NotOwner);
    refused!(v.rename_with(2, "tmp/mine", "tmp/f", false, true), NotOwner);
    v.unlink(1, "tmp/f").unwrap();
    v.rmdir(3, "tmp/d").unwrap();
    v.unlink(0, "tmp/mine").unwrap();
}

fn a_setgid_directory_passes_on_its_group(v: &mut Volume) {
    v.mkdir(1, "d", 0o777).unwrap();
    v.chown(0, "d", None, Some(77)).unwrap();
    v.chmod(0, "d", 0o2777).unwrap();
    let f = v.create(2, "d/f", 0o644).unwrap();
    assert_eq!((f.uid, f.gid), (2, 77));
    let sub = v.mkdir(2, "d/sub", 0o755).unwrap();
    assert_eq!((sub.gid, sub.mode), (77, 0o2755));
    let l = v.symlink(2, "d/l", "x").unwrap();
    assert_eq!(l.gid, 77);
    // A caller cannot make a set-group program of a group that it is not in.
    assert_eq!(v.create(2, "d/prog", 0o2755).unwrap().mode, 0o755);
    assert_eq!(v.create(0, "d/prog2", 0o2755).unwrap().mode, 0o2755);
    assert_eq!(v.mkdir(2, "plain", 0o6755).unwrap().mode, 0o755);
    assert_eq!(v.create(2, "own", 0o6755).unwrap().gid, 2);
}

fn only_root_changes_the_owner_of_files(v: &mut Volume) {
    v.create(1, "f", 0o644).unwrap();
    refused!(v.chown(1, "f", Some(2), None), NotOwner);
    refused!(v.chown(2, "f", None, Some(2)), NotOwner);
    refused!(v.chown(1, "f", None, Some(99)), NotOwner);
    assert_eq!(v.chown(1, "f", Some(1), Some(20)).unwrap().gid, 20);
    let f = v.chown(0, "f", Some(2), Some(99)).unwrap();
    assert_eq!((f.uid, f.gid), (2, 99));
    let before = f.changed;
    assert!(v.chown(2, "f", None, Some(2)).unwrap().changed > before);
}

fn chown_clears_set_id_bits(v: &mut Volume) {
    v.create(1, "f", 0o6755).unwrap();
    assert_eq!(v.chown(1, "f", None, Some(20)).unwrap().mode, 0o755);
    v.chmod(0, "f", 0o6745).unwrap();
    // Without group execution the bit means locking, and stays for a member.
    assert_eq!(v.chown(1, "f", None, Some(1)).unwrap().mode, 0o2745);
    v.chmod(0, "f", 0o6755).unwrap();
    assert_eq!(v.chown(0, "f", Some(2), None).unwrap().mode, 0o755);
    v.mkdir(1, "d", 0o755).unwrap();
    v.chmod(1, "d", 0o2755).unwrap();
    assert_eq!(v.chown(0, "d", Some(2), Some(2)).unwrap().mode, 0o2755);
}

fn only_the_owner_can_chmod_and_only_members_keep_setgid(v: &mut Volume) {
    v.create(1, "f", 0o644).unwrap();
    refused!(v.chmod(2, "f", 0o777), NotOwner);
    assert_eq!(v.chmod(1, "f", 0o2755).unwrap().mode, 0o2755);
    v.chown(0, "f", None, Some(99)).unwrap();
    assert_eq!(v.chmod(1, "f", 0o2755).unwrap().mode, 0o755);
    assert_eq!(v.chmod(0, "f", 0o7777).unwrap().mode, 0o7777);
    v.symlink(0, "l", "f").unwrap();
    v.chmod(0, "l", 0o600).unwrap();
    assert_eq!(v.stat(0, "f").unwrap().mode, 0o600);
    assert_eq!(v.stat(0, "@l").unwrap().mode, 0o777);
}

fn the_owner_sets_any_time_and_a_writer_only_the_current_one(v: &mut Volume) {
    v.create(1, "f", 0o622).unwrap();
    let times = |accessed: Option<i64>, modified: Option<i64>| SetAttributesRequest {
        accessed: accessed.map(|nanos| TimeUpdate {
            now: nanos == 0,
            nanos,
        }),
        modified: modified.map(|nanos| TimeUpdate {
            now: nanos == 0,
            nanos,
        }),
        ..Default::default()
    };
    let f = v.set(1, "f", times(Some(-5), Some(123))).unwrap();
    assert_eq!((f.accessed, f.modified), (-5, 123));
    assert_eq!((f.changed, f.modified_set), (v.now, v.now));
    refused!(v.set(2, "f", times(None, Some(5))), NotOwner);
    refused!(v.set(2, "f", times(Some(0), Some(5))), NotOwner);
    let f = v.set(2, "f", times(Some(0), Some(0))).unwrap();
    assert_eq!((f.accessed, f.modified), (v.now, v.now));
    v.chmod(1, "f", 0o600).unwrap();
    refused!(v.set(2, "f", times(Some(0), Some(0))), Permission);
    v.chmod(1, "f", 0).unwrap();
    assert!(v.set(1, "f", times(Some(0), None)).is_ok());
    assert!(v.set(0, "f", times(Some(7), None)).is_ok());
    // An empty request changes nothing.
    let before = v.stat(0, "f").unwrap();
    assert_eq!(v.set(2, "f", times(None, None)).unwrap(), before);
}

fn creating_and_removing_names_changes_the_times_of_the_parent(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    let mut touched = |act: &mut dyn FnMut(&mut Volume)| {
        let before = v.stat(0, "d").unwrap();
        act(v);
        let after = v.stat(0, "d").unwrap();
        assert_eq!((after.modified, after.changed), (v.now, v.now));
        assert!(after.modified > before.modified);
        (after.size, after.links)
    };
    let create = touched(&mut |v| {
        v.create(0, "d/f", 0o644).unwrap();
    });
    assert_eq!(create, (1, 2));
    assert_eq!(
        touched(&mut |v| {
            v.mkdir(0, "d/s", 0o755).unwrap();
        }),
        (2, 3)
    );
    assert_eq!(
        touched(&mut |v| {
            v.symlink(0, "d/l", "f").unwrap();
        }),
        (3, 3)
    );
    assert_eq!(
        touched(&mut |v| {
            v.link(0, "d/f", "d/g").unwrap();
        }),
        (4, 3)
    );
    assert_eq!(touched(&mut |v| v.rename(0, "d/f", "d/h").unwrap()), (4, 3));
    assert_eq!(
        touched(&mut |v| {
            v.unlink(0, "d/g").unwrap();
        }),
        (3, 3)
    );
    assert_eq!(
        touched(&mut |v| {
            v.rmdir(0, "d/s").unwrap();
        }),
        (2, 2)
    );
    // Reading does not.
    let before = v.stat(0, "d").unwrap();
    v.list(0, "d").unwrap();
    assert_eq!(v.stat(0, "d").unwrap(), before);
}

fn the_links_of_a_directory_count_its_subdirectories(v: &mut Volume) {
    assert_eq!(v.stat(0, "/").unwrap().links, 2);
    v.mkdir(0, "a", 0o755).unwrap();
    v.mkdir(0, "b", 0o755).unwrap();
    v.create(0, "f", 0o644).unwrap();
    let root = v.stat(0, "/").unwrap();
    assert_eq!((root.links, root.size, root.parent), (4, 3, ROOT));
    v.rename(0, "a", "b/a").unwrap();
    assert_eq!(v.stat(0, "/").unwrap().links, 3);
    assert_eq!(v.stat(0, "b").unwrap().links, 3);
    assert_eq!(v.stat(0, "b/a/..").unwrap().id, v.stat(0, "b").unwrap().id);
}

fn hard_links_share_one_file(v: &mut Volume) {
    let f = v.create(1, "f", 0o644).unwrap();
    let g = v.link(1, "f", "g").unwrap();
    assert_eq!((g.id, g.links), (f.id, 2));
    assert!(g.changed > f.changed);
    v.chmod(1, "g", 0o600).unwrap();
    assert_eq!(v.stat(1, "f").unwrap().mode, 0o600);
    refused!(v.link(1, "f", "g"), Exists);
    assert_eq!(v.unlink(1, "f").unwrap().links, 1);
    assert_eq!(v.stat(1, "g").unwrap().links, 1);
    assert!(v.carry_deletes().is_empty());
    assert_eq!(v.unlink(1, "g").unwrap().links, 0);
    assert_eq!(v.carry_deletes(), [f.id]);
    v.symlink(0, "s", "nowhere").unwrap();
    assert_eq!(v.link(0, "@s", "s2").unwrap().kind(), FileKind::Symlink);
    refused!(v.link(0, "s", "s3"), NotFound);
    refused!(v.link(0, "none", "s3"), NotFound);
}

fn the_number_of_hard_links_is_bounded(v: &mut Volume) {
    let f = v.create(0, "f", 0o644).unwrap();
    // Set directly: 65,000 links would take a while.
    let set_links = |v: &Volume, links: u32| {
        let (space, key) = (weft_kv::Space("inodes"), f.id.to_be_bytes());
        v.kv.transact(&mut |txn| {
            let bytes = txn.get(space, &key)?.unwrap();
            let mut record = InodeRecord::decode(bytes.as_slice()).unwrap();
            record.links = links;
            txn.put(space, &key, &record.encode_to_vec());
            Ok(())
        })
        .unwrap();
    };
    set_links(v, HARD_LINKS_MAX);
    refused!(v.link(0, "f", "g"), TooManyLinks);
    set_links(v, HARD_LINKS_MAX - 1);
    assert_eq!(v.link(0, "f", "g").unwrap().links, HARD_LINKS_MAX);
    v.unlink(0, "g").unwrap();
    set_links(v, 1);
}

fn directories_have_one_name(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    refused!(v.link(0, "d", "e"), NotOwner);
    refused!(v.unlink(0, "d"), IsDirectory);
}

fn only_empty_directories_can_be_removed(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    v.create(0, "d/f", 0o644).unwrap();
    refused!(v.rmdir(0, "d"), NotEmpty);
    refused!(v.rmdir(0, "d/f"), NotDirectory);
    refused!(v.rmdir(0, "none"), NotFound);
    refused!(v.rmdir(1, "d"), NotEmpty);
    v.unlink(0, "d/f").unwrap();
    assert_eq!(v.rmdir(0, "d").unwrap().links, 0);
    refused!(v.stat(0, "d"), NotFound);
    v.mkdir(1, "p", 0o555).unwrap();
    refused!(v.mkdir(1, "p/x", 0o755), Permission);
    v.mkdir(0, "p/x", 0o755).unwrap();
    refused!(v.rmdir(1, "p/x"), Permission);
}

fn only_root_makes_device_nodes(v: &mut Volume) {
    let make = |v: &mut Volume, uid: u32, path: &str, kind: FileKind| {
        let request = MakeNodeRequest {
            who: who(uid),
            target: at(path),
            kind: kind.into(),
            mode: 0o644,
            device: 259,
            umask: 0,
        };
        let now = v.tick();
        v.meta
            .make_node(now, &request)
            .map(|reply| reply.attributes)
    };
    assert_eq!(make(v, 1, "fifo", FileKind::Fifo).unwrap().device, 0);
    assert_eq!(
        make(v, 1, "sock", FileKind::Socket).unwrap().kind(),
        FileKind::Socket
    );
    refused!(make(v, 1, "dev", FileKind::CharDevice), NotOwner);
    assert_eq!(make(v, 0, "dev", FileKind::CharDevice).unwrap().device, 259);
    assert!(
        make(v, 1, "file", FileKind::Regular)
            .unwrap()
            .layout
            .is_some()
    );
    refused!(make(v, 0, "bad", FileKind::Directory), Invalid);
    refused!(make(v, 0, "bad", FileKind::Unspecified), Invalid);
    refused!(make(v, 0, "dev", FileKind::BlockDevice), Exists);
    refused!(v.attach(1, &attaching(0, "fifo", true, false)), Unsupported);
    v.unlink(1, "fifo").unwrap();
    assert!(v.carry_deletes().is_empty());
    v.unlink(1, "file").unwrap();
    // No client attached it: no server knows it.
    assert!(v.carry_deletes().is_empty());
}

fn page(v: &Volume, path: &str, after: &[u8], limit: u32) -> ListReply {
    let request = ListRequest {
        who: who(0),
        target: at(path),
        after: after.to_vec().into(),
        limit,
    };
    v.meta.list(&request).unwrap()
}

fn a_listing_pages_in_the_order_of_bytes(v: &mut Volume) {
    v.mkdir(0, "d", 0o755).unwrap();
    v.mkdir(0, "e", 0o755).unwrap();
    v.create(0, "e/other", 0o644).unwrap();
    let mut names: Vec<String> = (0..25).map(|i| format!("n{}", i * 7 % 25)).collect();
    for name in &names {
        v.create(0, &format!("d/{name}"), 0o644).unwrap();
    }
    names.sort();
    let mut found = Vec::new();
    let mut after = Vec::new();
    loop {
        let reply = page(v, "d", &after, 7);
        assert_eq!(reply.directory.size, 25);
        for entry in &reply.entries {
            after = entry.name.to_vec();
            found.push(String::from_utf8(after.clone()).unwrap());
            let attributes = v.stat(0, &format!("d/{}", found.last().unwrap())).unwrap();
            assert_eq!(entry.attributes, attributes);
        }
        if !reply.more {
            break;
        }
        assert_eq!(reply.entries.len(), 7);
    }
    assert_eq!(found, names);
    assert!(!page(v, "d", b"", 25).more);
    assert!(page(v, "d", b"zzz", 25).entries.is_empty());
    refused!(v.list(0, "d/n1"), NotDirectory);
}

fn a_listing_stays_stable_while_names_are_added_and_removed(v: &mut Volume) {
    for i in 0..30 {
        v.create(0, &format!("f{i:02}"), 0o644).unwrap();
    }
    let mut seen = Vec::new();
    let mut after = Vec::new();
    for round in 0.. {
        let reply = page(v, "/", &after, 4);
        seen.extend(reply.entries.iter().map(|entry| entry.name.to_vec()));
        if !reply.more {
            break;
        }
        after.clone_from(seen.last().unwrap());
        // The last listed name is removed, and others are added before and after it.
        v.unlink(0, std::str::from_utf8(&after).unwrap()).unwrap();
        v.create(0, &format!("a{round}"), 0o644).unwrap();
        v.create(0, &format!("z{round:02}"), 0o644).unwrap();
    }
    let old = seen.iter().filter(|name| name[0] == b'f').count();
    assert_eq!(old, 30);
    seen.dedup();
    assert!(seen.is_sorted());
}

fn extended_attributes_follow_the_rules_of_linux(v: &mut Volume) {
    v.create(1, "f", 0o644).unwrap();
    let set = |v: &mut Volume, uid: u32, path: &str, name: &str, value: &[u8], flags: u8| {
        let request = SetXattrRequest {
            who: who(uid),
            target: at(path),
            name: name.as_bytes().to_vec().into(),
            value: value.to_vec().into(),
            create: flags == 1,
            replace: flags == 2,
        };
        let now = v.tick();
        v.meta.set_xattr(now, &request)
    };
    let get = |v: &Volume, uid: u32, name: &str| {
        let request = GetXattrRequest {
            who: who(uid),
            target: at("f"),
            name: name.as_bytes().to_vec().into(),
        };
        v.meta.get_xattr(&request).map(|reply| reply.value.to_vec())
    };
    let list = |v: &Volume, uid: u32| {
        let request = ListXattrRequest {
            who: who(uid),
            target: at("f"),
        };
        v.meta.list_xattr(&request).unwrap().names
    };
    refused!(get(v, 1, "user.a"), NoAttribute);
    refused!(set(v, 1, "f", "user.a", b"1", 2), NoAttribute);
    set(v, 1, "f", "user.b", b"2", 0).unwrap();
    set(v, 1, "f", "user.a", b"1", 1).unwrap();
    refused!(set(v, 1, "f", "user.a", b"1", 1), Exists);
    set(v, 1, "f", "user.a", b"longer", 2).unwrap();
    set(v, 1, "f", "user.empty", b"", 0).unwrap();
    set(v, 0, "f", "trusted.t", b"t", 0).unwrap();
    set(v, 0, "f", "security.s", b"s", 0).unwrap();
    assert_eq!(get(v, 2, "user.a").unwrap(), b"longer");
    assert_eq!(get(v, 2, "user.empty").unwrap(), b"");
    assert_eq!(get(v, 2, "security.s").unwrap(), b"s");
    refused!(get(v, 2, "trusted.t"), NoAttribute);
    refused!(set(v, 1, "f", "trusted.t", b"x", 0), NotOwner);
    refused!(set(v, 1, "f", "security.s", b"x", 0), NotOwner);
    refused!(set(v, 2, "f", "user.a", b"x", 0), Permission);
    refused!(set(v, 0, "f", "system.posix_acl_access", b"x", 0), Invalid);
    refused!(set(v, 0, "f", "system.x", b"x", 0), Unsupported);
    refused!(set(v, 0, "f", "user.", b"x", 0), Invalid);
    refused!(
        set(v, 0, "f", &format!("user.{}", "n".repeat(255)), b"x", 0),
        NameTooLong
    );
    assert_eq!(
        list(v, 1),
        [&b"security.s"[..], b"user.a", b"user.b", b"user.empty"]
    );
    assert_eq!(list(v, 0).len(), 5);
    v.chmod(1, "f", 0).unwrap();
    refused!(get(v, 2, "user.a"), Permission);
    let big = vec![7; 64 << 10];
    refused!(
        set(v, 0, "f", "user.big", &[&big[..], b"x"].concat(), 0),
        AttributeTooLarge
    );
    for i in 0..3 {
        set(v, 0, "f", &format!("user.big{i}"), &big, 0).unwrap();
    }
    refused!(set(v, 0, "f", "user.big3", &big, 0), NoSpace);
    set(v, 0, "f", "user.big0", b"small now", 0).unwrap();
    set(v, 0, "f", "user.big3", &big, 0).unwrap();
    let remove = RemoveXattrRequest {
        who: who(0),
        target: at("f"),
        name: b"user.big3".to_vec().into(),
    };
    v.meta.remove_xattr(5, &remove).unwrap();
    refused!(v.meta.remove_xattr(5, &remove), NoAttribute);
    v.symlink(1, "l", "f").unwrap();
    refused!(set(v, 1, "@l", "user.a", b"x", 0), NotOwner);
    set(v, 0, "@l", "trusted.a", b"x", 0).unwrap();
    v.check();
}

fn extended_attributes_are_removed_with_their_file(v: &mut Volume) {
    v.create(0, "f", 0o644).unwrap();
    for i in 0..5 {
        let request = SetXattrRequest {
            who: who(0),
            target: at("f"),
            name: format!("user.{i}").into_bytes().into(),
            value: b"v".to_vec().into(),
            create: false,
            replace: false,
        };
        v.meta.set_xattr(1, &request).unwrap();
    }
    v.unlink(0, "f").unwrap();
    v.check();
}

fn a_file_id_is_never_used_twice(v: &mut Volume) {
    let mut last = ROOT;
    for round in 0..20 {
        let f = v.create(0, "f", 0o644).unwrap();
        assert!(f.id > last);
        last = f.id;
        v.unlink(0, "f").unwrap();
        if round % 5 == 0 {
            v.carry_deletes();
            v.restart();
            v.meta.reap_orphans().unwrap();
        }
    }
}

fn layouts_are_inherited(v: &mut Volume) {
    v.mkdir(1, "d", 0o755).unwrap();
    let layout_options = LayoutOptions {
        cells: Some(10),
        bsu: Some(3),
        ..Default::default()
    };
    let change = |layout_options: LayoutOptions| SetAttributesRequest {
        layout: Some(layout_options),
        ..Default::default()
    };
    refused!(v.set(2, "d", change(layout_options.clone())), NotOwner);
    let zero = LayoutOptions {
        bsu: Some(0),
        ..Default::default()
    };
    refused!(v.set(1, "d", change(zero)), Invalid);
    let d = v.set(1, "d", change(layout_options.clone())).unwrap();
    assert_eq!(d.layout.unwrap().cells, 10);
    v.mkdir(1, "d/sub", 0o755).unwrap();
    let layout = v.create(1, "d/sub/f", 0o644).unwrap().layout.unwrap();
    assert_eq!((layout.cells, layout.bsu, layout.servers.len()), (10, 3, 4));
    let mut request = creating(1, "d/g", 0o644, true);
    request.create.as_mut().unwrap().layout = Some(LayoutOptions {
        cells: Some(2),
        servers: vec![4, 2],
        ..Default::default()
    });
    let layout = v
        .attach(1, &request)
        .unwrap()
        .reply
        .attributes
        .layout
        .unwrap();
    assert_eq!(
        (layout.cells, layout.bsu, layout.servers),
        (2, 3, vec![4, 2])
    );
    request.target = at("d/h");
    request.create.as_mut().unwrap().layout = Some(LayoutOptions {
        servers: vec![9],
        ..Default::default()
    });
    refused!(v.attach(1, &request), Invalid);
    refused!(v.stat(1, "d/h"), NotFound);
    let d = v.set(1, "d", change(LayoutOptions::default())).unwrap();
    assert_eq!(d.layout, None);
    let layout = v.create(1, "d/plain", 0o644).unwrap().layout.unwrap();
    assert_eq!(
        (layout.cells, layout.bsu, layout.chunk),
        (4, 256 << 10, 256 << 10)
    );
    v.create(1, "file", 0o644).unwrap();
    // Only while it is empty.
    let layout = v
        .set(1, "file", change(layout_options))
        .unwrap()
        .layout
        .unwrap();
    assert_eq!((layout.cells, layout.bsu), (10, 3));
}
