//! Requests that make, move and remove names.

use rustix::io::Errno;

use super::pack;
use super::reply::{Reply, Result, argument, done, string};
use crate::fs::{Caller, FileSystem, FsError};
use crate::fuse::device::Incoming;
use crate::fuse::device::abi::{self, opcode};

/// Carries out MKNOD, MKDIR, SYMLINK, LINK, UNLINK, RMDIR and both RENAMEs; refuses all others.
pub(super) async fn names(fs: &FileSystem, caller: Caller, request: &Incoming) -> Result {
    let id = request.header.nodeid;
    let entry = match request.header.opcode {
        opcode::MKNOD => {
            let (make, rest) = argument::<abi::MknodIn>(request)?;
            let place = (id, string(rest)?.0);
            fs.make_node(caller, place, (make.mode, make.umask), make.rdev)
                .await?
        }
        opcode::MKDIR => {
            let (make, rest) = argument::<abi::MkdirIn>(request)?;
            fs.make_directory(caller, (id, string(rest)?.0), (make.mode, make.umask))
                .await?
        }
        opcode::SYMLINK => {
            let (name, rest) = string(&request.body)?;
            fs.make_link(caller, (id, name), string(rest)?.0).await?
        }
        opcode::LINK => {
            let (link, rest) = argument::<abi::LinkIn>(request)?;
            fs.link(caller, link.oldnodeid, (id, string(rest)?.0))
                .await?
        }
        opcode::UNLINK => return done(fs.unlink(caller, id, string(&request.body)?.0).await),
        opcode::RMDIR => {
            return done(
                fs.remove_directory(caller, id, string(&request.body)?.0)
                    .await,
            );
        }
        opcode::RENAME => {
            let (target, rest) = argument::<abi::RenameIn>(request)?;
            return rename(fs, caller, (id, target.newdir), rest, 0).await;
        }
        opcode::RENAME2 => {
            let (target, rest) = argument::<abi::Rename2In>(request)?;
            return rename(fs, caller, (id, target.newdir), rest, target.flags).await;
        }
        _ => {
            return Err(FsError::refused(
                "the request is not supported",
                Errno::NOSYS,
            ));
        }
    };
    Ok(Reply::of(&pack::entry(&entry)))
}

async fn rename(
    fs: &FileSystem,
    caller: Caller,
    (from, to): (u64, u64),
    names: &[u8],
    flags: u32,
) -> Result {
    let (old, rest) = string(names)?;
    let (new, _) = string(rest)?;
    done(fs.rename(caller, (from, old), (to, new), flags).await)
}
