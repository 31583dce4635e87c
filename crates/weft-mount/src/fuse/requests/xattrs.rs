//! Requests for extended attributes.

use bytes::Bytes;
use rustix::io::Errno;

use super::reply::{Reply, Result, argument, done, malformed, string};
use crate::fs::{Caller, FileSystem, FsError, SetMode};
use crate::fuse::device::Incoming;
use crate::fuse::device::abi::{self, opcode};

/// The attribute must be absent, and present.
const CREATE_AND_REPLACE: i32 = libc::XATTR_CREATE | libc::XATTR_REPLACE;

/// Carries out SETXATTR, GETXATTR, LISTXATTR and REMOVEXATTR.
pub(super) async fn xattr(fs: &FileSystem, caller: Caller, request: &Incoming) -> Result {
    let id = request.header.nodeid;
    match request.header.opcode {
        opcode::SETXATTR => {
            let (set, rest) = argument::<abi::SetxattrIn>(request)?;
            let (name, value) = string(rest)?;
            let value = value.get(..set.size as usize).ok_or_else(malformed)?;
            let mode = match set.flags.cast_signed() {
                CREATE_AND_REPLACE => {
                    fs.get_xattr(caller, id, name).await?;
                    return Err(FsError::refused("the attribute exists", Errno::EXIST));
                }
                libc::XATTR_CREATE => SetMode::Create,
                libc::XATTR_REPLACE => SetMode::Replace,
                _ => SetMode::Either,
            };
            let value = Bytes::copy_from_slice(value);
            done(fs.set_xattr(caller, id, name, value, mode).await)
        }
        opcode::GETXATTR => {
            let (get, rest) = argument::<abi::GetxattrIn>(request)?;
            sized(get.size, fs.get_xattr(caller, id, string(rest)?.0).await?)
        }
        opcode::LISTXATTR => {
            let (get, _) = argument::<abi::GetxattrIn>(request)?;
            sized(get.size, fs.list_xattr(caller, id).await?.into())
        }
        _ => done(fs.remove_xattr(caller, id, string(&request.body)?.0).await),
    }
}

/// The value, if it fits the caller's buffer of `space` bytes; its size, if that is 0.
fn sized(space: u32, value: Bytes) -> Result {
    let size = value.len() as u32;
    if space == 0 {
        return Ok(Reply::of(&abi::GetxattrOut { size, padding: 0 }));
    }
    if size > space {
        return Err(FsError::refused(
            "the attribute is larger than the caller's buffer",
            Errno::RANGE,
        ));
    }
    Ok(Reply::Data(value))
}
