//! Open files: attach, read, write, close.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::Errno;
use weft_client::{Access, File, Place, Volume};

use super::views::{is_view, refuse};
use super::{Attr, Caller, Entry, FileSystem, FsError};
use crate::data::OpenData;

/// Linux's mark of an open that is going to run the file; not in the C library's headers.
const FOR_EXECUTION: i32 = 0x20;

/// One open of a file.
pub(super) struct Handle {
    pub(super) id: u64,
    pub(super) file: File,
    pub(super) data: OpenData,
    pub(super) write: bool,
    /// Who has asked for locks by it.
    pub(super) lockers: Mutex<BTreeSet<u64>>,
    wrote: AtomicBool,
}

impl Handle {
    /// The file was written by it.
    pub(super) fn note_wrote(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    pub(super) async fn truncate(&self, size: u64) -> Result<(), FsError> {
        if !self.write {
            return Err(FsError::wrong(
                "the file is not open for writing",
                Errno::BADF,
            ));
        }
        self.wrote.store(true, Ordering::Relaxed);
        Ok(self.data.truncate(size).await?)
    }
}

/// A file was opened.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an answer of its own to the kernel"
)]
pub struct Opened {
    /// Its number.
    pub handle: u64,
    /// The pages that the kernel has of it are true.
    pub keep_pages: bool,
    /// Nothing of it is to be cached by the kernel.
    pub direct: bool,
    /// Writes may overtake each other.
    pub parallel: bool,
}

/// How a write is to be done.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteHow {
    /// At the end of the file, wherever that is.
    pub append: bool,
    /// The writer must not keep the file's set-id bits.
    pub kill_set_id: bool,
}

/// Open files by id.
#[derive(Default)]
pub(super) struct Files(Mutex<HashMap<u64, OpenFile>>);

#[derive(Default)]
struct OpenFile {
    handles: Vec<Arc<Handle>>,
    /// When this mount last wrote it; the servers may not have heard yet.
    written: Option<i64>,
}

impl Files {
    fn add(&self, handle: &Arc<Handle>) {
        let mut files = self.0.lock();
        files
            .entry(handle.id)
            .or_default()
            .handles
            .push(handle.clone());
    }

    fn remove(&self, handle: &Arc<Handle>) {
        let mut files = self.0.lock();
        if let Some(file) = files.get_mut(&handle.id) {
            file.handles.retain(|h| !Arc::ptr_eq(h, handle));
            if file.handles.is_empty() {
                files.remove(&handle.id);
            }
        }
    }

    pub(super) fn all(&self, id: u64) -> Vec<Arc<Handle>> {
        let files = self.0.lock();
        files
            .get(&id)
            .map(|f| f.handles.clone())
            .unwrap_or_default()
    }

    /// An open of this file that may write.
    pub(super) fn writer(&self, id: u64) -> Option<Arc<Handle>> {
        let files = self.0.lock();
        files.get(&id)?.handles.iter().find(|h| h.write).cloned()
    }

    /// The data cache's bytes of a file are old.
    pub(super) fn invalidate(&self, id: u64) {
        for handle in self.all(id) {
            handle.data.invalidate();
        }
    }

    /// Notes that a file was written now.
    pub(super) fn wrote(&self, id: u64) {
        if let Some(file) = self.0.lock().get_mut(&id) {
            file.written = Some(now());
        }
    }

    /// The time of a file's last write was set by hand.
    pub(super) fn time_set(&self, id: u64) {
        if let Some(file) = self.0.lock().get_mut(&id) {
            file.written = None;
        }
    }

    /// Adds what this mount has written and not sent.
    pub(super) fn cover(&self, attr: &mut Attr) {
        let files = self.0.lock();
        let Some(file) = files.get(&attr.id) else {
            return;
        };
        if let Some(end) = file.handles.iter().find_map(|h| h.data.known_end()) {
            attr.size = attr.size.max(end);
        }
        if let Some(written) = file.written {
            attr.modified = attr.modified.max(written);
            attr.changed = attr.changed.max(written);
        }
    }
}

fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as i64)
}

pub(super) fn access(flags: i32) -> Access {
    match flags & libc::O_ACCMODE {
        // The kernel has checked that it may be run, which needs no permission to read.
        libc::O_RDONLY if flags & FOR_EXECUTION != 0 => Access::default(),
        libc::O_RDONLY => Access::read(),
        libc::O_WRONLY => Access::write(),
        _ => Access::read_write(),
    }
}

pub(super) fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

impl FileSystem {
    /// Opens a file; `flags` as of open(2).
    pub async fn open(
        &self,
        caller: Caller,
        id: u64,
        flags: i32,
        kill_set_id: bool,
    ) -> Result<Opened, FsError> {
        if self.options.read_only && (writes(flags) || flags & libc::O_TRUNC != 0) {
            return Err(FsError::wrong(
                "the volume is mounted read-only",
                Errno::ROFS,
            ));
        }
        if is_view(id) {
            return self.open_view(caller, id, flags).await;
        }
        let mut access = access(flags);
        if flags & libc::O_TRUNC != 0 && !writes(flags) {
            access = Access::read_write();
        }
        let access = access.inline();
        let volume = self.on(caller);
        let file = self
            .call(|| volume.attach(Place::of(id), access.clone()))
            .await?;
        let mut opened = self.adopt(file, flags)?;
        if flags & libc::O_TRUNC != 0 {
            opened.keep_pages = false;
            let handle = self.handles.get(opened.handle)?;
            let emptied = self.empty(&handle, kill_set_id).await;
            if let Err(e) = emptied {
                self.release(opened.handle).await;
                return Err(e);
            }
        }
        Ok(opened)
    }

    async fn empty(&self, handle: &Handle, kill_set_id: bool) -> Result<(), FsError> {
        if kill_set_id {
            self.drop_set_id(handle.id).await?;
        }
        handle.data.truncate(0).await?;
        handle.wrote.store(true, Ordering::Relaxed);
        self.files.wrote(handle.id);
        Ok(())
    }

