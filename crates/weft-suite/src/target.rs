//! Where a benchmark runs: a temporary volume, an existing one, or a mounted path; and the files it
//! makes there.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weft_client::{Access, ConnectOptions, File, NewLayout, Volume};
use weft_layout::Storage;

use crate::error::SuiteError;
use crate::link::{LinkedVolume, Names};
use crate::place::VolumePlace;
use crate::point::Point;
use crate::sweep::TargetKind;
use crate::task::Handle;
use crate::volume::{TemporaryVolume, folder_in};
use crate::workload::UNIT;

/// Where to measure.
#[derive(Clone, Debug)]
pub enum Target {
    /// A temporary volume in this folder.
    Own {
        /// The folder.
        folder: PathBuf,
        /// Bytes per second of the link of each server, each way; absent: no limit.
        link: Option<u64>,
    },
    /// A volume that stands.
    Standing(VolumePlace),
    /// A directory of any file system, through POSIX calls.
    Path(PathBuf),
}

/// A volume with a directory for a benchmark's files.
struct BenchVolume {
    volume: Volume,
    place: VolumePlace,
    /// Servers by id; layouts take the first of them.
    servers: Vec<u32>,
    directory: String,
    /// Present if the volume goes with the benchmark.
    own: Option<StartedVolume>,
}

/// A volume of the benchmark's own.
enum StartedVolume {
    Plain(TemporaryVolume),
    Linked(LinkedVolume),
}

impl StartedVolume {
    fn start(
        program: &Path,
        folder: &Path,
        servers: u32,
        link: Option<u64>,
    ) -> Result<StartedVolume, SuiteError> {
        let Some(rate) = link else {
            return TemporaryVolume::start(program, folder, servers, &[]).map(StartedVolume::Plain);
        };
        if let Some(names) = Names::make(servers, rate) {
            return LinkedVolume::start(program, folder, servers, names).map(StartedVolume::Linked);
        }
        let rate = rate.to_string();
        TemporaryVolume::start(program, folder, servers, &["--link", &rate])
            .map(StartedVolume::Plain)
    }

    fn path(&self) -> &Path {
        match self {
            StartedVolume::Plain(volume) => volume.path(),
            StartedVolume::Linked(volume) => volume.path(),
        }
    }
}

/// An open target.
pub(crate) struct OpenTarget {
    mounted: Option<BenchVolume>,
    /// For points on the local file system, and for a path.
    folder: Option<TempDir>,
    files: u64,
}

/// The file of a point.
pub(crate) struct BenchFile {
    pub(crate) handle: Handle,
    /// In the volume.
    pub(crate) name: String,
    pub(crate) file: Option<File>,
}

impl Target {
    /// What a case may ask of it.
    pub(crate) async fn place(&self) -> Result<TargetKind, SuiteError> {
        match self {
            Target::Own { .. } => Ok(TargetKind::Own),
            Target::Path(_) => Ok(TargetKind::Path),
            Target::Standing(place) => {
                let volume = Volume::connect(ConnectOptions::try_from(place)?).await?;
                let servers = volume.server_map().await?.servers.len();
                Ok(TargetKind::Standing(servers as u32))
            }
        }
    }

    /// Opens it, for points of at most this many servers.
    pub(crate) async fn open(
        &self,
        program: &Path,
        servers: u32,
    ) -> Result<OpenTarget, SuiteError> {
        let (place, own, folder) = match self {
            Target::Path(path) => {
                return Ok(OpenTarget {
                    mounted: None,
                    folder: Some(folder_in(path)?),
                    files: 0,
                });
            }
            Target::Standing(place) => (place.clone(), None, None),
            Target::Own { folder, link } => {
                let own = StartedVolume::start(program, folder, servers, *link)?;
                let place = VolumePlace::Folder(own.path().to_owned());
                (place, Some(own), Some(folder_in(folder)?))
            }
        };
        let volume = Volume::connect(ConnectOptions::try_from(&place)?).await?;
        let map = volume.server_map().await?;
        let mut servers: Vec<u32> = map.servers.iter().map(|s| s.id).collect();
        servers.sort_unstable();
        let directory = format!("/weft-bench-{}", std::process::id());
        volume.make_directory(&directory, 0o700).await?;
        let mounted = BenchVolume {
            volume,
            place,
            servers,
            directory,
            own,
        };
        Ok(OpenTarget {
            mounted: Some(mounted),
            folder,
            files: 0,
        })
    }
}

