//! A folder of policies: NAME.so is the policy NAME.

use std::collections::HashMap;
use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::Plugin;
use crate::load::{LoadError, is_name, load, name_of};

/// Where policies are looked for unless somebody says otherwise.
pub const DEFAULT_FOLDER: &str = "/usr/local/lib/weft/policies";
/// The environment variable that names another folder.
pub const FOLDER_VARIABLE: &str = "WEFT_POLICIES";

/// A folder of policies. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

/// Why a policy is not found.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotFound {
    /// There is no such file.
    #[error("there is no {0}")]
    Missing(PathBuf),
    /// It must not be trusted.
    #[error("{path} is not loaded: {reason}")]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Who could have changed it.
        reason: String,
    },
    /// It is none.
    #[error("{path} cannot be used as a policy: {error}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: LoadError,
    },
}

/// One version of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Nanoseconds of its last change of any kind.
    changed: i128,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: i128::from(metadata.ctime()) * 1_000_000_000
                + i128::from(metadata.ctime_nsec()),
        }
    }
}

type Outcome = Result<&'static Plugin, LoadError>;

/// What this process has loaded, and from what: a library is loaded once for the whole process.
static LOADED: LazyLock<Mutex<HashMap<PathBuf, (Stamp, Outcome)>>> = LazyLock::new(Mutex::default);

impl Default for Folder {
    /// The one that the environment names, or [`DEFAULT_FOLDER`].
    fn default() -> Folder {
        let named = std::env::var_os(FOLDER_VARIABLE).filter(|name| !name.is_empty());
        Folder(named.map_or_else(|| PathBuf::from(DEFAULT_FOLDER), PathBuf::from))
    }
}

impl Folder {
    /// This folder.
    pub fn at(path: impl Into<PathBuf>) -> Folder {
        Folder(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Finds a policy, and loads it if its file is new or another one than before. Cost: three
    /// system calls; a load reads the file.
    ///
    /// # Errors
    /// [`NotFound`]: a file that could not be loaded is not tried again until it changes.
    pub fn find(&self, name: &str) -> Result<&'static Plugin, NotFound> {
        let path = self.0.join(format!("{name}.so"));
        if !is_name(name) {
            return Err(NotFound::Missing(path));
        }
        // Not waiting for whoever writes into a pipe.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = match OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
        {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(NotFound::Missing(path)),
            opened => opened,
        };
        let opened = file.and_then(|file| Ok((file.metadata()?, file)));
        let checked = opened.and_then(|opened| Ok((std::fs::metadata(&self.0)?, opened)));
        let regular = checked.and_then(|(folder, (metadata, file))| {
            if metadata.is_file() {
                Ok((folder, (metadata, file)))
            } else {
                Err(io::Error::other("it is no regular file"))
            }
        });
        let (folder, (metadata, file)) = regular.map_err(|e| {
            let error = LoadError::Unreadable(e.to_string());
            let path = path.clone();
            NotFound::Broken { path, error }
        })?;
        for (path, metadata) in [(&self.0, &folder), (&path, &metadata)] {
            if let Some(reason) = exposed(metadata) {
                let path = path.clone();
                return Err(NotFound::Exposed { path, reason });
            }
        }
        let stamp = Stamp::of(&metadata);
        let mut loaded = LOADED.lock();
        let outcome = match loaded.get(&path) {
            Some((known, outcome)) if *known == stamp => outcome.clone(),
            _ => {
                let outcome = load(file, name);
                loaded.insert(path.clone(), (stamp, outcome.clone()));
                outcome
            }
        };
        outcome.map_err(|error| NotFound::Broken { path, error })
    }

    /// The names of the policies that may be there, sorted. Nothing is loaded.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let name = |entry: std::fs::DirEntry| name_of(&entry.file_name()).map(str::to_owned);
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort_unstable();
        names
    }
}

/// Who else could have changed what runs in this process.
fn exposed(metadata: &Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != own {
        return Some(format!(
            "it belongs to user {}, and only root's and one's own are run",
            metadata.uid()
        ));
    }
    let open = metadata.mode() & 0o022 != 0;
    open.then(|| {
        format!(
            "its mode {:04o} lets others change it; run `chmod go-w` on it",
            metadata.mode() & 0o7777
        )
    })
}
