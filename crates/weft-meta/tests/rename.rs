//! Rename, case by case.

use crate::common;

use common::Volume;
use weft_proto::meta::*;

on_both_engines! {
    to_a_free_name
    across_directories_moves_the_parent
    over_a_file_removes_it
    over_an_open_file_keeps_it
    over_an_empty_directory
    over_a_directory_that_is_not_empty
    a_directory_over_a_file
    a_file_over_a_directory
    two_names_of_one_file_stay
    onto_itself_changes_nothing
    a_directory_below_itself
    over_an_ancestor
    no_replace
    exchange_of_files
    exchange_of_a_file_and_a_directory
    exchange_with_an_ancestor
    exchange_needs_both
    a_link_is_moved_and_not_followed
    needs_permission_on_both_parents
    a_moved_directory_must_be_writable
    into_a_removed_directory
    changes_the_times_of_both_parents
}

fn tree(v: &mut Volume) {
    for directory in ["a", "a/sub", "b", "b/sub", "empty"] {
        v.mkdir(0, directory, 0o755).unwrap();
    }
    for file in ["f", "g", "a/f", "b/f", "b/sub/deep"] {
        v.create(0, file, 0o644).unwrap();
    }
    v.symlink(0, "link", "a").unwrap();
}

fn id(v: &Volume, path: &str) -> u64 {
    v.stat(0, path).unwrap().id
}

fn to_a_free_name(v: &mut Volume) {
    tree(v);
    let f = v.stat(0, "f").unwrap();
    v.rename(0, "f", "new").unwrap();
    let new = v.stat(0, "new").unwrap();
    assert_eq!(new.id, f.id);
    assert_eq!((new.changed, new.modified), (v.now, f.modified));
    refused!(v.stat(0, "f"), NotFound);
    refused!(v.rename(0, "f", "x"), NotFound);
    refused!(v.rename(0, "new", "none/x"), NotFound);
    refused!(v.rename(0, "new", "g/x"), NotDirectory);
}

fn across_directories_moves_the_parent(v: &mut Volume) {
    tree(v);
    let moved = id(v, "b");
    v.rename(0, "b", "a/sub/b").unwrap();
    assert_eq!(v.stat(0, "a/sub/b").unwrap().parent, id(v, "a/sub"));
    assert_eq!(id(v, "a/sub/b/sub/../../b"), moved);
    assert_eq!(v.stat(0, "/").unwrap().links, 4);
    assert_eq!(v.stat(0, "a/sub").unwrap().links, 3);
    v.rename(0, "a/f", "a/sub/b/new").unwrap();
    assert_eq!(v.stat(0, "a/sub/b").unwrap().links, 3);
}

fn over_a_file_removes_it(v: &mut Volume) {
    tree(v);
    let (f, g) = (id(v, "f"), id(v, "g"));
    v.link(0, "g", "g2").unwrap();
    v.rename(0, "f", "g").unwrap();
    assert_eq!(id(v, "g"), f);
    assert_eq!(v.stat(0, "g2").unwrap().links, 1);
    assert!(v.carry_deletes().is_empty());
    v.rename(0, "g", "g2").unwrap();
    assert_eq!(v.carry_deletes(), [g]);
    assert_eq!(id(v, "g2"), f);
}

fn over_an_open_file_keeps_it(v: &mut Volume) {
    tree(v);
    let g = id(v, "g");
    v.attach(1, &common::attaching(0, "g", true, false))
        .unwrap();
    v.rename(0, "f", "g").unwrap();
    assert!(v.carry_deletes().is_empty());
    assert_eq!(v.stat_target(0, common::by_id(g)).unwrap().links, 0);
    v.detach(1, g, false);
    assert_eq!(v.carry_deletes(), [g]);
}

fn over_an_empty_directory(v: &mut Volume) {
    tree(v);
    let b = id(v, "b");
    v.rename(0, "b", "empty").unwrap();
    assert_eq!(id(v, "empty"), b);
    assert_eq!(v.stat(0, "/").unwrap().links, 4);
    v.rename(0, "empty", "a/sub").unwrap();
    assert_eq!(v.stat(0, "a").unwrap().links, 3);
    assert_eq!(v.stat(0, "/").unwrap().links, 3);
}

