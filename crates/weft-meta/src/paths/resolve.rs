//! Path resolution: one read of an entry and one of an inode per component.
//!
//! Rules (POSIX, and Linux where POSIX leaves a choice): every directory on the way needs search
//! permission, `.` and `..` included; `..` above the root is the root; a symbolic link on the way
//! is always followed, in the last place only when asked or when a slash follows; a trailing slash
//! demands a directory; an empty path names `at` itself. `DIR/.weft/checkpoints/NAME` is the
//! directory as it was in that checkpoint.

use weft_kv::Reader;
use weft_proto::limits::{LINKS_MAX, NAME_MAX, PATH_MAX};
use weft_proto::meta::{Credentials, FileKind, ROOT, Target};

use crate::access::{SEARCH, check_caller, need};
use crate::checkpoints::image;
use crate::error::{MetaError, text};
use crate::records::{Node, keys};

/// A name in a directory, and the file that it names now.
#[derive(Debug)]
pub(crate) struct Slot {
    directory: Node,
    name: Vec<u8>,
    /// A slash follows: the name demands a directory.
    slash: bool,
    found: Option<Node>,
}

impl Slot {
    /// The directory that the name is in.
    pub(crate) fn directory(&self) -> &Node {
        &self.directory
    }

    /// The name, without slashes.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether a slash follows the name, which demands a directory.
    pub(crate) fn has_slash(&self) -> bool {
        self.slash
    }

    /// The file that has the name now; `None`: it is free.
    pub(crate) fn found(&self) -> Option<&Node> {
        self.found.as_ref()
    }
}

/// The end of a walk along a path.
#[allow(
    clippy::large_enum_variant,
    reason = "made once per call and taken apart at once"
)]
pub(crate) enum End {
    /// A name.
    Slot(Box<Slot>),
    /// A directory (or with an empty path any file) that the path does not name from its parent:
    /// `.`, `..`, the root, or `at` itself.
    Node(Node, Nameless),
}

/// Why a path has no last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nameless {
    Empty,
    Root,
    Dot,
    DotDot,
}

/// The name under which a directory shows its checkpoints, unless it has an entry of this name.
const HIDDEN: &[u8] = b".weft";

/// The name in `/checkpoints/NAME…`, and the bytes up to its end.
fn hidden_checkpoint(rest: &[u8]) -> Option<(&[u8], usize)> {
    let name = rest.strip_prefix(b"/checkpoints/")?;
    let name = name.split(|byte| *byte == b'/').next()?;
    (!name.is_empty()).then_some((name, rest.len().min(b"/checkpoints/".len() + name.len())))
}

/// Resolves a path to a file.
pub(crate) fn resolve(
    reader: &dyn Reader,
    who: &Credentials,
    target: &Target,
) -> Result<Node, MetaError> {
    match walk(reader, who, target, LastLink::of(target.follow))? {
        End::Node(node, _) => Ok(node),
        End::Slot(slot) => {
            let path = &target.path;
            let node = slot.found.ok_or_else(|| not_found(path))?;
            if slot.slash && !node.inode.is_directory() {
                if !node.inode.is(FileKind::Symlink) {
                    return Err(MetaError::NotDirectory { path: text(path) });
                }
                // A trailing slash follows the link whatever `follow` says.
                let followed = walk(reader, who, target, LastLink::Follow)?;
                return match followed {
                    End::Node(node, _) => Ok(node),
                    End::Slot(slot) => match slot.found {
                        Some(node) if node.inode.is_directory() => Ok(node),
                        Some(_) => Err(MetaError::NotDirectory { path: text(path) }),
                        None => Err(not_found(path)),
                    },
                };
            }
            Ok(node)
        }
    }
}

/// Resolves a path to its last name, which may be free; a link in the last place is not followed.
pub(crate) fn slot(
    reader: &dyn Reader,
    who: &Credentials,
    target: &Target,
) -> Result<Result<Box<Slot>, Nameless>, MetaError> {
    match walk(reader, who, target, LastLink::Keep)? {
        End::Slot(slot) => Ok(Ok(slot)),
        End::Node(_, nameless) => Ok(Err(nameless)),
    }
}

pub(crate) fn not_found(path: &[u8]) -> MetaError {
    MetaError::NotFound { path: text(path) }
}

