//! One request at a time: what the kernel asks for becomes a call on the file system, and its
//! result an answer.

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::Time;
use zerocopy::{FromBytes, IntoBytes};

use super::abi::{self, fattr, opcode};
use super::device::Incoming;
use super::pack;
use crate::fs::{Caller, Changed, FileSystem, Found, FsError, SetMode, WriteHow, WriteWay};

/// What goes back to the kernel behind the header.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nothing: it is done.
    Done,
    /// A structure, or several one after the other.
    Packed(Vec<u8>),
    /// Bytes as they are.
    Data(Bytes),
    /// File data, in the parts in which it arrived.
    Parts(Vec<Bytes>),
}

impl Answer {
    pub(super) fn of(structure: &impl IntoBytesRef) -> Answer {
        Answer::Packed(structure.bytes().to_vec())
    }

    pub(super) fn parts(&self) -> Vec<&[u8]> {
        match self {
            Answer::Done => Vec::new(),
            Answer::Packed(bytes) => vec![bytes],
            Answer::Data(bytes) => vec![bytes],
            Answer::Parts(parts) => parts.iter().map(|part| &part[..]).collect(),
        }
    }
}

pub(super) trait IntoBytesRef {
    fn bytes(&self) -> &[u8];
}

impl<T: IntoBytes + zerocopy::Immutable> IntoBytesRef for T {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Parts that one call hands to the kernel; it takes 1,024, the header among them.
const PARTS_MAX: usize = 1000;

pub(super) type Result = std::result::Result<Answer, FsError>;

pub(super) fn broken() -> FsError {
    FsError::wrong("the kernel's request is too short", Errno::INVAL)
}

/// Bytes before a zero, and what follows it.
fn string(bytes: &[u8]) -> std::result::Result<(&[u8], &[u8]), FsError> {
    let end = bytes.iter().position(|b| *b == 0).ok_or_else(broken)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// Carries a request out.
pub(super) async fn carry_out(fs: &FileSystem, request: &Incoming) -> Result {
    let header = &request.header;
    fs.count_request(header.opcode);
    let id = header.nodeid;
    let caller = Caller {
        uid: header.uid,
        gid: header.gid,
        pid: header.pid,
    };
    match header.opcode {
        opcode::LOOKUP => lookup(fs, caller, id, &request.body).await,
        opcode::GETATTR => Ok(Answer::of(&pack::attr_out(&fs.attributes(id).await?))),
        opcode::SETATTR => {
            let (handle, changed) = changed(&argument(request)?.0);
            let entry = fs.change(caller, id, handle, &changed).await?;
            Ok(Answer::of(&pack::attr_out(&entry)))
        }
        opcode::READ => {
            let (read, _) = argument::<abi::ReadIn>(request)?;
            let pages = read.read_flags & abi::READ_LOCKOWNER == 0;
            let parts = fs
                .read(read.fh, read.offset, read.size as usize, pages)
                .await?;
            if parts.len() > PARTS_MAX {
                return Ok(Answer::Packed(parts.concat()));
            }
            Ok(Answer::Parts(parts))
        }
        opcode::WRITE => write(fs, caller, request).await,
        opcode::OPEN => {
            let (open, _) = argument::<abi::OpenIn>(request)?;
            let kill = open.open_flags & abi::OPEN_KILL_SUIDGID != 0;
            let opened = fs.open(caller, id, open.flags.cast_signed(), kill).await?;
            Ok(Answer::of(&pack::opened(&opened)))
        }
        opcode::CREATE => create(fs, caller, request).await,
        opcode::FLUSH => {
            let (flush, _) = argument::<abi::FlushIn>(request)?;
            done(fs.flush(flush.fh, flush.lock_owner).await)
        }
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => super::locks::lock(fs, request).await,
        opcode::RELEASE => {
            fs.release(argument::<abi::ReleaseIn>(request)?.0.fh).await;
            Ok(Answer::Done)
        }
        opcode::FSYNC => done(fs.sync(argument::<abi::FsyncIn>(request)?.0.fh).await),
        opcode::OPENDIR => {
            let (open, _) = argument::<abi::OpenIn>(request)?;
            let out = abi::OpenOut {
                fh: fs.open_directory(caller, id, open.flags.cast_signed()),
                ..abi::OpenOut::default()
            };
            Ok(Answer::of(&out))
        }
        opcode::READDIR => list(fs, request, false).await,
        opcode::READDIRPLUS => list(fs, request, true).await,
        opcode::RELEASEDIR => {
            fs.release_directory(argument::<abi::ReleaseIn>(request)?.0.fh);
            Ok(Answer::Done)
        }
        opcode::FSYNCDIR => done(
            fs.sync_directory(argument::<abi::FsyncIn>(request)?.0.fh)
                .await,
        ),
        opcode::STATFS => space(fs, id).await,
        opcode::ACCESS => {
            let (access, _) = argument::<abi::AccessIn>(request)?;
            done(fs.access(caller, id, access.mask).await)
        }
        opcode::READLINK => Ok(Answer::Data(fs.read_link(caller, id).await?)),
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
            xattr(fs, caller, request).await
        }
        opcode::FALLOCATE => {
            let (a, _) = argument::<abi::FallocateIn>(request)?;
            done(
                fs.allocate(caller, a.fh, a.offset, a.length, a.mode.cast_signed())
                    .await,
            )
        }
        opcode::LSEEK => {
            let (seek, _) = argument::<abi::LseekIn>(request)?;
            let offset = fs
                .seek(seek.fh, seek.offset, seek.whence.cast_signed())
                .await?;
            Ok(Answer::of(&abi::LseekOut { offset }))
        }
        opcode::COPY_FILE_RANGE => {
            let (copy, _) = argument::<abi::CopyFileRangeIn>(request)?;
            let (from, to) = ((copy.fh_in, copy.off_in), (copy.fh_out, copy.off_out));
            written(fs.copy(caller, from, to, copy.len).await? as usize)
        }
        opcode::IOCTL => Err(FsError::wrong(
            "files of a volume have no controls",
            Errno::NOTTY,
        )),
        _ => names(fs, caller, request).await,
    }
}

fn argument<T: FromBytes>(request: &Incoming) -> std::result::Result<(T, &[u8]), FsError> {
    request.argument().ok_or_else(broken)
}

fn done(result: std::result::Result<(), FsError>) -> Result {
    result.map(|()| Answer::Done)
}

fn written(length: usize) -> Result {
    let size = u32::try_from(length).map_err(|_| broken())?;
    Ok(Answer::of(&abi::WriteOut { size, padding: 0 }))
}

async fn lookup(fs: &FileSystem, caller: Caller, parent: u64, body: &[u8]) -> Result {
    match fs.lookup(caller, parent, string(body)?.0).await? {
        Found::Node(entry) => Ok(Answer::of(&pack::entry(&entry))),
        Found::Nothing(valid) if valid.is_zero() => {
            Err(FsError::wrong("there is no such name", Errno::NOENT))
        }
        // The kernel may remember that nothing is there.
        Found::Nothing(valid) => Ok(Answer::of(&pack::no_entry(valid))),
    }
}

fn changed(a: &abi::SetattrIn) -> (Option<u64>, Changed) {
    let has = |bit| a.valid & bit != 0;
    let time = |set, now, seconds, nanos| match (has(set), has(now)) {
        (false, _) => None,
        (true, true) => Some(Time::Now),
        (true, false) => Some(Time::Nanos(pack::nanos(seconds, nanos))),
    };
    let changed = Changed {
        mode: has(fattr::MODE).then_some(a.mode & 0o7777),
        uid: has(fattr::UID).then_some(a.uid),
        gid: has(fattr::GID).then_some(a.gid),
        size: has(fattr::SIZE).then_some(a.size),
        accessed: time(fattr::ATIME, fattr::ATIME_NOW, a.atime, a.atimensec),
        modified: time(fattr::MTIME, fattr::MTIME_NOW, a.mtime, a.mtimensec),
        kill_set_id: has(fattr::KILL_SUIDGID),
    };
    (has(fattr::FH).then_some(a.fh), changed)
}

async fn write(fs: &FileSystem, caller: Caller, request: &Incoming) -> Result {
    let write = request.write().ok_or_else(broken)?;
    let how = WriteHow {
        append: write.flags.cast_signed() & libc::O_APPEND != 0,
        kill_set_id: (write.write_flags & abi::WRITE_KILL_SUIDGID != 0).then_some(caller),
        // One of the bits of `O_SYNC`; the kernel adds it for a `pwritev2` that asks so.
        synced: write.flags.cast_signed() & libc::O_DSYNC != 0,
        way: match write.write_flags & (abi::WRITE_CACHE | abi::WRITE_LOCKOWNER) {
            0 => WriteWay::Through,
            abi::WRITE_LOCKOWNER => WriteWay::Past,
            _ => WriteWay::Back,
        },
    };
    fs.write(write.fh, write.offset, request.data.clone(), how)
        .await?;
    written(request.data.len())
}

async fn create(fs: &FileSystem, caller: Caller, request: &Incoming) -> Result {
    let (create, rest) = argument::<abi::CreateIn>(request)?;
    let place = (request.header.nodeid, string(rest)?.0);
    let mode = (create.mode, create.umask);
    let (entry, opened) = fs
        .create(caller, place, mode, create.flags.cast_signed())
        .await?;
    let mut packed = pack::entry(&entry).as_bytes().to_vec();
    packed.extend_from_slice(pack::opened(&opened).as_bytes());
    Ok(Answer::Packed(packed))
}

async fn list(fs: &FileSystem, request: &Incoming, plus: bool) -> Result {
    let (read, _) = argument::<abi::ReadIn>(request)?;
    let mut names = pack::Names::new(read.size as usize);
    let mut cookie = read.offset;
    loop {
        let page = match fs.list(read.fh, cookie).await {
            Ok(page) => page,
            // What there is goes first; the next call will tell.
            Err(_) if !names.is_empty() => return Ok(Answer::Packed(names.done())),
            Err(e) => return Err(e),
        };
        if page.entries().is_empty() {
            return Ok(Answer::Packed(names.done()));
        }
        for listed in page.entries() {
            if !names.fits(&listed.name, plus) {
                return Ok(Answer::Packed(names.done()));
            }
            cookie = listed.cookie;
            let entry = plus.then(|| {
                fs.listed(&page, listed)
                    .map_or_else(Default::default, |e| pack::entry(&e))
            });
            names.add(listed, entry.as_ref());
        }
    }
}

async fn space(fs: &FileSystem, id: u64) -> Result {
    const BLOCK: u32 = 4096;
    let space = fs.space(id).await?;
    let blocks = |bytes: u64| bytes / u64::from(BLOCK);
    Ok(Answer::of(&abi::StatfsOut {
        blocks: blocks(space.capacity),
        bfree: blocks(space.available),
        bavail: blocks(space.available),
        files: space.files,
        ffree: space.files_free,
        bsize: BLOCK,
        namelen: weft_proto::limits::NAME_MAX as u32,
        frsize: BLOCK,
        ..abi::StatfsOut::default()
    }))
}

/// It must not be there, and it must.
const NEITHER: i32 = libc::XATTR_CREATE | libc::XATTR_REPLACE;

async fn xattr(fs: &FileSystem, caller: Caller, request: &Incoming) -> Result {
    let id = request.header.nodeid;
    match request.header.opcode {
        opcode::SETXATTR => {
            let (set, rest) = argument::<abi::SetxattrIn>(request)?;
            let (name, value) = string(rest)?;
            let value = value.get(..set.size as usize).ok_or_else(broken)?;
            let mode = match set.flags.cast_signed() {
                NEITHER => {
                    fs.get_xattr(caller, id, name).await?;
                    return Err(FsError::wrong("there is such an attribute", Errno::EXIST));
                }
                libc::XATTR_CREATE => SetMode::Create,
                libc::XATTR_REPLACE => SetMode::Replace,
                _ => SetMode::Either,
            };
            done(
                fs.set_xattr(caller, id, name, Bytes::copy_from_slice(value), mode)
                    .await,
            )
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

/// A caller that offers no room wants to know the size.
fn sized(room: u32, value: Bytes) -> Result {
    let size = value.len() as u32;
    if room == 0 {
        return Ok(Answer::of(&abi::GetxattrOut { size, padding: 0 }));
    }
    if size > room {
        return Err(FsError::wrong(
            "the attribute is larger than the caller's room",
            Errno::RANGE,
        ));
    }
    Ok(Answer::Data(value))
}

async fn names(fs: &FileSystem, caller: Caller, request: &Incoming) -> Result {
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
            let (rename, rest) = argument::<abi::RenameIn>(request)?;
            return self::rename(fs, caller, (id, rename.newdir), rest, 0).await;
        }
        opcode::RENAME2 => {
            let (rename, rest) = argument::<abi::Rename2In>(request)?;
            return self::rename(fs, caller, (id, rename.newdir), rest, rename.flags).await;
        }
        _ => return Err(FsError::wrong("no such request is known", Errno::NOSYS)),
    };
    Ok(Answer::of(&pack::entry(&entry)))
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
