//! A volume with a directory for a benchmark's files: one that stands, or one of its own.

use std::path::Path;

use weft_client::{Access, ConnectOptions, File, FileKind, NewLayout, Volume};
use weft_layout::Storage;

use crate::error::SuiteError;
use crate::link::{LinkedVolume, Names};
use crate::place::VolumePlace;
use crate::point::Point;
use crate::volume::TemporaryVolume;
use crate::workload::UNIT;

/// A volume with a directory for a benchmark's files.
pub(super) struct BenchVolume {
    volume: Volume,
    place: VolumePlace,
    /// Servers by id; layouts take the first of them.
    servers: Vec<u32>,
    directory: String,
    /// Present if the volume goes with the benchmark.
    own: Option<StartedVolume>,
}

/// A volume of the benchmark's own.
pub(super) enum StartedVolume {
    Plain(TemporaryVolume),
    /// A backup of its first server is lost.
    Degraded(TemporaryVolume),
    /// Its servers limit themselves.
    Limited(TemporaryVolume),
    /// Its servers are in namespaces.
    Linked(LinkedVolume),
}

impl StartedVolume {
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        (servers, replicas): (u32, u32),
        link: Option<u64>,
    ) -> Result<StartedVolume, SuiteError> {
        let count = replicas.to_string();
        let options = ["--replicas", &count];
        let Some(rate) = link else {
            let volume = TemporaryVolume::start(program, folder, servers, &options);
            return volume.map(StartedVolume::Plain);
        };
        if let Some(names) = Names::make(servers, rate) {
            let volume = LinkedVolume::start(program, folder, (servers, replicas), names);
            return volume.map(StartedVolume::Linked);
        }
        let rate = rate.to_string();
        let options = [&options[..], &["--link", &rate]].concat();
        TemporaryVolume::start(program, folder, servers, &options).map(StartedVolume::Limited)
    }

    /// The same volume, without a backup of its first server.
    pub(super) fn degraded(self) -> Result<StartedVolume, SuiteError> {
        match self {
            StartedVolume::Plain(volume) | StartedVolume::Degraded(volume) => {
                volume.lose_backup()?;
                Ok(StartedVolume::Degraded(volume))
            }
            StartedVolume::Limited(_) | StartedVolume::Linked(_) => Err(SuiteError::Asked(
                "a degraded volume has no limited links".to_owned(),
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            StartedVolume::Plain(volume)
            | StartedVolume::Degraded(volume)
            | StartedVolume::Limited(volume) => volume.path(),
            StartedVolume::Linked(volume) => volume.path(),
        }
    }
}

impl BenchVolume {
    /// Connects, and makes the directory.
    pub(super) async fn open(
        place: VolumePlace,
        own: Option<StartedVolume>,
    ) -> Result<BenchVolume, SuiteError> {
        let volume = Volume::connect(ConnectOptions::try_from(&place)?).await?;
        let map = volume.server_map().await?;
        let mut servers: Vec<u32> = map.servers.iter().map(|s| s.id).collect();
        servers.sort_unstable();
        let directory = format!("/weft-bench-{}", std::process::id());
        volume.make_directory(&directory, 0o700).await?;
        Ok(BenchVolume {
            volume,
            place,
            servers,
            directory,
            own,
        })
    }

    pub(super) fn place(&self) -> &VolumePlace {
        &self.place
    }

    /// The path of what has this name in the directory.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Creates the file of a point.
    pub(super) async fn create(&self, path: &str, point: &Point) -> Result<File, SuiteError> {
        let addressed = point.shape.addressed;
        let layout = NewLayout {
            cells: Some(point.shape.cells),
            bsu: Some(point.shape.bsu),
            servers: self.first(point.servers)?,
            chunk: addressed.then_some(UNIT as u32),
            storage: addressed.then_some(Storage::Addressed),
            ..NewLayout::default()
        };
        let mut access = Access::read_write().create_new(0o600).layout(&layout);
        if let Some(policy) = point.policy {
            access = access.policy(policy);
        }
        Ok(self.volume.attach(path, access).await?)
    }

    /// Makes a directory, and one in it for each client.
    pub(super) async fn make_directories(
        &self,
        path: &str,
        clients: usize,
    ) -> Result<(), SuiteError> {
        self.volume.make_directory(path, 0o700).await?;
        for client in 0..clients {
            let path = format!("{path}/{client}");
            self.volume.make_directory(path.as_str(), 0o700).await?;
        }
        Ok(())
    }

    /// The first of the servers.
    pub(super) fn first(&self, servers: u32) -> Result<Vec<u32>, SuiteError> {
        let first = self.servers.get(..servers as usize);
        let first = first.ok_or_else(|| {
            let there = self.servers.len();
            SuiteError::Asked(format!("the volume has {there} servers only"))
        })?;
        Ok(first.to_vec())
    }

    pub(super) async fn unlink(&self, path: &str) -> Result<(), SuiteError> {
        self.volume.unlink(path).await?;
        Ok(())
    }

    /// Ends the volume's servers and starts them again, which empties their memory, if the volume
    /// is the benchmark's own. With limited links it stays as it is: started again as a user does,
    /// its servers would have no limits.
    pub(super) fn restart(&self) -> Result<(), SuiteError> {
        match &self.own {
            Some(StartedVolume::Plain(volume)) => volume.restart(),
            Some(StartedVolume::Degraded(volume)) => {
                volume.restart()?;
                volume.lose_backup()
            }
            Some(StartedVolume::Limited(_) | StartedVolume::Linked(_)) | None => Ok(()),
        }
    }

    /// Removes a directory and all that is in it.
    pub(super) async fn remove_tree(&self, path: &str) -> Result<(), SuiteError> {
        for entry in self.volume.list(path).all().await? {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            if entry.attributes.kind == FileKind::Directory as i32 {
                Box::pin(self.remove_tree(&path)).await?;
            } else {
                self.volume.unlink(path.as_str()).await?;
            }
        }
        self.volume.remove_directory(path).await?;
        Ok(())
    }

    /// Removes all that the benchmark made.
    pub(super) async fn close(self) -> Result<(), SuiteError> {
        match self.own {
            // Everything goes with the volume.
            Some(_) => Ok(()),
            None => self.remove_tree(&self.directory).await,
        }
    }
}