    /// Makes a file in a directory, if it is not there, and opens it.
    pub async fn create(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
        flags: i32,
    ) -> Result<(Entry, Opened), FsError> {
        refuse(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = Place::under(parent, name);
        let bits = mode & 0o7777;
        let access = match flags & libc::O_EXCL {
            0 => access(flags).create(bits).umask(umask).no_follow().inline(),
            _ => access(flags).create_new(bits).umask(umask).inline(),
        };
        let file = self.attach_new(&volume, &place, &access).await?;
        let created = file.created();
        let attributes = file.attributes().clone();
        // It is this mount that writes it: of what a new file holds the service knows everything.
        let attr = if created {
            Attr::from(&attributes)
        } else {
            self.complete(attributes).await?
        };
        let entry = self.entry(attr);
        let opened = self.adopt(file, flags)?;
        if flags & libc::O_TRUNC != 0 && !created {
            let handle = self.handles.get(opened.handle)?;
            self.empty(&handle, false).await?;
        }
        Ok((entry, opened))
    }

    async fn attach_new(
        &self,
        volume: &Volume,
        place: &Place,
        access: &Access,
    ) -> Result<File, FsError> {
        self.call(|| volume.attach(place, access.clone())).await
    }

    /// Takes an attached file among the open ones.
    fn adopt(&self, file: File, flags: i32) -> Result<Opened, FsError> {
        let id = file.id();
        let attributes = file.attributes();
        // Who attaches for writing ends the certainty of the size, and is told so: nothing that the kernel has is
        // kept then, and nothing is asked of the servers to know better.
        let exact = attributes.size_exact || file.created();
        let verdict = self.nodes.opened(&Attr::from(attributes), exact);
        if !verdict.keep_attributes && !file.created() {
            self.attributes_changed(id);
        }
        let append = flags & libc::O_APPEND != 0;
        let handle = Arc::new(Handle {
            id,
            data: self.cache.open(file.clone())?,
            file,
            write: writes(flags),
            lockers: Mutex::default(),
            wrote: AtomicBool::new(false),
        });
        self.files.add(&handle);
        let write = handle.write;
        Ok(Opened {
            handle: self.handles.insert(handle),
            keep_pages: verdict.keep_pages && !self.options.strict,
            // The kernel would put appended bytes where it believes the end to be.
            direct: self.options.strict || (append && write),
            parallel: self.options.strict && !append,
        })
    }

    /// Reads, in the parts in which it arrived; fewer bytes than asked for only at the end of the file.
    pub async fn read(
        &self,
        handle: u64,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Bytes>, FsError> {
        if is_view(handle) {
            return Ok(vec![self.read_view(handle, offset, length).await?]);
        }
        let handle = self.handles.get(handle)?;
        let rope = handle.data.read_parts(offset, length).await?;
        Ok(rope.parts().cloned().collect())
    }

    /// Writes. When it returns the bytes are in the data cache, or at the servers if nothing is cached.
    pub async fn write(
        &self,
        handle: u64,
        offset: u64,
        data: Bytes,
        how: WriteHow,
    ) -> Result<(), FsError> {
        if is_view(handle) {
            return self.write_view(handle, offset, data, how.append).await;
        }
        let handle = self.handles.get(handle)?;
        if how.kill_set_id
            && self
                .nodes
                .mode(handle.id)
                .is_none_or(|mode| mode & 0o6000 != 0)
        {
            self.drop_set_id(handle.id).await?;
        }
        if how.append {
            handle.data.append(data).await?;
        } else {
            handle.data.write(offset, data).await?;
        }
        handle.wrote.store(true, Ordering::Relaxed);
        self.files.wrote(handle.id);
        Ok(())
    }

    /// A descriptor of the file is closed: what was written goes to the servers, and what failed is told.
    ///
    /// Locks of bytes that `owner` holds of it end.
    pub async fn flush(&self, handle: u64, owner: u64) -> Result<(), FsError> {
        if is_view(handle) {
            return self.flush_view(handle);
        }
        let handle = self.handles.get(handle)?;
        let flushed = if handle.write {
            handle.data.flush().await
        } else {
            Ok(())
        };
        self.unlock_process(handle.id, owner).await;
        Ok(flushed?)
    }

    /// Everything written survives power loss when it returns.
    pub async fn sync(&self, handle: u64) -> Result<(), FsError> {
        if is_view(handle) {
            return self.sync_view(handle).await;
        }
        let handle = self.handles.get(handle)?;
        let data = async { Ok(handle.data.sync().await?) };
        tokio::try_join!(data, self.sync_names())?;
        Ok(())
    }

    /// Sends to the servers whatever any open of the file has written.
    pub(super) async fn flush_all(&self, id: u64) -> Result<(), FsError> {
        for handle in self.files.all(id) {
            if handle.write {
                handle.data.flush().await?;
            }
        }
        Ok(())
    }

    /// The last descriptor of an open is closed.
    pub async fn release(&self, handle: u64) {
        if is_view(handle) {
            return self.release_view(handle).await;
        }
        if let Some(handle) = self.handles.remove(handle) {
            self.close(handle).await;
        }
    }

    pub(super) async fn close(&self, handle: Arc<Handle>) {
        self.unlock_open(&handle).await;
        let result = handle.data.close().await;
        if handle.wrote.load(Ordering::Relaxed) {
            self.nodes.settled(handle.id, None);
        }
        self.files.remove(&handle);
        if let Err(error) = result {
            tracing::warn!(file = handle.id, %error, "closing a file failed");
        }
    }
}
