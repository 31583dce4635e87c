//! How a volume is found: by its folder, or by an address and a key.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weft_net::{Env, VolumeKey, Wire};
use weft_proto::meta::Credentials;
use weft_referee::Recorder;

use super::backups::SpreadReads;
use super::small_file::{read_small, read_with_metadata};
use crate::Error;
use crate::cache::DiskCache;
use crate::limits::{CHUNKS_KEPT_BYTES, DISK_CACHE_BYTES, DISK_CACHE_MIN};
use crate::policy::{Policies, Policy};

/// The address of a volume, and the user that connects.
#[derive(Clone)]
pub struct ConnectOptions {
    /// `host:port` of the metadata service.
    pub address: String,
    /// The volume's key.
    pub key: VolumeKey,
    /// The volume's id; all zeros accepts any volume with this key.
    pub volume: [u8; 16],
    /// On whose behalf.
    pub who: Credentials,
    /// Network, clock and randomness.
    pub env: Env,
    /// The least protection of the frames of its connections; servers may be set to more.
    pub wire: Wire,
    /// Metadata operations may be acknowledged before they survive power loss (they survive the
    /// death of any process): they do about a second later, in the order in which they were done,
    /// or after [`Volume::sync_namespace`](crate::Volume::sync_namespace).
    pub lazy: bool,
    /// What `weft status` calls this client; empty: nothing.
    pub name: String,
    /// The application, or job, that this process belongs to. Where clients of two applications
    /// have a file open and one of them writes it, the operations of all are cautious
    /// ([`Access::cautious`](crate::Access::cautious)). Empty: none in particular, which forces
    /// nothing.
    pub application: String,
    /// The policy of files that have none, as far as they can have it.
    pub policy: Option<Policy>,
    /// Where plug-ins are looked for.
    pub policies: Policies,
    /// What this client does with the bytes of files is recorded there, for `weft referee`; `None`:
    /// in the folder that `WEFT_HISTORY` names, if it does. It costs a copy of every byte.
    pub history: Option<Recorder>,
    /// The most bytes of chunks of addressed files that policies keep in memory.
    pub chunk_cache: u64,
    /// Chunks are kept on a disk, too; `None`: if `WEFT_CHUNK_CACHE` names a folder, there.
    pub disk_cache: Option<DiskCacheOptions>,
    /// Which reads are spread over the replicas of a server.
    pub spread_reads: SpreadReads,
}

/// Where chunks of addressed files are kept on a local disk, for all processes that name the same
/// folder, also after their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The folder; it is made for its owner only. Who can read it can read the bytes of all files
    /// that were read through it.
    pub folder: PathBuf,
    /// The most bytes of all chunks in it, together with about 4 KiB for each.
    pub bytes: u64,
}

impl DiskCacheOptions {
    /// 10 GiB in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> DiskCacheOptions {
        DiskCacheOptions {
            folder: folder.into(),
            bytes: DISK_CACHE_BYTES,
        }
    }

    /// What the environment asks for.
    ///
    /// # Errors
    /// [`Error::Configuration`] where the size is none.
    pub(super) fn of_environment() -> Result<Option<DiskCacheOptions>, Error> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(folder) = named(DISK_CACHE_VARIABLE) else {
            return Ok(None);
        };
        let mut options = DiskCacheOptions::at(folder);
        if let Some(size) = named(DISK_CACHE_SIZE_VARIABLE) {
            let size = size.to_string_lossy();
            options.bytes = weft_layout::size::parse(&size).map_err(|wrong| {
                Error::Configuration(format!("{DISK_CACHE_SIZE_VARIABLE}={size}: {wrong}"))
            })?;
        }
        Ok(Some(options))
    }

    pub(super) fn open(&self) -> Result<DiskCache, Error> {
        let folder = self.folder.display();
        if self.bytes < DISK_CACHE_MIN {
            let (given, least) = (self.bytes, DISK_CACHE_MIN >> 20);
            return Err(Error::Configuration(format!(
                "a cache of {given} bytes in {folder} is too small: give it at least {least} MiB"
            )));
        }
        DiskCache::open(&self.folder, self.bytes)
            .map_err(|e| Error::Configuration(format!("cannot keep chunks in {folder}: {e}")))
    }
}

