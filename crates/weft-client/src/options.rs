//! How a volume is found: by its folder, or by an address and a key.

use std::io;
use std::path::Path;

use weft_net::{Env, VolumeKey, Wire};
use weft_proto::meta::Credentials;

use crate::Error;

/// Where a volume is and who connects.
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
    /// Metadata operations may be acknowledged before they survive power loss (they survive the death of any
    /// process): they do about a second later, in the order in which they were done, or after
    /// [`Volume::sync_namespace`](crate::Volume::sync_namespace).
    pub lazy: bool,
    /// What `weft status` calls this client; empty: nothing.
    pub name: String,
}

/// The address of the metadata service, in a volume's folder, beside its key.
const ADDRESS_FILE: &str = "volume.address";
/// The volume's key in its folder.
const KEY_FILE: &str = "volume.key";
/// The volume's protection of frames; absent: that of most volumes.
const WIRE_FILE: &str = "volume.wire";

impl ConnectOptions {
    /// A volume whose metadata service listens at `address`, opened as the process's own user.
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
        }
    }

    /// The volume of this folder, as `weft format` and `weft up` lay it out.
    pub fn from_folder(folder: impl AsRef<Path>) -> Result<ConnectOptions, Error> {
        let folder = folder.as_ref();
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path)
                .map_err(|e| Error::Configuration(unreadable(folder, &path, &e)))
        };
        let address = read(ADDRESS_FILE)?;
        let key = parse_key(&read(KEY_FILE)?).ok_or_else(|| bad_key(&folder.join(KEY_FILE)))?;
        let mut options = ConnectOptions::new(address.trim(), key);
        if folder.join(WIRE_FILE).exists() {
            let wire = read(WIRE_FILE)?.trim().parse();
            options.wire = wire.map_err(|e: String| {
                let file = folder.join(WIRE_FILE);
                Error::Configuration(format!("{} is not legal: {e}", file.display()))
            })?;
        }
        Ok(options)
    }

    /// A volume by address and the file that holds its key.
    pub fn from_address(
        address: &str,
        key_file: impl AsRef<Path>,
    ) -> Result<ConnectOptions, Error> {
        let path = key_file.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::Configuration(format!(
                "cannot read the volume's key {}: {e}",
                path.display()
            ))
        })?;
        Ok(ConnectOptions::new(
            address,
            parse_key(&text).ok_or_else(|| bad_key(path))?,
        ))
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

/// A file of a volume's folder could not be read. Only one that is not there says that the folder is none.
fn unreadable(folder: &Path, file: &Path, error: &io::Error) -> String {
    let (folder, file) = (folder.display(), file.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => format!(
            "{folder} is not the folder of a volume: cannot read {file}: {error}; make one with `weft up {folder}`"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot read {file} of the volume in {folder}: {error}; whoever uses a volume by its folder must be able to \
             read that file"
        ),
        _ => format!("cannot read {file} of the volume in {folder}: {error}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_not_be_read_is_not_a_folder_that_is_none() {
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
