//! The lock of the command that starts or stops the nodes of a volume on this machine, one command
//! at a time. The kernel releases it when the process ends, however it ends.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use crate::terminal::output;

/// The lock's file.
const FILE: &str = "starting.lock";

/// Held while nodes are started or stopped.
pub(crate) struct Starter {
    _file: File,
    path: PathBuf,
    /// This command made the folder.
    made: bool,
}

/// Whether a name in a volume's folder is the lock's.
pub(crate) fn is_starter(name: &std::ffi::OsStr) -> bool {
    name == FILE
}

impl Starter {
    /// Takes the lock of a volume that may still have to be made. Waits for the command that has
    /// it, and says so.
    pub(crate) fn of_any(folder: &Path, wait: Duration) -> Result<Starter> {
        let made = !folder.exists();
        if !made && !folder.is_dir() {
            bail!("{} is a file; a volume needs a folder", folder.display());
        }
        let starter = take(folder, true, wait)?;
        Ok(Starter { made, ..starter })
    }

    /// Takes the lock of a volume that is there; nothing where its folder cannot be written to.
    pub(crate) fn of_existing(folder: &Path, wait: Duration) -> Result<Option<Starter>> {
        match take(folder, false, wait) {
            Ok(starter) => Ok(Some(starter)),
            Err(error) => match error
                .downcast_ref::<std::io::Error>()
                .map(std::io::Error::kind)
            {
                Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Leaves nothing behind of a volume that was not made.
    pub(crate) fn leave(self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent().filter(|_| self.made) {
            // Only an empty one goes.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Waits for the lock; with `make` for that of a folder that another may take away meanwhile.
fn take(folder: &Path, make: bool, wait: Duration) -> Result<Starter> {
    let path = folder.join(FILE);
    let deadline = Instant::now() + wait;
    let mut said = false;
    loop {
        if make {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file = match open {
            // Taken away in between.
            Err(error) if make && error.kind() == ErrorKind::NotFound => continue,
            open => open.with_context(|| format!("cannot open {}", path.display()))?,
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Its last owner may have removed it in between: then the next one looks at another
            // file.
            let same = fs::metadata(&path).is_ok_and(|now| {
                file.metadata()
                    .is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
            });
            if !same {
                continue;
            }
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            return Ok(Starter {
                _file: file,
                path,
                made: false,
            });
        }
        let mut owner = String::new();
        file.rewind()?;
        let _ = file.read_to_string(&mut owner);
        let owner = match owner.trim() {
            "" => "another process".to_owned(),
            pid => format!("process {pid}"),
        };
        let folder = folder.display();
        if Instant::now() > deadline {
            bail!(
                "{owner} is still starting or stopping the volume {folder}: its logs are in {folder}/log"
            );
        }
        if !said {
            output::say(format_args!(
                "weft: {owner} is starting or stopping the volume {folder}; waiting for it"
            ));
            said = true;
        }
        sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_started_by_one_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("v");
        let first = Starter::of_any(&folder, Duration::ZERO).unwrap();
        let refused = Starter::of_any(&folder, Duration::from_millis(50));
        let refused = refused.err().unwrap().to_string();
        assert!(
            refused.contains(&std::process::id().to_string()),
            "{refused}"
        );
        let waits = std::thread::spawn({
            let folder = folder.clone();
            move || Starter::of_any(&folder, Duration::from_secs(20))
        });
        sleep(Duration::from_millis(50));
        // The file goes while the other waits for it.
        first.leave();
        let second = waits.join().unwrap().unwrap();
        assert!(folder.join(FILE).exists());
        second.leave();
    }
}