fn over_a_directory_that_is_not_empty(v: &mut Volume) {
    tree(v);
    refused!(v.rename(0, "empty", "a"), NotEmpty);
    refused!(v.rename(0, "a", "b"), NotEmpty);
}

fn a_directory_over_a_file(v: &mut Volume) {
    tree(v);
    refused!(v.rename(0, "a", "f"), NotDirectory);
    refused!(v.rename(0, "a", "link"), NotDirectory);
}

fn a_file_over_a_directory(v: &mut Volume) {
    tree(v);
    refused!(v.rename(0, "f", "empty"), IsDirectory);
    refused!(v.rename(0, "link", "empty"), IsDirectory);
}

fn two_names_of_one_file_stay(v: &mut Volume) {
    tree(v);
    v.link(0, "f", "a/f2").unwrap();
    let before = (v.stat(0, "f").unwrap(), v.stat(0, "a").unwrap());
    v.rename(0, "f", "a/f2").unwrap();
    assert_eq!((v.stat(0, "f").unwrap(), v.stat(0, "a").unwrap()), before);
    assert_eq!(id(v, "a/f2"), before.0.id);
}

fn onto_itself_changes_nothing(v: &mut Volume) {
    tree(v);
    let before = (v.stat(0, "a").unwrap(), v.stat(0, "/").unwrap());
    v.rename(0, "a", "a").unwrap();
    v.rename(0, "a/", "link/../a").unwrap();
    assert_eq!((v.stat(0, "a").unwrap(), v.stat(0, "/").unwrap()), before);
}

fn a_directory_below_itself(v: &mut Volume) {
    tree(v);
    refused!(v.rename(0, "b", "b/new"), Invalid);
    refused!(v.rename(0, "b", "b/sub/new"), Invalid);
    refused!(v.rename(0, "a", "link/new"), Invalid);
    refused!(v.rename(0, "b", "b/sub"), Invalid);
}

fn over_an_ancestor(v: &mut Volume) {
    tree(v);
    refused!(v.rename(0, "b/sub", "b"), NotEmpty);
    refused!(v.rename(0, "b/f", "b"), IsDirectory);
    refused!(v.rename(0, "b/sub", ".."), Invalid);
}

fn no_replace(v: &mut Volume) {
    tree(v);
    refused!(v.rename_with(0, "f", "g", true, false), Exists);
    refused!(v.rename_with(0, "f", "f", true, false), Exists);
    refused!(v.rename_with(0, "f", "g", true, true), Invalid);
    let f = id(v, "f");
    v.rename_with(0, "f", "new", true, false).unwrap();
    assert_eq!(id(v, "new"), f);
}

fn exchange_of_files(v: &mut Volume) {
    tree(v);
    let (f, b) = (id(v, "f"), id(v, "b/f"));
    let before = v.stat(0, "b").unwrap();
    v.rename_with(0, "f", "b/f", false, true).unwrap();
    assert_eq!((id(v, "f"), id(v, "b/f")), (b, f));
    let after = v.stat(0, "b").unwrap();
    assert_eq!((after.size, after.links), (before.size, before.links));
    assert_eq!(v.stat(0, "f").unwrap().changed, v.now);
    assert_eq!(v.stat(0, "b/f").unwrap().changed, v.now);
    assert!(v.carry_deletes().is_empty());
    refused!(v.rename_with(0, "f", "b/f/", false, true), NotDirectory);
}

