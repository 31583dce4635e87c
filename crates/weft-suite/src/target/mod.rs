//! Where a benchmark runs: a temporary volume, an existing one, or mounted paths; and the files it
//! makes there.
//!
//! Owns what is to be removed at the end: the volume or the directory in it, and directories on
//! paths. Invariant: [`OpenTarget::close`] leaves nothing behind, wherever the run ended, once no
//! worker runs any more.

mod bench_volume;
mod paths;

use std::path::{Path, PathBuf};

use weft_client::{ConnectOptions, File, Volume};

use self::bench_volume::{BenchVolume, StartedVolume};
use self::paths::{Folder, Paths};
use crate::error::SuiteError;
use crate::place::VolumePlace;
use crate::point::{Case, Point};
use crate::row::Op;
use crate::sweep::TargetKind;
use crate::task::Handle;

/// Where to measure.
#[derive(Clone, Debug)]
pub enum Target {
    /// A temporary volume in this folder.
    Own {
        /// The folder.
        folder: PathBuf,
        /// Replicas of each server.
        replicas: u32,
        /// A replica of the first server is lost before anything is measured.
        degraded: bool,
        /// Bytes per second of the link of each server, each way; absent: no limit.
        link: Option<u64>,
    },
    /// A volume that stands.
    Standing(VolumePlace),
    /// A directory of any file system, through POSIX calls: its path in each of one or several
    /// mounts.
    Paths(Vec<PathBuf>),
}

/// An open target.
pub(crate) struct OpenTarget {
    mounted: Option<BenchVolume>,
    /// On the paths that are measured.
    paths: Option<Folder>,
    /// For points on the local file system.
    local: Option<Folder>,
    files: u64,
}

/// The file of a point, or the directory of its files.
pub(crate) struct BenchFile {
    /// In the volume.
    pub(crate) name: String,
    kind: Kind,
}

enum Kind {
    Attached(File),
    /// Directories of the volume, one for each client, for files on these servers.
    Directories(Vec<u32>),
    Posix(Paths),
    PosixDirectories(Paths),
}

impl Target {
    /// What a case may ask of it.
    pub(crate) async fn place(&self) -> Result<TargetKind, SuiteError> {
        match self {
            Target::Own { .. } => Ok(TargetKind::Own),
            Target::Paths(_) => Ok(TargetKind::Path),
            Target::Standing(place) => {
                let volume = Volume::connect(ConnectOptions::try_from(place)?).await?;
                let servers = volume.server_map().await?.servers.len();
                Ok(TargetKind::Standing(servers as u32))
            }
        }
    }

    /// Opens it, for points of at most this many servers; `local` is a folder on the local disk, if
    /// there are points for it.
    pub(crate) async fn open(
        &self,
        program: &Path,
        servers: u32,
        local: Option<&Path>,
    ) -> Result<OpenTarget, SuiteError> {
        let folder = |path: &Path| Folder::make(&[path.to_owned()]);
        let mut target = OpenTarget {
            mounted: None,
            paths: None,
            local: local.map(folder).transpose()?,
            files: 0,
        };
        match self {
            Target::Paths(paths) => target.paths = Some(Folder::make(paths)?),
            Target::Standing(place) => {
                target.mounted = Some(BenchVolume::open(place.clone(), None).await?);
            }
            Target::Own {
                folder,
                replicas,
                degraded,
                link,
            } => {
                let own = StartedVolume::start(program, folder, (servers, *replicas), *link)?;
                let own = if *degraded { own.degraded()? } else { own };
                let place = VolumePlace::Folder(own.path().to_owned());
                target.mounted = Some(BenchVolume::open(place, Some(own)).await?);
            }
        }
        Ok(target)
    }
}

impl OpenTarget {
    /// How workers reach the volume.
    pub(crate) fn place(&self) -> Option<VolumePlace> {
        self.mounted.as_ref().map(|m| m.place().clone())
    }

