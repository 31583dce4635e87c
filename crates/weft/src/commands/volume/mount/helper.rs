//! The mount helper. mount(8) calls `/sbin/mount.fuse.weft VOLUME PATH [-sfnv] [-t TYPE]
//! [-o OPTIONS]` for the type `fuse.weft`, and `/sbin/mount.weft` for `weft`, also for a remount.
//! Both can be links to this program.

use std::ffi::OsString;
use std::path::Path;

/// The names that mount(8) looks for.
const HELPERS: [&str; 2] = ["mount.fuse.weft", "mount.weft"];

/// Rewrites a mount-helper command line as `weft mount …`; returns others unchanged, and `None` for
/// a dry run (`mount -f`).
pub(crate) fn as_mount_helper(words: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name.is_none_or(|name| HELPERS.iter().all(|helper| name != *helper)) {
        return Some(words);
    }
    let mut plain = Vec::new();
    let mut options = None;
    let mut rest = words.into_iter().skip(1);
    while let Some(word) = rest.next() {
        if word == "-o" {
            options = rest.next();
        } else if word == "-t" || word == "-N" {
            rest.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            plain.push(word);
        } else if word.as_encoded_bytes().contains(&b'f') {
            return None;
        }
    }
    let mut out: Vec<OsString> = vec!["weft".into(), "mount".into(), "--quiet".into()];
    let mut plain = plain.into_iter();
    if let Some(volume) = plain.next() {
        out.extend(["--volume".into(), volume]);
    }
    if let Some(options) = options {
        out.extend(["-o".into(), options]);
    }
    out.extend(plain);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let words = as_mount_helper(text.split(' ').map(OsString::from)).unwrap();
        let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_arguments_of_a_mount_helper_become_a_mount_command() {
        assert_eq!(
            line("/sbin/mount.fuse.weft /srv/weft /mnt/weft -n -o rw,strict"),
            "weft mount --quiet --volume /srv/weft -o rw,strict /mnt/weft"
        );
        let short = "weft mount --quiet --volume /v /p";
        assert_eq!(line("mount.fuse.weft /v /p"), short);
        assert_eq!(line("/sbin/mount.weft /v /p -t weft"), short);
        assert_eq!(line("weft ls -o"), "weft ls -o");
        let fake = "mount.fuse.weft /v /p -sfn -o rw";
        assert!(as_mount_helper(fake.split(' ').map(OsString::from)).is_none());
    }
}
