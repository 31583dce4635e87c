//! Paths of a volume: where a file really is, and the names beside it.

use anyhow::{Context, Result, bail};
use weft_client::{FileKind, Volume};
use weft_proto::Code;

/// Links followed before a path is called a loop.
const LINKS_MAX: usize = 40;

/// A directory and a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Ends in a slash.
    pub(crate) directory: Vec<u8>,
    pub(crate) name: Vec<u8>,
}

impl Place {
    /// Splits a path.
    pub(crate) fn new(path: &[u8]) -> Result<Place> {
        let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        let path = &path[..end];
        let cut = path.iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
        let (directory, name) = path.split_at(cut);
        if matches!(name, b"" | b"." | b"..") {
            bail!("`{}` names no file", crate::terminal::name::escape(path));
        }
        let directory = if directory.is_empty() {
            b"/"
        } else {
            directory
        };
        Ok(Place {
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

    /// A place beside this one.
    pub(crate) fn beside(&self, name: Vec<u8>) -> Place {
        Place {
            directory: self.directory.clone(),
            name,
        }
    }

    /// Refuses a directory, which no file can replace.
    pub(crate) async fn refuse_directory(&self, volume: &Volume) -> Result<()> {
        match volume.stat_link(self.path()).await {
            Ok(there) if there.kind == FileKind::Directory as i32 => bail!(
                "{} is a directory, and the sorted records go to a file: name one, in it or elsewhere",
                self.show()
            ),
            Ok(_) => Ok(()),
            Err(e) if e.code() == Code::NotFound => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Where the symbolic links at the end of a path lead: what is put there does not replace a
    /// link.
    ///
    /// One request for each link, and one for what is no link or is not there.
    pub(crate) async fn resolve(volume: &Volume, path: &[u8]) -> Result<Place> {
        let mut place = Place::new(path)?;
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
            place = Place::new(&next).context("a symbolic link leads nowhere")?;
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
            let place = Place::new(path.as_bytes()).unwrap();
            let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
            (text(&place.directory), text(&place.name))
        };
        assert_eq!(split("/a/b"), ("/a/".into(), "b".into()));
        assert_eq!(split("a"), ("/".into(), "a".into()));
        assert_eq!(split("/a/b//"), ("/a/".into(), "b".into()));
        assert_eq!(split("a/b"), ("a/".into(), "b".into()));
        for nothing in ["", "/", "//", "/a/..", "."] {
            assert!(Place::new(nothing.as_bytes()).is_err(), "{nothing}");
        }
    }
}
