//! Open files: attach, read, write, close.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{Access, Attributes, File};

use super::belief::Answer;
use super::files::{Handle, PastPages, now};
use super::news::{Asked, Subject};
use super::views::{is_view, refuse};
use super::{Caller, Entry, FileCopies, FileSystem, FsError, UpperCache};
use crate::data::{DataError, Moment};
use crate::limits::SHORT_READ_SIZE_VALID;

/// Linux's mark of an open that is going to run the file; not in the C library's headers.
const FOR_EXECUTION: i32 = 0x20;

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
    /// Who must not keep the file's set-id bits, where the writer must not.
    pub kill_set_id: Option<Caller>,
    /// It survives power loss when the write returns.
    pub synced: bool,
    /// Where the bytes come from.
    pub way: WriteWay,
}

/// How a write has come to the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteWay {
    /// Through the kernel's pages, which show it already.
    #[default]
    Through,
    /// Past the kernel's pages.
    Past,
    /// Pages that were changed by a map are written back, each of them whole.
    Back,
}

/// When a file was asked for: by the mount's news, and by the data cache.
#[derive(Clone, Copy)]
struct Asking {
    news: Asked,
    data: Moment,
}

pub(super) fn access(flags: i32) -> Access {
    match flags & libc::O_ACCMODE {
        // The kernel has checked that it may be run, which needs no permission to read.
        libc::O_RDONLY if flags & FOR_EXECUTION != 0 => Access::default(),
        // Whoever empties a file changes it, however it is opened.
        libc::O_RDONLY if flags & libc::O_TRUNC != 0 => Access::read_write(),
        libc::O_RDONLY => Access::read(),
        libc::O_WRONLY => Access::write(),
        _ => Access::read_write(),
    }
}

