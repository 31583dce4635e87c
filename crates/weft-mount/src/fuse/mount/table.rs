//! The volumes that are mounted on this machine, as the kernel's table of mounts lists them.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::flags::MountFlags;

/// The file system type of Weft's mounts in the kernel's table.
pub const FILE_SYSTEM: &str = "fuse.weft";

/// The kernel's table.
pub(super) const TABLE: &str = "/proc/self/mountinfo";

/// A mounted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The mount point.
    pub path: PathBuf,
    /// The source: the volume's folder, its address, or the value of `-o fsname`.
    pub source: OsString,
    /// The device number of the files under it, as `major:minor`.
    pub device: String,
    /// The options that the kernel enforces.
    pub flags: MountFlags,
}

/// Every mounted volume, oldest first.
pub fn mounted() -> io::Result<Vec<Mounted>> {
    let table = std::fs::read(TABLE)?;
    Ok(parse(&table))
}

/// The volume that is mounted on exactly this path; the latest one, if there are several.
pub fn mounted_on(path: &Path) -> io::Result<Option<Mounted>> {
    Ok(mounted()?.into_iter().rfind(|m| m.path == path))
}

/// All mount points below this path, of any file system.
pub fn mounts_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let table = std::fs::read(TABLE)?;
    let lines = table.split(|b| *b == b'\n');
    let paths = lines.filter_map(|line| line.split(|b| *b == b' ').nth(4));
    let paths = paths.map(|path| PathBuf::from(unescape(path)));
    Ok(paths
        .filter(|mounted| mounted != path && mounted.starts_with(path))
        .collect())
}

pub(super) fn parse(table: &[u8]) -> Vec<Mounted> {
    table
        .split(|b| *b == b'\n')
        .filter_map(parse_line)
        .collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|b| *b == b' ');
    let device = words.nth(2)?;
    let path = words.nth(1)?;
    let options = words.next()?;
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    let (kind, source) = (rest.next()?, rest.next()?);
    let file_system = rest.next().unwrap_or_default();
    let text = String::from_utf8_lossy;
    (kind == FILE_SYSTEM.as_bytes()).then(|| Mounted {
        path: PathBuf::from(unescape(path)),
        source: unescape(source),
        device: text(device).into_owned(),
        flags: MountFlags::shown(&text(options), &text(file_system)),
    })
}

/// Blanks and the like appear as `\040`.
fn unescape(text: &[u8]) -> OsString {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_weft_mounts_are_listed_and_their_blanks_are_unescaped() {
        let table = b"25 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
            90 25 0:44 / /mnt/with\\040blank rw,nosuid shared:7 master:1 - fuse.weft /srv/my\\011volume rw,user_id=0\n\
            91 25 0:45 / /other rw - fuse.sshfs host:/ rw\n";
        let expected = Mounted {
            path: "/mnt/with blank".into(),
            source: "/srv/my\tvolume".into(),
            device: "0:44".into(),
            flags: MountFlags::shown("rw,nosuid", "rw"),
        };
        assert_eq!(parse(table), [expected]);
    }

    #[test]
    fn malformed_lines_are_skipped() {
        assert_eq!(parse(b"\n1 2\n1 2 3 4 5 6 - fuse.weft\n- - - -\n"), []);
    }
}
