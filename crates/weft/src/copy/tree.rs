//! The local file system and the volume behind one set of operations.

use std::fs::ReadDir;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use weft_client::{Changes, FileKind, Time, Volume};
use weft_proto::Code;

use super::local;
use super::node::{DirEntry, Node, Xattr};
use crate::remote::{self, reach};
use crate::streams::blocking;
use crate::terminal::name;

/// The local file system, or a volume. Paths are bytes in both.
#[derive(Clone)]
pub(crate) enum Tree {
    Local,
    Weft(Volume),
}

/// A directory being listed, a page at a time.
pub(crate) enum Pages {
    Local(Option<ReadDir>),
    Weft(weft_client::Listing),
}

impl Tree {
    /// A path as messages show it.
    pub(crate) fn show(&self, path: &[u8]) -> String {
        match self {
            Tree::Local => name::escape(path),
            Tree::Weft(_) => format!("weft:{}", name::escape(path)),
        }
    }

    /// The file that a path names; `None` if there is none.
    pub(crate) async fn stat(&self, path: &[u8], follow: bool) -> Result<Option<Node>> {
        match self {
            Tree::Local => {
                let found = local::at(path, move |place| local::stat(place, follow)).await;
                found.with_context(|| self.show(path))
            }
            Tree::Weft(volume) => {
                let found = if follow {
                    remote::look(volume, path).await?
                } else {
                    remote::look_link(volume, path).await?
                };
                Ok(found.map(Into::into))
            }
        }
    }

    /// Begins to list a directory.
    pub(crate) async fn list(&self, path: &[u8]) -> Result<Pages> {
        match self {
            Tree::Local => {
                let opened = local::at(path, |place| std::fs::read_dir(place)).await;
                let opened = opened.with_context(|| format!("cannot list {}", self.show(path)))?;
                Ok(Pages::Local(Some(opened)))
            }
            Tree::Weft(volume) => Ok(Pages::Weft(volume.list(reach(volume, path).await?))),
        }
    }