pub(super) fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Whether an open goes past the kernel's pages that would gain by it: not where programs could not
/// map the file then.
fn past_pages(gains: bool, upper: Option<&dyn UpperCache>) -> bool {
    gains && upper.is_none_or(UpperCache::maps_past_pages)
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
        if is_view(id) {
            return self.open_view(caller, id, flags).await;
        }
        let access = access(flags).inline();
        let volume = self.on(caller);
        let place = self.place(id);
        let mut opened = loop {
            let asked = self.asking();
            let file = self.call(|| volume.attach(&place, access.clone())).await?;
            if let Some(opened) = self.adopt(asked, file, flags).await? {
                break opened;
            }
        };
        if flags & libc::O_TRUNC != 0 {
            opened.keep_pages = false;
            let handle = self.handles.get(opened.handle)?;
            let emptied = self.empty(&handle, kill_set_id.then_some(caller)).await;
            if let Err(e) = emptied {
                self.release(opened.handle).await;
                return Err(e);
            }
        }
        Ok(opened)
    }

    async fn empty(&self, handle: &Handle, from: Option<Caller>) -> Result<(), FsError> {
        let began = now();
        self.strip(handle, from).await?;
        handle.truncate(0).await?;
        self.resized(handle.id, began);
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
        let place = self.under(parent, name);
        let bits = mode & 0o7777;
        let asked = self.asking();
        let ahead = (flags & libc::O_ACCMODE != libc::O_WRONLY, writes(flags));
        if let Some(file) = self
            .make_ahead(&volume, (parent, name), (bits, umask), ahead)
            .await
        {
            self.absent.may_be_there(parent, self.news.hash(name));
            return self.made(asked, (parent, name), file, flags).await;
        }
        let access = match flags & libc::O_EXCL {
            0 => access(flags).create(bits).umask(umask).no_follow().inline(),
            _ => access(flags).create_new(bits).umask(umask).inline(),
        };
        self.absent.may_be_there(parent, self.news.hash(name));
        let (entry, opened) = loop {
            let asked = self.asking();
            let file = self.call(|| volume.attach(&place, access.clone())).await?;
            if file.created() {
                return self.made(asked, (parent, name), file, flags).await;
            }
            let answer = self.complete(file.attributes().clone()).await?;
            if let Some(opened) = self.adopt(asked, file, flags).await? {
                // Once: the kernel forgets as often as it was told.
                let entry = self.entry(asked.news, &answer, (parent, name));
                break (entry, opened);
            }
        };
        if flags & libc::O_TRUNC != 0 {
            let handle = self.handles.get(opened.handle)?;
            if let Err(e) = self.empty(&handle, None).await {
                self.release(opened.handle).await;
                return Err(e);
            }
        }
        Ok((entry, opened))
    }

    /// A file was made and opened.
    async fn made(
        &self,
        asked: Asking,
        (parent, name): (u64, &[u8]),
        file: File,
        flags: i32,
    ) -> Result<(Entry, Opened), FsError> {
        // It is this mount that writes it: of what a new file holds the service knows everything.
        let answer = Answer::exact(file.attributes());
        self.entered(asked.news, parent, &answer.attr);
        let entry = self.entry(asked.news, &answer, (parent, name));
        let opened = self.adopt(asked, file, flags).await?;
        let opened = opened.ok_or(FsError::refused("a new file is open already", Errno::IO))?;
        Ok((entry, opened))
    }

    /// Now, before a file is attached.
    fn asking(&self) -> Asking {
        Asking {
            news: self.news.now(),
            data: self.cache.now(),
        }
    }

    /// Takes an attached file among the open ones. Nothing where another open of this mount has
    /// changed it since it was asked for: then the attachment is let go.
    async fn adopt(
        &self,
        asked: Asking,
        file: File,
        flags: i32,
    ) -> Result<Option<Opened>, FsError> {
        let Some(data) = self.cache.open_asked(file.clone(), asked.data)? else {
            file.let_go().await?;
            return Ok(None);
        };

        let id = file.id();
        // News that came before the data cache knew the file.
        if self.news.heard_since(asked.news, Subject::File(id)) && !file.created() {
            data.invalidate();
        }
        let attributes = file.attributes();
        let exact = attributes.size_exact || file.created();
        let answer = Answer {
            exact,
            ..Answer::exact(attributes)
        };
        self.learn(asked.news, &answer);
        // Who attaches for writing ends the certainty of the size: what the kernel was told is
        // taken back, unless it is true; but pages are true if nobody else may write.
        let verdict = self.nodes.opened(&answer.attr, exact || file.sole());
        if !verdict.keep_pages && !file.created() {
            data.forget_older();
        }
        let told = exact && verdict.keep_attributes;
        if !told && !file.created() {
            self.attributes_changed(id);
        }
        let (append, write) = (flags & libc::O_APPEND != 0, writes(flags));
        // Who makes a file to read it back has buffers of its own, and is often one of many: the
        // kernel lets one at a time write pages, and any number write past them. Whoever else
        // writes the file joins.
        let made = file.created() && flags & libc::O_ACCMODE == libc::O_RDWR;
        let past_pages = self.options.strict
            || past_pages(
                write && (made || self.files.are_past_pages(id)),
                self.upper.get().map(|upper| &**upper),
            );
        // The kernel would put appended bytes where it believes the end to be.
        let direct = past_pages || (append && write);
        let past = PastPages {
            all: past_pages,
            direct,
        };
        let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
        let counts = reads && flags & libc::O_NOATIME == 0;
        let keep_pages = verdict.keep_pages && !self.options.strict;
        // What is read from the kernel's pages it tells nobody.
        let unseen = keep_pages && flags & (libc::O_TRUNC | libc::O_DIRECT) == 0;
        let presumed = counts && !write && unseen && self.accessed(id);
        let told = self.volume.name_losses();
        let handle = self.files.add(id, |pages| {
            let opening = (verdict.opening, pages);
            Handle::new(file, data, (reads, write, counts), past, opening, told)
        });
        handle.presume_read(presumed);
        Ok(Some(Opened {
            handle: self.handles.insert(handle),
            keep_pages,
            direct,
            parallel: past_pages && !append,
        }))
    }

    /// Reads, in the parts in which it arrived; fewer bytes than asked for only at the end of the
    /// file. `pages`: for the kernel's pages of the file.
    pub async fn read(
        &self,
        handle: u64,
        offset: u64,
        length: usize,
        pages: bool,
    ) -> Result<Vec<Bytes>, FsError> {
        if is_view(handle) {
            return Ok(vec![self.read_view(handle, offset, length).await?]);
        }
        let handle = self.handles.get(handle)?;
        if pages {
            handle.pages.note_read();
        }
        if let Some(opening) = handle.opening.lock().take() {
            self.nodes.first_read(handle.id, opening);
        }
        // The kernel forgets the time of access by itself.
        handle.presume_read(false);
        if handle.counts {
            self.accessed(handle.id);
        }
        let rope = handle.data.read_parts(offset, length).await?;
        if rope.len() < length {
            self.found_end(handle.id, offset + rope.len() as u64);
        }
        Ok(rope.parts().cloned().collect())
    }

    /// A read found no more from here on. If the kernel believed the file to be longer, it will
    /// believe it to be as short as that: not for long.
    fn found_end(&self, id: u64, end: u64) {
        if self.nodes.ends_at(id, end)
            && let Some(upper) = self.upper.get().cloned()
        {
            tokio::spawn(async move {
                tokio::time::sleep(SHORT_READ_SIZE_VALID).await;
                upper.invalidate_file(id, FileCopies::Attributes);
            });
        }
    }

    /// Writes. When it returns the bytes are in the data cache, or at the servers if nothing is
    /// cached; they survive power loss where that is wished and the kernel does not ask for it
    /// itself.
    pub async fn write(
        &self,
        handle: u64,
        offset: u64,
        data: Bytes,
        how: WriteHow,
    ) -> Result<(), FsError> {
        if is_view(handle) {
            return self.write_view(handle, offset, data, how).await;
        }
        let number = handle;
        let handle = self.handles.get(handle)?;
        let _at_work = handle.at_work.read().await;
        let synced = how.synced && handle.past.direct;
        let syncing = synced.then(|| handle.data.syncing());
        let failures = handle.data.failures();
        if how.kill_set_id.is_some() || how.append || handle.past.all {
            self.strip(&handle, how.kill_set_id).await?;
        }
        let offset = if how.append {
            handle.data.append_offset(data.len() as u64).await?
        } else {
            offset
        };
        let range = offset..offset.saturating_add(data.len() as u64);
        match how.way {
            WriteWay::Through => {
                handle.data.write(offset, data).await?;
                self.written(&handle);
            }
            WriteWay::Back => {
                let write = handle.pages.write_back(range);
                for part in write.parts() {
                    let slice = (part.start - offset) as usize..(part.end - offset) as usize;
                    handle.data.write(part.start, data.slice(slice)).await?;
                }
                self.written(&handle);
            }
            WriteWay::Past => {
                let write = async {
                    handle.data.write(offset, data).await?;
                    self.written(&handle);
                    Ok(())
                };
                self.beside_pages(&handle, range, write).await?;
            }
        }
        if synced {
            self.sync(number).await?;
            // Another write of this descriptor may have been told of it in this one's place.
            handle.data.failed_since(failures)?;
        }
        drop(syncing);
        Ok(())
    }

    /// Makes a change of a range past the kernel's pages: no page shows what was there before when
    /// it returns, and none brings it back. Why like this: `pages`.
    pub(super) async fn beside_pages<T>(
        &self,
        handle: &Handle,
        range: Range<u64>,
        change: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, FsError> {
        let _mask = handle.pages.mask(range.clone()).await;
        let changed = change.await;
        if handle.pages.were_read() {
            self.drop_pages(handle.id, range).await?;
        }
        changed
    }

    /// An open has put bytes into the data cache.
    pub(super) fn written(&self, handle: &Handle) {
        handle.note_wrote();
        if handle.data.is_inline() {
            // Its bytes are a change of the namespace, whenever they are stored.
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        self.nodes.settled(handle.id, None);
        self.files.wrote(handle.id, handle.data.written());
    }

    /// This mount has changed a file's size, or bytes of it at the servers, by a call that `began`
    /// then: what service and servers note is later, and must not seem to go back.
    pub(super) fn resized(&self, id: u64, began: i64) {
        self.cache.note_changed(id);
        self.touched(id);
        self.nodes.settled(id, None);
        self.files.wrote(id, began);
    }

    /// A descriptor of the file is closed: what was written goes to the servers, and what failed is
    /// told.
    ///
    /// Locks of bytes that `owner` holds of it end.
    pub async fn flush(&self, handle: u64, owner: u64) -> Result<(), FsError> {
        if is_view(handle) {
            return self.flush_view(handle).await;
        }
        let handle = self.handles.get(handle)?;
        let flushed = if handle.write {
            self.settle(&handle, handle.data.flush()).await
        } else {
            Ok(())
        };
        if handle.presume_read(false) {
            self.attributes_changed(handle.id);
        }
        self.unlock_process(handle.id, owner).await;
        handle.note_flushed();
        flushed
    }

    /// Sends what was written; what the service says of the file then is known for certain.
    async fn settle(
        &self,
        handle: &Handle,
        flush: impl Future<Output = Result<Option<Attributes>, DataError>>,
    ) -> Result<(), FsError> {
        let wrote = handle.has_written();
        // What is written from here on may not be among what is stored.
        handle.note_settled();
        let asked = self.news.now();
        match flush.await {
            Ok(Some(attributes)) => {
                self.touched_to(asked, &Answer::exact(&attributes), true);
            }
            result => {
                if wrote {
                    handle.note_wrote();
                }
                if result.is_err() {
                    // The kernel has pages of what was lost.
                    self.forget_data(handle.id);
                }
                result?;
            }
        }
        Ok(())
    }

    /// Everything written survives power loss when it returns.
    pub async fn sync(&self, handle: u64) -> Result<(), FsError> {
        if is_view(handle) {
            return self.sync_view(handle).await;
        }
        let handle = self.handles.get(handle)?;
        if handle.data.is_inline() {
            // One sync of the namespace is enough for bytes and name.
            self.settle(&handle, handle.data.flush_to_sync()).await?;
            // It may have grown out of there.
            if handle.data.is_inline() {
                return self.sync_names(&handle.told).await;
            }
        }
        let data = async {
            let synced = handle.data.sync().await;
            synced.inspect_err(|_| self.forget_data(handle.id))?;
            Ok(())
        };
        tokio::try_join!(data, self.sync_names(&handle.told))?;
        Ok(())
    }

    /// Sends to the servers whatever any open of the file has written.
    pub(super) async fn flush_all(&self, id: u64) -> Result<(), FsError> {
        for handle in self.files.all(id) {
            if handle.write {
                self.settle(&handle, handle.data.flush()).await?;
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
        let _at_rest = handle.at_work.write().await;
        let asked = self.news.now();
        let result = handle.data.close().await;
        match &result {
            Ok(Some(closed)) => self.told_at_close(asked, &closed.attributes, closed.alone),
            _ if handle.has_written() => {
                self.touched(handle.id);
                self.nodes.settled(handle.id, None);
            }
            _ => {}
        }
        self.files.remove(&handle);
        if let Err(error) = result {
            self.forget_data(handle.id);
            tracing::warn!(file = self.shown(handle.id), %error, "closing a file failed");
        }
    }

    /// While a file was open for writing its size and times were not certain: from now on they are.
    fn told_at_close(&self, asked: Asked, attributes: &Attributes, alone: bool) {
        let answer = Answer::exact(attributes);
        self.touched_to(asked, &answer, alone);
        if !self.nodes.was_told(&answer.attr) {
            self.attributes_changed(answer.attr.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::fs::AccessTimes;

    struct Kernel {
        maps: bool,
    }

    impl UpperCache for Kernel {
        fn invalidate_file(&self, _: u64, _: FileCopies) {}
        fn drop_pages(&self, _: u64, _: Range<u64>) {}
        fn invalidate_name(&self, _: u64, _: &[u8]) {}
        fn invalidate_all_names(&self) {}
        fn invalidations_sent(&self) -> oneshot::Receiver<()> {
            oneshot::channel().1
        }
        fn can_invalidate_all_names(&self) -> bool {
            false
        }
        fn maps_past_pages(&self) -> bool {
            self.maps
        }
        fn access_times(&self) -> AccessTimes {
            AccessTimes::default()
        }
    }

    #[test]
    fn nothing_goes_past_pages_of_a_kernel_that_could_not_map_it_then() {
        let [old, new] = [false, true].map(|maps| Kernel { maps });
        assert!(!past_pages(true, Some(&old)));
        assert!(past_pages(true, Some(&new)));
        assert!(!past_pages(false, Some(&new)));
    }
}
