//! Only the owner may access a volume's files on this machine: folders have the mode 0700 and files
//! 0600, whatever the umask. They hold data of files that other users may not read.

use std::ffi::OsStr;
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::OFlags;

use super::local_volume::STARTED;
use super::start_lock::is_start_lock;
use crate::process::private_files::{FILE_MODE, FOLDER_MODE, OTHERS};
use crate::volume_config::config::file::{ADDRESS, Config, FILE, NodeName, WIRE};

/// A folder that local file systems have at their root.
const LOST_AND_FOUND: &str = "lost+found";

/// Removes the permissions of other users on the files of a node and of the volume's own folder:
/// earlier versions left them to the umask. Logs the changes in one line.
pub(crate) fn close_to_others(config: &Config, node: NodeName) -> Result<()> {
    let mut closed = PermissionFix {
        key: config.at(&config.volume.key),
        count: 0,
        first: None,
    };
    let folder = node.folder(config)?;
    let done = closed.tree(&folder, true).and_then(|()| {
        for own in ["log", STARTED] {
            closed.tree(&config.base.join(own), true)?;
        }
        closed.own(&config.base, |name, _| is_own(config, name))?;
        let disks = match node {
            NodeName::Meta => [].iter(),
            NodeName::Server(id) => config.server(id).map_or([].iter(), |s| s.disks.iter()),
        };
        for disk in disks.map(|disk| config.at(disk)).filter(|d| d.is_dir()) {
            closed.own(&disk, |name, file| file && name != LOST_AND_FOUND)?;
        }
        Ok(())
    });
    if let Err(error) = done {
        // For instance another user's folder, whose content may have the right modes anyway.
        tracing::warn!(%error, folder = %folder.display(), "cannot check whether other users may read files of the volume");
    }
    if let Some((path, mode)) = &closed.first {
        tracing::warn!(
            files = closed.count,
            first = %path.display(),
            mode = format_args!("{mode:04o}"),
            "other users could read files of the volume; removed their permissions"
        );
    }
    Ok(())
}

/// Whether Weft created this name in the volume's folder.
fn is_own(config: &Config, name: &OsStr) -> bool {
    let nodes = config.nodes();
    let folders = nodes.iter().filter_map(|node| node.folder(config).ok());
    let key = config.at(&config.volume.key);
    let own = [FILE, ADDRESS, WIRE, "log", "mounted", STARTED];
    let path = config.base.join(name);
    own.iter().any(|own| name == *own)
        || is_start_lock(name)
        || key == path
        || folders.into_iter().any(|f| f == path)
}

/// Removes permissions of other users, and counts the files that had them.
struct PermissionFix {
    /// The key's owner decides on its mode (`ConnectOptions`).
    key: PathBuf,
    count: usize,
    first: Option<(PathBuf, u32)>,
}

impl PermissionFix {
    /// A folder and everything below it. `top`: it may be missing.
    fn tree(&mut self, path: &Path, top: bool) -> io::Result<()> {
        match self.one(path) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) if top && error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        for entry in std::fs::read_dir(path)? {
            let below = entry?.path();
            match self.tree(&below, false) {
                // An engine of another process may have removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// The volume's files in a folder, and the folder itself if it holds nothing else.
    fn own(&mut self, folder: &Path, is_own: impl Fn(&OsStr, bool) -> bool) -> io::Result<()> {
        let mut alone = true;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if !is_own(&name, kind.is_file()) {
                alone &= name == LOST_AND_FOUND;
            } else if kind.is_file() && name != FILE {
                self.one(&entry.path())?;
            }
        }
        if alone {
            // The configuration belongs to an administrator; it is closed only with its folder.
            self.one(folder)?;
            let config = folder.join(FILE);
            if config.exists() {
                self.one(&config)?;
            }
        }
        Ok(())
    }

    /// One file or folder; true: it is a folder. Skips symbolic links, also one that takes the
    /// file's place meanwhile.
    fn one(&mut self, path: &Path) -> io::Result<bool> {
        let metadata = std::fs::symlink_metadata(path)?;
        let kind = metadata.file_type();
        if !(kind.is_file() || kind.is_dir()) || path == self.key {
            return Ok(false);
        }
        let mode = metadata.mode() & 0o7777;
        if mode & OTHERS == 0 {
            return Ok(kind.is_dir());
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true);
        options.custom_flags(flags.bits().cast_signed());
        let narrow = if kind.is_dir() {
            FOLDER_MODE
        } else {
            FILE_MODE
        };
        let file = options.open(path)?;
        file.set_permissions(Permissions::from_mode(mode & narrow))?;
        self.count += 1;
        self.first.get_or_insert((path.to_owned(), mode));
        Ok(kind.is_dir())
    }
}