impl OpenTarget {
    /// How workers reach the volume.
    pub(crate) fn place(&self) -> Option<VolumePlace> {
        self.mounted.as_ref().map(|m| m.place.clone())
    }

    /// Makes the file of a point.
    pub(crate) async fn create(&mut self, point: &Point) -> Result<BenchFile, SuiteError> {
        self.files += 1;
        match (&self.mounted, &self.folder) {
            (Some(mounted), _) if !point.local => {
                let name = format!("{}/{}", mounted.directory, self.files);
                let layout = NewLayout {
                    cells: Some(point.shape.cells),
                    bsu: Some(point.shape.bsu),
                    servers: mounted.first(point.servers)?,
                    chunk: point.shape.addressed.then_some(UNIT as u32),
                    storage: point.shape.addressed.then_some(Storage::Addressed),
                    ..NewLayout::default()
                };
                let mut access = Access::read_write().create_new(0o600).layout(&layout);
                if let Some(policy) = point.policy {
                    access = access.policy(policy);
                }
                let file = mounted.volume.attach(name.as_str(), access).await?;
                Ok(BenchFile {
                    handle: Handle::Weft(file.hand_over()),
                    name,
                    file: Some(file),
                })
            }
            (_, Some(folder)) => {
                let path = folder.path().join(self.files.to_string());
                std::fs::File::create(&path).map_err(SuiteError::local("cannot create", &path))?;
                Ok(BenchFile {
                    handle: Handle::Posix(path),
                    name: String::new(),
                    file: None,
                })
            }
            _ => Err(SuiteError::part("no place for the file")),
        }
    }

    /// Removes the file of a point.
    pub(crate) async fn remove(&self, file: BenchFile) -> Result<(), SuiteError> {
        if let Handle::Posix(path) = &file.handle {
            std::fs::remove_file(path).map_err(SuiteError::local("cannot remove", path))?;
        }
        if let (Some(mounted), Some(attached)) = (&self.mounted, file.file) {
            attached.close().await?;
            mounted.volume.unlink(file.name.as_str()).await?;
        }
        Ok(())
    }

    /// Removes the file of a point that a program has replaced by another of the same name.
    pub(crate) async fn remove_replaced(&self, file: BenchFile) -> Result<(), SuiteError> {
        if let Handle::Posix(path) = &file.handle {
            std::fs::remove_file(path).map_err(SuiteError::local("cannot remove", path))?;
        }
        // What was replaced went with its last attachment.
        drop(file.file);
        if let Some(mounted) = &self.mounted {
            mounted.volume.unlink(file.name.as_str()).await?;
        }
        Ok(())
    }

    /// Removes everything that is left.
    pub(crate) async fn close(self) -> Result<(), SuiteError> {
        let Some(mounted) = self.mounted else {
            return Ok(());
        };
        if mounted.own.is_none() {
            for number in 1..=self.files {
                let name = format!("{}/{number}", mounted.directory);
                match mounted.volume.unlink(name.as_str()).await {
                    Err(e) if e.errno() != rustix::io::Errno::NOENT.raw_os_error() => {
                        return Err(e.into());
                    }
                    _ => {}
                }
            }
            let directory = mounted.directory.as_str();
            mounted.volume.remove_directory(directory).await?;
        }
        Ok(())
    }
}

impl BenchVolume {
    fn first(&self, servers: u32) -> Result<Vec<u32>, SuiteError> {
        let first = self.servers.get(..servers as usize);
        let first = first.ok_or_else(|| {
            let there = self.servers.len();
            SuiteError::Asked(format!("the volume has {there} servers only"))
        })?;
        Ok(first.to_vec())
    }
}
