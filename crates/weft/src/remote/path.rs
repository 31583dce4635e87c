//! Weft paths on the command line: bytes, absolute. A relative path starts at the root.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Result, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use weft_client::{Attributes, FileKind, Place, Volume};
use weft_proto::Code;

use crate::terminal::name;

/// A path in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemotePath(Vec<u8>);

impl RemotePath {
    /// A path of these bytes.
    pub(crate) fn new(path: Vec<u8>) -> RemotePath {
        RemotePath(path)
    }

    /// The entry of this name in the directory of this path.
    pub(crate) fn join(&self, name: &[u8]) -> RemotePath {
        RemotePath(name::join(&self.0, name))
    }

    /// The last component.
    pub(crate) fn name(&self) -> &[u8] {
        name::last(&self.0)
    }

    /// The path up to the last component; for an entry of the root, the root.
    pub(crate) fn directory(&self) -> RemotePath {
        let end = self.0.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        match &self.0[..end - self.name().len()] {
            [] => RemotePath(b"/".to_vec()),
            directory => RemotePath(directory.to_vec()),
        }
    }
}

impl AsRef<[u8]> for RemotePath {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name::escape(&self.0))
    }
}

/// Reads a Weft path; an empty one names nothing.
pub(crate) fn parser() -> impl TypedValueParser<Value = RemotePath> {
    OsStringValueParser::new().try_map(|path: OsString| {
        if path.is_empty() {
            return Err("a path cannot be empty: the root is /".to_owned());
        }
        Ok(RemotePath(path.into_vec()))
    })
}

/// What a file is.
pub(crate) fn kind(attributes: &Attributes) -> FileKind {
    FileKind::try_from(attributes.kind).unwrap_or(FileKind::Unspecified)
}

/// Whether it is a directory.
pub(crate) fn is_directory(attributes: &Attributes) -> bool {
    kind(attributes) == FileKind::Directory
}

/// What a file is, in words.
pub(crate) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Unspecified => "unknown",
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::BlockDevice => "block device",
        FileKind::CharDevice => "character device",
    }
}

/// The attributes of what a path leads to; `None` if it does not exist.
pub(crate) async fn look(volume: &Volume, path: impl AsRef<[u8]>) -> Result<Option<Attributes>> {
    present(stat(volume, path.as_ref(), true).await)
}

/// As [`look`], but a symbolic link at the end is not followed.
pub(crate) async fn look_link(
    volume: &Volume,
    path: impl AsRef<[u8]>,
) -> Result<Option<Attributes>> {
    present(stat(volume, path.as_ref(), false).await)
}

async fn stat(
    volume: &Volume,
    path: &[u8],
    follow: bool,
) -> Result<Attributes, weft_client::Error> {
    let place = reach(volume, path).await?;
    if follow {
        volume.stat(place).await
    } else {
        volume.stat_link(place).await
    }
}

/// The place of a path of any length. A path that is too long for a call is resolved in segments:
/// the place is the last segment, in the directory that the others lead to.
///
/// Cost: nothing for a path that is short enough, else one request for each segment before the
/// last.
pub(crate) async fn reach(volume: &Volume, path: &[u8]) -> Result<Place, weft_client::Error> {
    let mut place = Place::from(path);
    let mut rest = path;
    let mut directory = None;
    while let Some((segment, behind)) = name::split(rest) {
        let at = directory.map_or_else(|| Place::from(segment), |id| Place::under(id, segment));
        let id = volume.stat(at).await?.id;
        place = match behind {
            [] => Place::of(id),
            behind => Place::under(id, behind),
        };
        place = place.shown_as(path.to_vec());
        (directory, rest) = (Some(id), behind);
    }
    Ok(place)
}

fn present(found: Result<Attributes, weft_client::Error>) -> Result<Option<Attributes>> {
    match found {
        Ok(attributes) => Ok(Some(attributes)),
        Err(e) if e.code() == Code::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The destinations of several sources: in the last path if that is a directory, else the last path
/// itself, for a single source. `what` is the verb for errors, such as "move".
pub(crate) async fn destinations(
    volume: &Volume,
    what: &str,
    sources: &[RemotePath],
    last: &RemotePath,
) -> Result<Vec<RemotePath>> {
    let into = look(volume, last).await?.as_ref().is_some_and(is_directory);
    if into {
        return Ok(sources
            .iter()
            .map(|source| last.join(source.name()))
            .collect());
    }
    if sources.len() > 1 {
        bail!(
            "cannot {what} {} files to {last}: it is not a directory",
            sources.len()
        );
    }
    Ok(vec![last.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_path_is_the_path_without_its_last_name() {
        for (path, directory) in [("/a/b", "/a/"), ("/a/b//", "/a/"), ("/a", "/"), ("a", "/")] {
            let path = RemotePath::new(path.as_bytes().to_vec());
            assert_eq!(path.directory().to_string(), directory, "{path}");
        }
    }
}
