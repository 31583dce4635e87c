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

use crate::limits::START_LOCK_POLL_INTERVAL;
use crate::terminal::output;

/// The lock's file.
const FILE: &str = "starting.lock";

/// Held while nodes are started or stopped.
pub(crate) struct StartLock {
    _file: File,
    path: PathBuf,
    /// This command made the folder.
    made: bool,
}

/// Whether a name in a volume's folder is the lock's.
pub(crate) fn is_start_lock(name: &std::ffi::OsStr) -> bool {
    name == FILE
}

impl StartLock {
    /// Takes the lock of a volume that may not exist yet. If another command holds it, says so and
    /// waits.
    pub(crate) fn of_any(folder: &Path, wait: Duration) -> Result<StartLock> {
        let made = !folder.exists();
        if !made && !folder.is_dir() {
            bail!(
                "{} is a file: name a folder for the volume",
                folder.display()
            );
        }
        let start_lock = take(folder, true, wait)?;
        Ok(StartLock { made, ..start_lock })
    }

    /// Takes the lock of an existing volume; `None` if its folder is not writable.
    pub(crate) fn of_existing(folder: &Path, wait: Duration) -> Result<Option<StartLock>> {
        match take(folder, false, wait) {
            Ok(start_lock) => Ok(Some(start_lock)),
            Err(error) => match error
                .downcast_ref::<std::io::Error>()
                .map(std::io::Error::kind)
            {
                Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Removes the lock, and the folder if this command made it: the volume was not created.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent().filter(|_| self.made) {
            // Fails unless the folder is empty.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Waits for the lock. `make`: creates the folder, which another command may remove meanwhile.
fn take(folder: &Path, make: bool, wait: Duration) -> Result<StartLock> {
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
            // The folder was removed in between.
            Err(error) if make && error.kind() == ErrorKind::NotFound => continue,
            open => open.with_context(|| format!("cannot open {}", path.display()))?,
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Its last owner may have removed the file in between; then a new one is locked.
            let same = fs::metadata(&path).is_ok_and(|now| {
                file.metadata()
                    .is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
            });
            if !same {
                continue;
            }
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            return Ok(StartLock {
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
                "{owner} is still starting or stopping the volume {folder}: see the logs in {folder}/log"
            );
        }
        if !said {
            output::say(format_args!(
                "weft: {owner} is starting or stopping the volume {folder}; waiting for it"
            ));
            said = true;
        }
        sleep(START_LOCK_POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_at_a_time_starts_a_volume() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("v");
        let first = StartLock::of_any(&folder, Duration::ZERO).unwrap();
        let refused = StartLock::of_any(&folder, Duration::from_millis(50));
        let refused = refused.err().unwrap().to_string();
        assert!(
            refused.contains(&std::process::id().to_string()),
            "{refused}"
        );
        let waits = std::thread::spawn({
            let folder = folder.clone();
            move || StartLock::of_any(&folder, Duration::from_secs(20))
        });
        sleep(Duration::from_millis(50));
        // The file is removed while the other command waits for it.
        first.remove();
        let second = waits.join().unwrap().unwrap();
        assert!(folder.join(FILE).exists());
        second.remove();
    }
}
