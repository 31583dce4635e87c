//! Paths in a volume: symbolic links resolved, and names in the same directory.

use anyhow::{Context, Result, bail};
use weft_client::{FileKind, Volume};
use weft_proto::Code;

use crate::limits::LINKS_MAX;

/// The path of an entry: a directory and a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryPath {
    /// Ends in a slash.
    pub(crate) directory: Vec<u8>,
    pub(crate) name: Vec<u8>,
}

impl EntryPath {
    /// Splits a path.
    pub(crate) fn new(path: &[u8]) -> Result<EntryPath> {
        let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        let path = &path[..end];
        let split = path.iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
        let (directory, name) = path.split_at(split);
        if matches!(name, b"" | b"." | b"..") {
            bail!(
                "`{}` does not name a file",
                crate::terminal::name::escape(path)
            );
        }
        let directory = if directory.is_empty() {
            b"/"
        } else {
            directory
        };
        Ok(EntryPath {
            directory: directory.to_vec(),
            name: name.to_vec(),
        })
    }

    /// The whole path.
    pub(crate) fn path(&self) -> Vec<u8> {
        [&self.directory[..], &self.name].concat()
    }

    /// The path for messages.
    pub(crate) fn show(&self) -> String {
        crate::terminal::name::escape(&self.path())
    }

    /// The path of another name in the same directory.
    pub(crate) fn beside(&self, name: Vec<u8>) -> EntryPath {
        EntryPath {
            directory: self.directory.clone(),
            name,
        }
    }

    /// Refuses a directory: a file cannot replace it.
    pub(crate) async fn refuse_directory(&self, volume: &Volume) -> Result<()> {
        match volume.stat_link(self.path()).await {
            Ok(there) if there.kind == FileKind::Directory as i32 => bail!(
                "{} is a directory: name a file for the sorted records",
                self.show()
            ),
            Ok(_) => Ok(()),
            Err(e) if e.code() == Code::NotFound => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Follows the symbolic links at the end of a path, so that the result does not replace a link.
    ///
    /// Cost: one request for each link, and one for the path that is not a link or does not exist.
    pub(crate) async fn resolve(volume: &Volume, path: &[u8]) -> Result<EntryPath> {
        let mut place = EntryPath::new(path)?;
        for _ in 0..LINKS_MAX {
            let attributes = match volume.stat_link(place.path()).await {
                Err(e) if e.code() == Code::NotFound => return Ok(place),
                other => other?,
            };
            if attributes.kind != FileKind::Symlink as i32 {
                return Ok(place);
            }
            let text = volume.read_link(place.path()).await?;
            let next = if text.starts_with(b"/") {
                text.to_vec()
            } else {
                [&place.directory[..], &text].concat()
            };
            place = EntryPath::new(&next).context("cannot follow the symbolic link")?;
        }
        bail!(
            "{}: too many symbolic links",
            crate::terminal::name::escape(path)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_directory_and_name() {
        let split = |path: &str| {
            let place = EntryPath::new(path.as_bytes()).unwrap();
            let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
            (text(&place.directory), text(&place.name))
        };
        assert_eq!(split("/a/b"), ("/a/".into(), "b".into()));
        assert_eq!(split("a"), ("/".into(), "a".into()));
        assert_eq!(split("/a/b//"), ("/a/".into(), "b".into()));
        assert_eq!(split("a/b"), ("a/".into(), "b".into()));
        for nothing in ["", "/", "//", "/a/..", "."] {
            assert!(EntryPath::new(nothing.as_bytes()).is_err(), "{nothing}");
        }
    }
}
