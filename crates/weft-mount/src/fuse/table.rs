//! What is mounted where, as the kernel tells it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The type of our mounts in the kernel's table.
pub const FILE_SYSTEM: &str = "fuse.weft";

/// A mounted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub path: PathBuf,
    /// What: the volume's folder, or its address, or what `-o fsname` said.
    pub source: OsString,
    /// The device number that the files under it have, as `major:minor`.
    pub device: String,
}

/// Every volume that is mounted, in the order in which they were.
pub fn mounted() -> io::Result<Vec<Mounted>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&table))
}

/// The volume that is mounted on exactly this path; the last one, if several are.
pub fn mounted_on(path: &Path) -> io::Result<Option<Mounted>> {
    Ok(mounted()?.into_iter().rfind(|m| m.path == path))
}

fn parse(table: &[u8]) -> Vec<Mounted> {
    table.split(|b| *b == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn line(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|b| *b == b' ');
    let device = words.nth(2)?;
    let path = words.nth(1)?;
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    let (kind, source) = (rest.next()?, rest.next()?);
    (kind == FILE_SYSTEM.as_bytes()).then(|| Mounted {
        path: PathBuf::from(plain(path)),
        source: plain(source),
        device: String::from_utf8_lossy(device).into_owned(),
    })
}

/// Blanks and the like are written `\040`.
fn plain(text: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|d| d.iter().all(u8::is_ascii_digit));
        rest = match digits {
            Some(d) if *first == b'\\' => {
                let value = d.iter().fold(0_u32, |v, b| v * 8 + u32::from(b - b'0'));
                out.push(value as u8);
                &after[3..]
            }
            _ => {
                out.push(*first);
                after
            }
        };
    }
    OsString::from_vec(out)
}

/// Whether a path is a mount whose process is gone: every use of it fails. Asks for the space left, which the kernel never
/// answers from what it remembers, as it does with attributes.
pub fn is_dead(path: &Path) -> bool {
    let space = rustix::fs::statfs(path.as_os_str().as_bytes());
    matches!(
        space,
        Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_mounts_are_found_with_their_blanks() {
        let table = b"25 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
            90 25 0:44 / /mnt/with\\040blank rw,nosuid shared:7 master:1 - fuse.weft /srv/my\\011volume rw,user_id=0\n\
            91 25 0:45 / /other rw - fuse.sshfs host:/ rw\n";
        let expected = Mounted {
            path: "/mnt/with blank".into(),
            source: "/srv/my\tvolume".into(),
            device: "0:44".into(),
        };
        assert_eq!(parse(table), [expected]);
    }

    #[test]
    fn nonsense_is_skipped() {
        assert_eq!(parse(b"\n1 2\n1 2 3 4 5 6 - fuse.weft\n- - - -\n"), []);
    }
}
