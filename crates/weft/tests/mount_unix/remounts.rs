//! Changes of the options of a mount in use, such as read-only and back: by mount(8) with its
//! helper, by the system call alone, and by the command.

use std::fs;

use rustix::mount::{MountFlags, mount_remount};

use crate::mount_support::{Mounted, sh, weft, weft_ok};
use crate::starts::in_a_world_with_the_helper;

#[test]
fn a_remount_makes_a_mount_read_only_and_writable_again() {
    let Some(m) = Mounted::new() else { return };
    m.unmount();
    let (volume, path) = (m.volume.display(), m.path.display());
    let plain = m.beside("plain").display().to_string();
    // Existing names are reported as such, nothing is created, and devices and programs work as
    // before.
    let act = "act() { ( cd $1; export LC_ALL=C; mknod node c 1 3; mkdir directory; touch target; ln -s target link; touch new; \
               echo x > node; echo x >> node; echo x > target; rm target; cat text; ./ls -d .; ) 2>&1 || true; }";
    let script = format!(
        "{act}\n\
         trap 'umount -l {path} {plain} 2>/dev/null || true' EXIT\n\
         mount -t fuse.weft {volume} {path} -o nosuid\n\
         mount -t tmpfs none {plain} -o nosuid\n\
         for d in {path} {plain}; do echo text > $d/text; cp $(type -P ls) $d/ls; mknod $d/node c 1 3; mkdir $d/directory; \
             touch $d/target; ln -s target $d/link; done\n\
         for o in remount,ro remount,rw remount,ro,noatime remount,rw,relatime; do\n\
             mount -o $o {path}; mount -o $o {plain}\n\
             diff <(act {path}) <(act {plain})\n\
         done\n\
         grep ' {path} .* - fuse.weft' /proc/self/mountinfo | cut -d' ' -f6\n\
         exec 9> {path}/open\n\
         ! mount -o remount,ro {path} 2> words\n\
         grep -o 'are open for writing' words\n\
         exec 9>&-\n\
         mount -i -o remount,ro {path}\n\
         ! touch {path}/new 2> words\n\
         grep -o 'Read-only' words\n\
         mount -o remount,rw {path}\n\
         echo new > {path}/new\n\
         ! mount -o remount,strict {path} 2> words\n\
         grep -o 'cannot be changed while' words\n\
         umount {path}\n\
         mount -t weft {volume} {path} -o ro,strict,attr_timeout=0.5\n\
         mount -o remount,rw,strict,attr_timeout=0.50 {path}\n\
         rm {path}/new\n\
         umount {path}"
    );
    let Some(said) = in_a_world_with_the_helper(&m, &script) else {
        return;
    };
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "rw,nosuid,relatime",
        "are open for writing",
        "Read-only",
        "cannot be changed while",
    ];
    assert_eq!(lines, expected, "mount(8) prints nothing of its own");
}

#[test]
fn a_read_only_mount_becomes_writable_by_the_remount_system_call() {
    let Some(m) = Mounted::with_options("ro") else {
        return;
    };
    assert!(fs::write(m.file("f"), "text").is_err());
    mount_remount(&m.path, MountFlags::empty(), "").unwrap();
    fs::write(m.file("f"), "text").unwrap();
    sh(&m.path, "test -w f && echo more >> f");
    mount_remount(&m.path, MountFlags::RDONLY, "").unwrap();
    sh(&m.path, "! test -w f && ! touch f 2>/dev/null && cat f");
}

#[test]
fn the_command_changes_only_the_options_that_it_names() {
    let Some(m) = Mounted::with_options("nosuid,nodev,noatime") else {
        return;
    };
    let path = m.path.to_str().unwrap();
    let shown = || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = table.lines().rfind(|line| line.contains(path)).unwrap();
        line.split(' ').nth(5).unwrap().to_owned()
    };
    assert_eq!(shown(), "rw,nosuid,nodev,noatime");
    let said = weft_ok(&["mount", path, "-o", "remount,ro"]);
    assert_eq!(said, format!("remounted {path}\n"));
    assert_eq!(shown(), "ro,nosuid,nodev,noatime");
    weft_ok(&["mount", path, "-o", "remount,rw,suid,strictatime"]);
    assert_eq!(shown(), "rw,nodev");
    for (options, words) in [
        ("remount,durable", "cannot be changed while"),
        ("remount,quick", "no mount option"),
    ] {
        let refused = weft(&["mount", path, "-o", options]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(words), "{said}");
    }
    m.unmount();
    let refused = weft(&["mount", path, "-o", "remount,ro"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("no volume is mounted on"), "{said}");
}