/// What a walk does with a symbolic link in the last place of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// Follow it, even to a name that is free.
    Follow,
    /// End at the link itself.
    Keep,
}

impl LastLink {
    /// The variant for the flag of a request.
    pub(crate) fn of(follow: bool) -> LastLink {
        if follow {
            LastLink::Follow
        } else {
            LastLink::Keep
        }
    }
}

/// Walks a path to its last name.
pub(crate) fn walk(
    reader: &dyn Reader,
    who: &Credentials,
    target: &Target,
    last_link: LastLink,
) -> Result<End, MetaError> {
    check_caller(who)?;
    let path: &[u8] = &target.path;
    check_path(path)?;
    let root_first = path.first() == Some(&b'/');
    let mut node = start(reader, if root_first { ROOT } else { target.at })?;
    if path.is_empty() {
        return Ok(End::Node(node, Nameless::Empty));
    }
    let mut rest: Vec<u8> = path.to_vec();
    let mut at = 0;
    let mut links = 0;
    let mut nameless = Nameless::Root;
    loop {
        at += rest[at..].iter().take_while(|b| **b == b'/').count();
        if at == rest.len() {
            return Ok(End::Node(node, nameless));
        }
        let length = rest[at..].iter().take_while(|b| **b != b'/').count();
        let name = &rest[at..at + length];
        let after = at + length;
        let last = rest[after..].iter().all(|b| *b == b'/');
        if !node.inode.is_directory() {
            return Err(MetaError::NotDirectory { path: text(path) });
        }
        need(who, &node.inode, SEARCH, path)?;
        if name == b"." || name == b".." {
            nameless = Nameless::Dot;
            if name == b".." {
                nameless = Nameless::DotDot;
                node = parent(reader, &node, path)?;
            }
            at = after;
            continue;
        }
        let found = look_up(reader, &node, name)?;
        if found.is_none()
            && name == HIDDEN
            && let Some((checkpoint, length)) = hidden_checkpoint(&rest[after..])
        {
            node = image(reader, &node, path, checkpoint)?;
            nameless = Nameless::Root;
            at = after + length;
            continue;
        }
        let follows = !last || last_link == LastLink::Follow;
        match found {
            Some(link) if follows && link.inode.is(FileKind::Symlink) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(MetaError::Loop { path: text(path) });
                }
                let mut spliced = link.inode.text;
                spliced.extend_from_slice(&rest[after..]);
                rest = spliced;
                at = 0;
                if rest.first() == Some(&b'/') {
                    node = start(reader, ROOT)?;
                    nameless = Nameless::Root;
                }
            }
            found if last => {
                return Ok(End::Slot(Box::new(Slot {
                    name: name.to_vec(),
                    directory: node,
                    slash: after < rest.len(),
                    found,
                })));
            }
            found => {
                node = found.ok_or_else(|| not_found(path))?;
                at = after;
            }
        }
    }
}

/// Refuses a path that no file can have.
fn check_path(path: &[u8]) -> Result<(), MetaError> {
    if path.len() > PATH_MAX {
        return Err(MetaError::PathTooLong { length: path.len() });
    }
    if path.contains(&0) {
        return Err(MetaError::Invalid {
            path: text(path),
            reason: "a path cannot contain a zero byte",
        });
    }
    Ok(())
}

/// The file that a name in a directory refers to.
fn look_up(reader: &dyn Reader, directory: &Node, name: &[u8]) -> Result<Option<Node>, MetaError> {
    if name.len() > NAME_MAX {
        return Err(MetaError::NameTooLong { length: name.len() });
    }
    let Some(entry) = keys::entry(reader, directory.id, name)? else {
        return Ok(None);
    };
    let id = entry.id;
    let inode = keys::named_inode(reader, id)?;
    Ok(Some(Node { id, inode }))
}

fn start(reader: &dyn Reader, id: u64) -> Result<Node, MetaError> {
    let inode = keys::inode(reader, id)?.ok_or(MetaError::Stale { id })?;
    Ok(Node { id, inode })
}

fn parent(reader: &dyn Reader, node: &Node, path: &[u8]) -> Result<Node, MetaError> {
    let id = node.inode.parent;
    // The parent of a removed directory may be gone.
    let inode = keys::inode(reader, id)?.ok_or_else(|| not_found(path))?;
    Ok(Node { id, inode })
}
