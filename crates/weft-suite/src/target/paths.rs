//! A benchmark's directory on a path, seen through one mount or several.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::SuiteError;
use crate::row::Op;
use crate::volume::folder_in;

/// The directory, which goes at the end, by its path in each mount.
pub(super) struct Folder {
    own: TempDir,
    /// The same directory in the other mounts.
    others: Vec<PathBuf>,
}

/// The same file or directory by its path in each mount.
#[derive(Clone, Debug)]
pub(crate) struct Paths(Vec<PathBuf>);

impl Folder {
    /// Makes the directory in the first of the paths; the others are other mounts of the same.
    ///
    /// # Errors
    /// [`SuiteError::Asked`] where another path does not show it.
    pub(super) fn make(paths: &[PathBuf]) -> Result<Folder, SuiteError> {
        let (first, others) = paths
            .split_first()
            .ok_or_else(|| SuiteError::part("no path to measure"))?;
        let own = folder_in(first)?;
        let name = own.path().file_name().unwrap_or_default();
        let others: Vec<PathBuf> = others.iter().map(|path| path.join(name)).collect();
        if let Some(missing) = others.iter().find(|path| !path.is_dir()) {
            return Err(SuiteError::Asked(format!(
                "{} is not the same directory as {} in another mount: it does not show what is made there",
                missing.parent().unwrap_or(missing).display(),
                first.display()
            )));
        }
        Ok(Folder { own, others })
    }

    /// What has this name in it.
    pub(super) fn join(&self, name: &str) -> Paths {
        let all = std::iter::once(self.own.path()).chain(self.others.iter().map(PathBuf::as_path));
        Paths(all.map(|path| path.join(name)).collect())
    }

    /// Removes it, with all that is left in it.
    pub(super) fn remove(self) -> Result<(), SuiteError> {
        let path = self.own.path().to_owned();
        let removed = self.own.close();
        removed.map_err(SuiteError::local("cannot remove", path))
    }
}

impl Paths {
    /// In the first mount.
    pub(crate) fn first(&self) -> &Path {
        &self.0[0]
    }

    /// The path that a client uses. Clients take the mounts in turn; each looks through another
    /// mount than it changes, if there are several, so that no mount knows what is read through it.
    pub(crate) fn of(&self, client: usize, op: Op) -> &Path {
        &self.0[(client + usize::from(op.only_looks())) % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_look_through_another_mount_than_they_change() {
        let one = Paths(vec!["a".into()]);
        assert_eq!(one.of(3, Op::Read), one.of(2, Op::Write));
        let two = Paths(vec!["a".into(), "b".into()]);
        for client in 0..4 {
            assert_ne!(two.of(client, Op::Read), two.of(client, Op::Write));
            assert_eq!(two.of(client, Op::Stat), two.of(client, Op::Read));
            assert_ne!(two.of(client, Op::Write), two.of(client + 1, Op::Write));
        }
    }

    #[test]
    fn a_path_that_is_no_mount_of_the_same_is_refused() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let both = [one.path().to_owned(), other.path().to_owned()];
        let refused = Folder::make(&both).err().unwrap().to_string();
        assert!(refused.contains("another mount"), "{refused}");
        assert_eq!(std::fs::read_dir(one.path()).unwrap().count(), 0);
        let same = Folder::make(&[both[0].clone(), both[0].clone()]).unwrap();
        std::fs::write(same.join("file").first(), "left").unwrap();
        same.remove().unwrap();
        assert_eq!(std::fs::read_dir(one.path()).unwrap().count(), 0);
    }
}
