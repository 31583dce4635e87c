//! One request at a time: the kernel's request becomes a call on the file system, and its result a
//! reply.

use rustix::io::Errno;
use weft_client::Time;
use zerocopy::IntoBytes;

use super::pack::{self, Entries};
use super::reply::{Reply, Result, argument, done, malformed, string};
use super::{locks, names, xattrs};
use crate::fs::{Caller, Changed, FileSystem, Found, FsError, WriteHow, WriteWay};
use crate::fuse::device::Incoming;
use crate::fuse::device::abi::{self, fattr, opcode};
use crate::limits::REPLY_BUFFERS_MAX;

/// Carries a request out.
pub(in crate::fuse) async fn carry_out(fs: &FileSystem, request: &Incoming) -> Result {
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
        opcode::GETATTR => Ok(Reply::of(&pack::attr_out(&fs.attributes(id).await?))),
        opcode::SETATTR => {
            let (handle, changed) = changed(&argument(request)?.0);
            let entry = fs.change(caller, id, handle, &changed).await?;
            Ok(Reply::of(&pack::attr_out(&entry)))
        }
        opcode::READ => {
            let (read, _) = argument::<abi::ReadIn>(request)?;
            let pages = read.read_flags & abi::READ_LOCKOWNER == 0;
            let buffers = fs
                .read(read.fh, read.offset, read.size as usize, pages)
                .await?;
            if buffers.len() > REPLY_BUFFERS_MAX {
                return Ok(Reply::Packed(buffers.concat()));
            }
            Ok(Reply::Buffers(buffers))
        }
        opcode::WRITE => write(fs, caller, request).await,
        opcode::OPEN => {
            let (open, _) = argument::<abi::OpenIn>(request)?;
            let kill = open.open_flags & abi::OPEN_KILL_SUIDGID != 0;
            let opened = fs.open(caller, id, open.flags.cast_signed(), kill).await?;
            Ok(Reply::of(&pack::opened(&opened)))
        }
        opcode::CREATE => create(fs, caller, request).await,
        opcode::FLUSH => {
            let (flush, _) = argument::<abi::FlushIn>(request)?;
            done(fs.flush(flush.fh, flush.lock_owner).await)
        }
        opcode::GETLK | opcode::SETLK | opcode::SETLKW => locks::lock(fs, request).await,
        opcode::RELEASE => {
            fs.release(argument::<abi::ReleaseIn>(request)?.0.fh).await;
            Ok(Reply::Done)
        }
        opcode::FSYNC => done(fs.sync(argument::<abi::FsyncIn>(request)?.0.fh).await),
        opcode::OPENDIR => {
            let (open, _) = argument::<abi::OpenIn>(request)?;
            let out = abi::OpenOut {
                fh: fs.open_directory(caller, id, open.flags.cast_signed()),
                ..abi::OpenOut::default()
            };
            Ok(Reply::of(&out))
        }
        opcode::READDIR => list(fs, request, Entries::NamesOnly).await,
        opcode::READDIRPLUS => list(fs, request, Entries::WithAttributes).await,
        opcode::RELEASEDIR => {
            fs.release_directory(argument::<abi::ReleaseIn>(request)?.0.fh);
            Ok(Reply::Done)
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
        opcode::READLINK => Ok(Reply::Data(fs.read_link(caller, id).await?)),
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => {
            xattrs::xattr(fs, caller, request).await
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
            Ok(Reply::of(&abi::LseekOut { offset }))
        }
        opcode::COPY_FILE_RANGE => {
            let (copy, _) = argument::<abi::CopyFileRangeIn>(request)?;
            let (from, to) = ((copy.fh_in, copy.off_in), (copy.fh_out, copy.off_out));
            written(fs.copy(caller, from, to, copy.len).await? as usize)
        }
        opcode::IOCTL => Err(FsError::refused(
            "files of a volume take no ioctl",
            Errno::NOTTY,
        )),
        _ => names::names(fs, caller, request).await,
    }
}

fn written(length: usize) -> Result {
    let size = u32::try_from(length).map_err(|_| malformed())?;
    Ok(Reply::of(&abi::WriteOut { size, padding: 0 }))
}

async fn lookup(fs: &FileSystem, caller: Caller, parent: u64, body: &[u8]) -> Result {
    match fs.lookup(caller, parent, string(body)?.0).await? {
        Found::Node(entry) => Ok(Reply::of(&pack::entry(&entry))),
        Found::Nothing(valid) if valid.is_zero() => {
            Err(FsError::refused("the name does not exist", Errno::NOENT))
        }
        // A negative entry, which the kernel may cache.
        Found::Nothing(valid) => Ok(Reply::of(&pack::no_entry(valid))),
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
    let write = request.write().ok_or_else(malformed)?;
    let how = WriteHow {
        append: write.flags.cast_signed() & libc::O_APPEND != 0,
        kill_set_id: (write.write_flags & abi::WRITE_KILL_SUIDGID != 0).then_some(caller),
        // A bit of `O_SYNC`; the kernel also sets it for a `pwritev2` with `RWF_DSYNC`.
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
    Ok(Reply::Packed(packed))
}

async fn list(fs: &FileSystem, request: &Incoming, entries: Entries) -> Result {
    let (read, _) = argument::<abi::ReadIn>(request)?;
    let mut names = pack::Names::new(read.size as usize);
    let mut cookie = read.offset;
    loop {
        let page = match fs.list(read.fh, cookie).await {
            Ok(page) => page,
            // The names so far go out first; the next call reports the error.
            Err(_) if !names.is_empty() => return Ok(Reply::Packed(names.done())),
            Err(e) => return Err(e),
        };
        if page.entries().is_empty() {
            return Ok(Reply::Packed(names.done()));
        }
        for listed in page.entries() {
            if !names.fits(&listed.name, entries) {
                return Ok(Reply::Packed(names.done()));
            }
            cookie = listed.cookie;
            let entry = (entries == Entries::WithAttributes).then(|| {
                fs.listed_entry(&page, listed)
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
    Ok(Reply::of(&abi::StatfsOut {
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