/// The address of the metadata service, in a volume's folder, beside its key.
const ADDRESS_FILE: &str = "volume.address";
/// The volume's key in its folder.
const KEY_FILE: &str = "volume.key";
/// The volume's protection of frames; absent: that of most volumes.
const WIRE_FILE: &str = "volume.wire";

/// The variable that names the folder of chunks, and that of its size.
const DISK_CACHE_VARIABLE: &str = "WEFT_CHUNK_CACHE";
const DISK_CACHE_SIZE_VARIABLE: &str = "WEFT_CHUNK_CACHE_SIZE";

/// The variable that names the folder of histories.
const HISTORY_VARIABLE: &str = "WEFT_HISTORY";

/// Variables that name a process's job: Weft's own, and those of Slurm, PBS and LSF.
const JOB_VARIABLES: [&str; 4] = ["WEFT_APPLICATION", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];

impl ConnectOptions {
    /// A volume whose metadata service listens at `address`, opened as the process's own user. The
    /// application is named by `WEFT_APPLICATION`, or by the job of Slurm, PBS or LSF.
    pub fn new(address: impl Into<String>, key: VolumeKey) -> ConnectOptions {
        ConnectOptions {
            address: address.into(),
            key,
            volume: [0; 16],
            who: process_credentials(),
            env: Env::system(),
            wire: Wire::Mac,
            lazy: false,
            name: String::new(),
            application: application(),
            policy: None,
            policies: Policies::default(),
            history: None,
            chunk_cache: CHUNKS_KEPT_BYTES,
            disk_cache: None,
            spread_reads: SpreadReads::default(),
        }
    }

    /// The volume of this folder, as `weft format` and `weft up` lay it out.
    pub fn from_folder(folder: impl AsRef<Path>) -> Result<ConnectOptions, Error> {
        let folder = folder.as_ref();
        let said = |path: &Path, e: &io::Error| Error::Configuration(unreadable(folder, path, e));
        let path = folder.join(ADDRESS_FILE);
        let address = read_small(&path).map_err(|e| said(&path, &e))?;
        let path = folder.join(KEY_FILE);
        let (text, metadata) = read_with_metadata(&path).map_err(|e| said(&path, &e))?;
        let mut options = ConnectOptions::new(address.trim(), key_of(&path, &text, &metadata)?);
        let path = folder.join(WIRE_FILE);
        if path.exists() {
            let wire = read_small(&path).map_err(|e| said(&path, &e))?;
            options.wire = wire.trim().parse().map_err(|e: String| {
                Error::Configuration(format!("{} is not legal: {e}", path.display()))
            })?;
        }
        Ok(options)
    }

    /// A volume by address and the file that holds its key.
    ///
    /// # Errors
    /// [`Error::Configuration`] where the file is no regular one, holds no key, or is open to
    /// others: every holder of the key may do everything.
    pub fn from_address(
        address: &str,
        key_file: impl AsRef<Path>,
    ) -> Result<ConnectOptions, Error> {
        let path = key_file.as_ref();
        let (text, metadata) = read_with_metadata(path).map_err(|e| {
            Error::Configuration(format!(
                "cannot read the volume's key {}: {e}",
                path.display()
            ))
        })?;
        Ok(ConnectOptions::new(
            address,
            key_of(path, &text, &metadata)?,
        ))
    }
}

/// The key that a file holds, if none but its owner can read it. As with ssh, the owner of a key
/// must keep it so; a key of another user, say root's for a group, may be readable by that group.
fn key_of(path: &Path, text: &str, metadata: &Metadata) -> Result<VolumeKey, Error> {
    let mode = metadata.mode() & 0o7777;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if let Some(wrong) = exposed(mode, own) {
        let path = path.display();
        return Err(Error::Configuration(format!(
            "the volume's key {path} has the mode {mode:04o}: {wrong}, and a process with the key may do everything with the \
             volume; run `chmod 600 {path}`"
        )));
    }
    parse_key(text).ok_or_else(|| bad_key(path))
}

