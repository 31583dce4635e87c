//! What is mounted where, as the kernel tells it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::io::Errno;

use super::flags::MountFlags;

/// The type of our mounts in the kernel's table.
pub const FILE_SYSTEM: &str = "fuse.weft";

/// The kernel's table.
pub(super) const TABLE: &str = "/proc/self/mountinfo";

/// A mounted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub path: PathBuf,
    /// What: the volume's folder, or its address, or what `-o fsname` said.
    pub source: OsString,
    /// The device number that the files under it have, as `major:minor`.
    pub device: String,
    /// How, as far as the kernel keeps to it by itself.
    pub flags: MountFlags,
}

/// Every volume that is mounted, in the order in which they were.
pub fn mounted() -> io::Result<Vec<Mounted>> {
    let table = std::fs::read(TABLE)?;
    Ok(parse(&table))
}

/// The volume that is mounted on exactly this path; the last one, if several are.
pub fn mounted_on(path: &Path) -> io::Result<Option<Mounted>> {
    Ok(mounted()?.into_iter().rfind(|m| m.path == path))
}

/// The paths below this one that anything is mounted on.
pub fn mounts_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    let lines = table.split(|b| *b == b'\n');
    let paths = lines.filter_map(|line| line.split(|b| *b == b' ').nth(4));
    let paths = paths.map(|path| PathBuf::from(plain(path)));
    Ok(paths
        .filter(|mounted| mounted != path && mounted.starts_with(path))
        .collect())
}

pub(super) fn parse(table: &[u8]) -> Vec<Mounted> {
    table.split(|b| *b == b'\n').filter_map(line).collect()
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn line(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|b| *b == b' ');
    let device = words.nth(2)?;
    let path = words.nth(1)?;
    let options = words.next()?;
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    let (kind, source) = (rest.next()?, rest.next()?);
    let of_all = rest.next().unwrap_or_default();
    let text = String::from_utf8_lossy;
    (kind == FILE_SYSTEM.as_bytes()).then(|| Mounted {
        path: PathBuf::from(plain(path)),
        source: plain(source),
        device: text(device).into_owned(),
        flags: MountFlags::shown(&text(options), &text(of_all)),
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

/// What becomes of a call that a mount must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is answered, or no mount is there.
    Answered,
    /// The mount's process is gone: every use of the path fails.
    Dead,
    /// No answer came in time: the process is stopped, or waits itself.
    Silent,
}

/// How long a mount may take to answer: what is asked of it here it need not ask anybody.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Looks at a path that may be a mount whose process is gone or does not answer. Asks for the space
/// left, which the kernel never answers from what it remembers, as it does with attributes.
pub fn look(path: &Path) -> Look {
    let path = path.to_owned();
    let space = within_limit(move || rustix::fs::statfs(path.as_os_str().as_bytes()).err());
    match space {
        None => Look::Silent,
        Some(Some(Errno::NOTCONN | Errno::CONNABORTED)) => Look::Dead,
        // The mount may say that the volume is away.
        Some(_) => Look::Answered,
    }
}

/// Whether a path is a mount whose process is gone; not where there is no answer.
pub fn is_dead(path: &Path) -> bool {
    look(path) == Look::Dead
}

/// What a mount says of itself by this extended attribute of its root; nothing where it does not
/// answer in time.
pub fn told(path: &Path, name: &'static str) -> Option<String> {
    let path = path.to_owned();
    let value = within_limit(move || {
        let mut value = [0; 256];
        let length = rustix::fs::getxattr(&path, name, &mut value[..]).ok()?;
        Some(String::from_utf8_lossy(&value[..length]).into_owned())
    });
    value.flatten()
}

/// Makes a call that may never return. Its thread stays behind then, and ends with this process.
/// Where no thread can be started there is no answer.
fn within_limit<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, answer) = mpsc::channel();
    let call = move || {
        let _ = tell.send(call());
    };
    std::thread::Builder::new().spawn(call).ok()?;
    answer.recv_timeout(ANSWERS_WITHIN).ok()
}

/// The process behind a mount, found without asking it: by its descriptor of `/dev/fuse`, of which
/// Linux 6.6 and later say to which mount it belongs.
pub fn process_of(mounted: &Mounted) -> Option<i32> {
    let (_, minor) = mounted.device.split_once(':')?;
    let pids = entries("/proc".into()).filter_map(|e| e.file_name()?.to_str()?.parse().ok());
    pids.into_iter().find(|pid: &i32| {
        let of = |fd: PathBuf| std::fs::read_to_string(fd).unwrap_or_default();
        entries(format!("/proc/{pid}/fdinfo").into()).any(|fd| connects(&of(fd), minor))
    })
}

/// The process behind a mount, if it is stopped (`kill -STOP`, a debugger): the mount does not
/// answer before it goes on. Where [`process_of`] knows no process, none is known to be stopped.
pub fn stopped_process(mounted: &Mounted) -> Option<i32> {
    process_of(mounted).filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| is_stopped(&stat))
    })
}

/// By the state, which follows the name; that may hold anything.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('T' | 't')))
}

/// `fuse_connection: 44`, with a tab.
fn connects(fdinfo: &str, minor: &str) -> bool {
    let mut lines = fdinfo.lines();
    lines.any(|line| {
        let number = line.strip_prefix("fuse_connection:");
        number.is_some_and(|number| number.trim() == minor)
    })
}

fn entries(folder: PathBuf) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_told_by_its_state() {
        for (stat, stopped) in [
            ("7 (weft) T 1 7 7 0", true),
            ("7 (weft) t 1 7 7 0", true),
            ("7 (weft) S 1 7 7 0", false),
            ("7 (a) T (b) S 1 7 7 0", false),
            ("", false),
        ] {
            assert_eq!(is_stopped(stat), stopped, "{stat}");
        }
    }

    #[test]
    fn only_our_mounts_are_found_with_their_blanks() {
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
    fn a_descriptor_tells_its_mount() {
        let fdinfo = "pos:\t0\nflags:\t02100002\nfuse_connection:\t44\n";
        assert!(connects(fdinfo, "44"));
        assert!(!connects(fdinfo, "4"));
        assert!(!connects("pos:\t44\n", "44"));
    }

    #[test]
    fn nonsense_is_skipped() {
        assert_eq!(parse(b"\n1 2\n1 2 3 4 5 6 - fuse.weft\n- - - -\n"), []);
    }
}