    /// Makes the file of a point, or the directories of its files.
    pub(crate) async fn create(&mut self, point: &Point) -> Result<BenchFile, SuiteError> {
        self.files += 1;
        let number = self.files.to_string();
        let of_files = point.case == Case::Files;
        let folder = if point.local {
            &self.local
        } else {
            &self.paths
        };
        if let Some(folder) = folder {
            let paths = folder.join(&number);
            let name = String::new();
            let kind = if of_files {
                for client in 0..point.parts.len() {
                    let path = paths.first().join(client.to_string());
                    std::fs::create_dir_all(&path)
                        .map_err(SuiteError::local("cannot make", path))?;
                }
                Kind::PosixDirectories(paths)
            } else {
                let path = paths.first();
                std::fs::File::create(path).map_err(SuiteError::local("cannot create", path))?;
                Kind::Posix(paths)
            };
            return Ok(BenchFile { name, kind });
        }
        let Some(mounted) = &self.mounted else {
            return Err(SuiteError::part("no place for the file"));
        };
        let name = mounted.path(&number);
        let kind = if of_files {
            mounted.make_directories(&name, point.parts.len()).await?;
            Kind::Directories(mounted.first(point.servers)?)
        } else {
            Kind::Attached(mounted.create(&name, point).await?)
        };
        Ok(BenchFile { name, kind })
    }

    /// Removes the file of a point, or its directories.
    pub(crate) async fn remove(&self, file: BenchFile) -> Result<(), SuiteError> {
        match (&self.mounted, file.kind) {
            (_, Kind::Posix(paths)) => {
                let path = paths.first();
                std::fs::remove_file(path).map_err(SuiteError::local("cannot remove", path))
            }
            (_, Kind::PosixDirectories(paths)) => {
                let path = paths.first();
                std::fs::remove_dir_all(path).map_err(SuiteError::local("cannot remove", path))
            }
            (Some(mounted), Kind::Attached(attached)) => {
                attached.close().await?;
                mounted.unlink(&file.name).await
            }
            (Some(mounted), Kind::Directories(_)) => mounted.remove_tree(&file.name).await,
            (None, _) => Ok(()),
        }
    }

    /// Removes the file of a point that a program has replaced by another of the same name.
    pub(crate) async fn remove_replaced(&self, file: BenchFile) -> Result<(), SuiteError> {
        match (&self.mounted, &file.kind) {
            (Some(mounted), Kind::Attached(_)) => {
                let name = file.name.clone();
                // What was replaced went with its last attachment.
                drop(file);
                mounted.unlink(&name).await
            }
            _ => self.remove(file).await,
        }
    }

    /// Empties the memory of the servers that have a point's file, where they are the benchmark's.
    pub(crate) fn cool(&self, file: &BenchFile) -> Result<(), SuiteError> {
        match (&self.mounted, &file.kind) {
            (Some(mounted), Kind::Attached(_) | Kind::Directories(_)) => mounted.restart(),
            _ => Ok(()),
        }
    }

    /// Removes everything that is left.
    pub(crate) async fn close(self) -> Result<(), SuiteError> {
        let volume = match self.mounted {
            Some(mounted) => mounted.close().await,
            None => Ok(()),
        };
        for folder in [self.paths, self.local].into_iter().flatten() {
            folder.remove()?;
        }
        volume
    }
}

impl BenchFile {
    /// How a client reaches it for a step.
    pub(crate) fn handle(&self, client: usize, op: Op) -> Handle {
        match &self.kind {
            Kind::Attached(file) => Handle::Weft(file.hand_over()),
            Kind::Posix(paths) => Handle::Posix(paths.of(client, op).to_owned()),
            Kind::Directories(servers) => Handle::Directory {
                path: format!("{}/{client}", self.name),
                servers: servers.clone(),
            },
            Kind::PosixDirectories(paths) => {
                Handle::PosixDirectory(paths.of(client, op).join(client.to_string()))
            }
        }
    }

    /// The path of a file on a path.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Posix(paths) => Some(paths.first()),
            _ => None,
        }
    }

    /// The attachment of a file in the volume.
    pub(crate) fn attached(&self) -> Option<&File> {
        match &self.kind {
            Kind::Attached(file) => Some(file),
            _ => None,
        }
    }
}