/// What is wrong with a key's mode.
fn exposed(mode: u32, own: bool) -> Option<&'static str> {
    match mode {
        _ if mode & 0o022 != 0 => Some("others can change it"),
        _ if mode & 0o007 != 0 || own && mode & 0o070 != 0 => Some("others can read it"),
        _ => None,
    }
}

fn bad_key(path: &Path) -> Error {
    Error::Configuration(format!(
        "{} holds no key: a key is 64 hexadecimal digits on one line, made by `weft format`",
        path.display()
    ))
}

fn parse_key(text: &str) -> Option<VolumeKey> {
    let digits = text.trim().as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(VolumeKey(key))
}

/// A file of a volume's folder could not be read. Only one that is not there says that the folder
/// is none.
fn unreadable(folder: &Path, file: &Path, error: &io::Error) -> String {
    let (folder, file) = (folder.display(), file.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => format!(
            "{folder} is not the folder of a volume: cannot read {file}: {error}; make one with `weft up {folder}`"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot read {file} of the volume in {folder}: {error}; a program that uses a volume by its folder \
             needs to read that file"
        ),
        _ => format!("cannot read {file} of the volume in {folder}: {error}"),
    }
}

/// A recorder in this folder.
///
/// # Errors
/// [`Error::Configuration`] if it cannot be made.
pub fn record_history(folder: &Path) -> Result<Recorder, Error> {
    let name = rustix::system::uname();
    let host = name.nodename().to_string_lossy().replace('/', "-");
    Recorder::in_folder(folder, &host).map_err(|e| {
        let folder = folder.display();
        Error::Configuration(format!("cannot record a history in {folder}: {e}"))
    })
}

/// The recorder that the environment asks for.
pub(super) fn history_of_environment() -> Result<Option<Recorder>, Error> {
    let folder = std::env::var_os(HISTORY_VARIABLE).filter(|name| !name.is_empty());
    folder
        .map(|folder| record_history(Path::new(&folder)))
        .transpose()
}

/// User and groups of this process.
fn process_credentials() -> Credentials {
    let mut groups: Vec<u32> = rustix::process::getgroups()
        .unwrap_or_default()
        .iter()
        .map(|g| g.as_raw())
        .collect();
    groups.truncate(weft_proto::limits::GROUPS_MAX);
    Credentials {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups,
    }
}

/// The job that the environment names.
fn application() -> String {
    let job = |name: &&str| std::env::var(name).ok().filter(|job| !job.is_empty());
    JOB_VARIABLES.iter().find_map(job).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_other_users_can_read_or_change_is_refused() {
        for (mode, own, refused) in [
            (0o600, true, false),
            (0o400, true, false),
            (0o640, true, true),
            (0o604, true, true),
            (0o610, true, true),
            // A key of another user may be readable by the group.
            (0o640, false, false),
            (0o660, false, true),
            (0o644, false, true),
            (0o602, false, true),
        ] {
            assert_eq!(exposed(mode, own).is_some(), refused, "{mode:o} {own}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "ab".repeat(32)).unwrap();
        let set = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, mode).unwrap();
        };
        set(0o644);
        let refused = ConnectOptions::from_address("localhost:1", &path).err();
        let refused = refused.unwrap().to_string();
        assert!(
            refused.contains("mode 0644") && refused.contains("chmod 600"),
            "{refused}"
        );
        set(0o600);
        ConnectOptions::from_address("localhost:1", &path).unwrap();
    }

    #[test]
    fn an_unreadable_key_and_a_folder_without_a_volume_are_distinct_errors() {
        let say = |kind: io::ErrorKind| {
            let (folder, file) = (Path::new("/v"), Path::new("/v/volume.key"));
            unreadable(folder, file, &io::Error::from(kind))
        };
        assert!(say(io::ErrorKind::NotFound).contains("is not the folder of a volume"));
        let denied = say(io::ErrorKind::PermissionDenied);
        assert!(
            denied.contains("permission denied") && !denied.contains("is not the folder"),
            "{denied}"
        );
    }
}