fn exchange_of_a_file_and_a_directory(v: &mut Volume) {
    tree(v);
    let (f, sub) = (id(v, "f"), id(v, "b/sub"));
    v.rename_with(0, "f", "b/sub", false, true).unwrap();
    assert_eq!((id(v, "f"), id(v, "b/sub")), (sub, f));
    assert_eq!(v.stat(0, "f").unwrap().parent, ROOT);
    assert_eq!(v.stat(0, "b").unwrap().links, 2);
    assert_eq!(v.stat(0, "/").unwrap().links, 6);
    assert!(v.stat(0, "f/deep").is_ok());
    // Two directories that are not empty.
    v.rename_with(0, "a", "f", false, true).unwrap();
    assert_eq!(id(v, "a"), sub);
    v.rename_with(0, "a", "f/sub", false, true).unwrap();
    assert_eq!(v.stat(0, "f/sub").unwrap().parent, id(v, "f"));
}

fn exchange_with_an_ancestor(v: &mut Volume) {
    tree(v);
    refused!(v.rename_with(0, "b", "b/sub", false, true), Invalid);
    refused!(v.rename_with(0, "b/sub", "b", false, true), Invalid);
    refused!(v.rename_with(0, "b/f", "b", false, true), Invalid);
}

fn exchange_needs_both(v: &mut Volume) {
    tree(v);
    refused!(v.rename_with(0, "f", "none", false, true), NotFound);
    refused!(v.rename_with(0, "none", "f", false, true), NotFound);
}

fn a_link_is_moved_and_not_followed(v: &mut Volume) {
    tree(v);
    let link = id(v, "@link");
    v.rename(0, "link", "b/link").unwrap();
    assert_eq!(id(v, "@b/link"), link);
    v.rename(0, "f", "b/link").unwrap();
    assert_eq!(v.stat(0, "@b/link").unwrap().kind(), FileKind::Regular);
    assert!(v.stat(0, "a").is_ok());
}

fn needs_permission_on_both_parents(v: &mut Volume) {
    v.mkdir(1, "mine", 0o755).unwrap();
    v.mkdir(2, "yours", 0o755).unwrap();
    v.create(1, "mine/f", 0o644).unwrap();
    v.create(2, "yours/f", 0o644).unwrap();
    refused!(v.rename(1, "mine/f", "yours/x"), Permission);
    refused!(v.rename(1, "yours/f", "mine/x"), Permission);
    refused!(
        v.rename_with(1, "mine/f", "yours/f", false, true),
        Permission
    );
    v.chmod(2, "yours", 0o777).unwrap();
    v.rename(1, "mine/f", "yours/f").unwrap();
}

fn a_moved_directory_must_be_writable(v: &mut Volume) {
    v.mkdir(1, "a", 0o777).unwrap();
    v.mkdir(2, "d", 0o755).unwrap();
    // Its name may change in place, but a move changes its `..`.
    v.rename(1, "d", "e").unwrap();
    refused!(v.rename(1, "e", "a/e"), Permission);
    refused!(v.rename_with(1, "a", "e/x", false, false), Permission);
    v.chmod(2, "e", 0o777).unwrap();
    v.rename(1, "e", "a/e").unwrap();
}

fn into_a_removed_directory(v: &mut Volume) {
    let d = v.mkdir(0, "d", 0o755).unwrap();
    v.create(0, "f", 0o644).unwrap();
    v.attach(1, &common::attaching(0, "d", true, false))
        .unwrap();
    v.rmdir(0, "d").unwrap();
    let request = RenameRequest {
        who: common::who(0),
        source: common::at("f"),
        target: Target {
            at: d.id,
            ..common::at("g")
        },
        no_replace: false,
        exchange: false,
    };
    refused!(v.meta.rename(5, &request), NotFound);
    assert_eq!(v.stat_target(0, common::by_id(d.id)).unwrap().links, 0);
    v.detach(1, d.id, false);
    refused!(v.stat_target(0, common::by_id(d.id)), Stale);
}

fn changes_the_times_of_both_parents(v: &mut Volume) {
    tree(v);
    v.rename(0, "a/f", "b/new").unwrap();
    for directory in ["a", "b"] {
        let attributes = v.stat(0, directory).unwrap();
        assert_eq!((attributes.modified, attributes.changed), (v.now, v.now));
    }
    assert_eq!(v.stat(0, "a").unwrap().size, 1);
    assert_eq!(v.stat(0, "b").unwrap().size, 3);
}