    pub(crate) async fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        match self {
            Tree::Local => {
                let text = local::at(path, |place| std::fs::read_link(place)).await;
                let text = text.with_context(|| {
                    format!("cannot read the symbolic link {}", self.show(path))
                })?;
                Ok(name::bytes(text.as_os_str()).to_vec())
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                Ok(volume.read_link(place).await?.to_vec())
            }
        }
    }

    /// The extended attributes that users set.
    pub(super) async fn xattrs(&self, path: &[u8], node: &Node) -> Result<Vec<Xattr>> {
        if !matches!(node.kind, FileKind::Regular | FileKind::Directory) {
            return Ok(Vec::new());
        }
        match self {
            Tree::Local => {
                let found = local::at(path, local::xattrs).await;
                found.with_context(|| format!("cannot read the attributes of {}", self.show(path)))
            }
            Tree::Weft(volume) => {
                let mut xattrs = Vec::new();
                let place = reach(volume, path).await?;
                for name in volume.list_xattr(&place).await? {
                    if name.starts_with(b"user.") {
                        let value = volume.get_xattr(&place, &name).await?.to_vec();
                        xattrs.push(Xattr {
                            name: name.to_vec(),
                            value,
                        });
                    }
                }
                Ok(xattrs)
            }
        }
    }

    /// Makes a directory that its owner can fill, unless it exists. Returns its identity.
    pub(crate) async fn make_directory(&self, path: &[u8], mode: u32) -> Result<(u64, u64)> {
        let created = match self {
            Tree::Local => {
                let result = local::at(path, local::make_directory).await;
                result.with_context(|| format!("cannot make directory {}", self.show(path)))?;
                None
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                match volume.make_directory(place, mode | 0o700).await {
                    Ok(attributes) => Some((0, attributes.id)),
                    Err(e) if e.code() == Code::Exists => None,
                    Err(e) => return Err(e.into()),
                }
            }
        };
        if let Some(identity) = created {
            return Ok(identity);
        }
        match self.stat(path, true).await? {
            Some(node) if node.is_directory() => Ok(node.identity),
            _ => bail!(
                "cannot make directory {}: it exists and is not a directory",
                self.show(path)
            ),
        }
    }

    pub(super) async fn make_link(&self, path: &[u8], text: &[u8]) -> Result<()> {
        match self {
            Tree::Local => {
                let text = name::os(text);
                let link = move |place: &Path| std::os::unix::fs::symlink(text, place);
                let made = local::at(path, link).await;
                made.with_context(|| format!("cannot make the symbolic link {}", self.show(path)))
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                Ok(volume.make_link(place, text).await.map(|_| ())?)
            }
        }
    }

    /// Makes a fifo, a socket or a device node.
    pub(super) async fn make_node(&self, path: &[u8], node: &Node) -> Result<()> {
        match self {
            Tree::Local => {
                let node = node.clone();
                let made = local::at(path, move |place| local::make_node(place, &node)).await;
                made.with_context(|| format!("cannot make the device node {}", self.show(path)))
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                let made = volume
                    .make_node(place, node.kind, node.mode & 0o777, node.device)
                    .await;
                Ok(made.map(|_| ())?)
            }
        }
    }

    /// Gives a file a further name.
    pub(super) async fn link(&self, file: &[u8], path: &[u8]) -> Result<()> {
        match self {
            Tree::Local => {
                let link = |file: &Path, place: &Path| std::fs::hard_link(file, place);
                let made = local::at_both(file, path, link).await;
                made.with_context(|| format!("cannot make the hard link {}", self.show(path)))
            }
            Tree::Weft(volume) => {
                let (file, place) = (reach(volume, file).await?, reach(volume, path).await?);
                Ok(volume.link(file, place).await.map(|_| ())?)
            }
        }
    }

    /// Frees a name for a new file: removes an existing entry unless it is a directory. Returns
    /// false if there is one and `keep` is set.
    pub(super) async fn free_name(&self, path: &[u8], keep: bool) -> Result<bool> {
        let Some(there) = self.stat(path, false).await? else {
            return Ok(true);
        };
        if there.is_directory() {
            bail!("cannot replace {}: it is a directory", self.show(path));
        }
        if keep {
            return Ok(false);
        }
        match self {
            Tree::Local => {
                let removed = local::at(path, |place| std::fs::remove_file(place)).await;
                removed.with_context(|| format!("cannot replace {}", self.show(path)))?;
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                volume.unlink(place).await.map(drop)?;
            }
        }
        Ok(true)
    }

    /// Gives a finished file the attributes of its source.
    pub(super) async fn finish(
        &self,
        path: &[u8],
        node: &Node,
        owner: bool,
        xattrs: Vec<Xattr>,
    ) -> Result<()> {
        match self {
            Tree::Local => {
                let node = node.clone();
                let finish = move |place: &Path| local::finish(place, &node, owner, &xattrs);
                let done = local::at(path, finish).await;
                done.with_context(|| format!("cannot set the attributes of {}", self.show(path)))
            }
            Tree::Weft(volume) => {
                let place = reach(volume, path).await?;
                for xattr in xattrs {
                    volume.set_xattr(&place, xattr.name, xattr.value).await?;
                }
                let link = node.kind == FileKind::Symlink;
                let changes = Changes {
                    mode: (!link).then_some(node.mode),
                    uid: owner.then_some(node.uid),
                    gid: owner.then_some(node.gid),
                    accessed: Some(Time::Nanos(node.accessed)),
                    modified: Some(Time::Nanos(node.modified)),
                    policy: None,
                    layout: None,
                    kill_priv: false,
                    no_follow: link,
                };
                Ok(volume.set_attributes(place, &changes).await.map(|_| ())?)
            }
        }
    }
}

impl Pages {
    /// The next entries; empty at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<io::Result<DirEntry>>> {
        match self {
            Pages::Local(directory) => {
                let mut reading = directory.take().ok_or_else(|| {
                    anyhow!(
                        "internal error: the listing of a directory was lost; please report this"
                    )
                })?;
                let (reading, page) = blocking(move || {
                    let page = local::page(&mut reading);
                    Ok((reading, page))
                })
                .await?;
                *directory = Some(reading);
                Ok(page)
            }
            Pages::Weft(listing) => {
                let page = listing.page().await?;
                let found = |e: weft_client::Listed| {
                    Ok(DirEntry {
                        name: e.name.to_vec(),
                        node: e.attributes.into(),
                    })
                };
                Ok(page.into_iter().map(found).collect())
            }
        }
    }
}
