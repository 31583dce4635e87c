//! Opens and creates files.

use rustix::io::Errno;
use weft_client::{Access, File, Policy};

use super::handle::{DirectOpens, Handle};
use super::kept_files::{AttachMoment, Kept};
use super::modes::{Opened, access, writes};
use crate::fs::clock::now_nanos;
use crate::fs::metadata::Answer;
use crate::fs::upper_cache::UpperCache;
use crate::fs::view_ids::{is_view, refuse_in_views};
use crate::fs::{Caller, Entry, FileSystem, FsError};

/// Whether an open bypasses the kernel's pages, if it `gains` by that: not if programs could not
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
        let keeps = self.keeps_small(flags);
        if keeps && let Some(opened) = self.open_kept(id, flags).await? {
            return Ok(opened);
        }
        let mut access = access(flags).inline();
        if keeps {
            access = self.ask_to_keep(access, id);
        } else {
            // A writer that is not alone knows less.
            self.forget_kept(id).await;
        }
        let volume = self.on(caller);
        let place = self.metadata.place(id);
        let mut opened = loop {
            let asked = self.attach_moment();
            let file = self.call(|| volume.attach(&place, access.clone())).await?;
            for file in file.take_ahead() {
                self.keep(Kept { asked, file }).await;
            }
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

    /// Whether an open may use a file that is kept, or keep one.
    fn keeps_small(&self, flags: i32) -> bool {
        let only_reads = flags & (libc::O_ACCMODE | libc::O_TRUNC | libc::O_DIRECT) == 0;
        only_reads && !self.options.strict && self.metadata.is_live()
    }

    /// Opens a file that is kept, if it was not changed since. No message.
    async fn open_kept(&self, id: u64, flags: i32) -> Result<Option<Opened>, FsError> {
        let Some(Kept { asked, file }) = self.kept.take(id) else {
            return Ok(None);
        };
        if self.metadata.file_overtaken(asked.metadata, id) {
            file.close_deferred().await?;
            return Ok(None);
        }
        // Its attributes are from before it was read here.
        let nodes = self.metadata.nodes();
        if let Some(last) = nodes.last(id) {
            nodes.accessed(id, last.accessed);
        }
        self.adopt(asked, file, flags).await
    }

    fn ask_to_keep(&self, access: Access, id: u64) -> Access {
        let Some((directory, name)) = self.metadata.nodes().name(id) else {
            return access.keep_small(0, b"", 0);
        };
        let ahead = self.kept.worth_ahead(directory);
        access.keep_small(if ahead == 0 { 0 } else { directory }, &name, ahead)
    }

    /// Keeps a file attached.
    pub(super) async fn keep(&self, kept: Kept) {
        let (asked, id) = (kept.asked, kept.file.id());
        for file in self.kept.keep(kept) {
            self.let_go(file).await;
        }
        // A change that was logged before it was here.
        if self.metadata.file_overtaken(asked.metadata, id) {
            self.forget_kept(id).await;
        }
    }

    /// A file was changed or lost its name: it does not stay attached.
    pub(in crate::fs) async fn forget_kept(&self, id: u64) {
        if let Some(kept) = self.kept.take(id) {
            self.let_go(kept.file).await;
        }
    }

    /// No file stays attached.
    pub(in crate::fs) async fn forget_all_kept(&self) {
        for file in self.kept.take_all() {
            self.let_go(file).await;
        }
    }

    async fn let_go(&self, file: File) {
        // It only reads: the service is told later.
        if let Err(error) = file.close_deferred().await {
            tracing::debug!(%error, "cannot close a file");
        }
    }

    async fn empty(&self, handle: &Handle, from: Option<Caller>) -> Result<(), FsError> {
        let began = now_nanos();
        self.strip(handle, from).await?;
        self.send_waiting(handle.id, Some(handle)).await?;
        handle.truncate(0).await?;
        self.resized(handle.id, began);
        Ok(())
    }

    /// Creates a file in a directory, if it does not exist, and opens it.
    pub async fn create(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
        flags: i32,
    ) -> Result<(Entry, Opened), FsError> {
        refuse_in_views(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let bits = mode & 0o7777;
        let asked = self.attach_moment();
        let reads_writes = (flags & libc::O_ACCMODE != libc::O_WRONLY, writes(flags));
        if let Some(file) = self
            .make_delegated(&volume, (parent, name), (bits, umask), reads_writes)
            .await
        {
            self.metadata.name_may_exist(parent, name);
            return self.made(asked, (parent, name), file, flags).await;
        }
        let access = match flags & libc::O_EXCL {
            0 => access(flags).create(bits).umask(umask).no_follow().inline(),
            _ => access(flags).create_new(bits).umask(umask).inline(),
        };
        self.metadata.name_may_exist(parent, name);
        let (entry, opened) = loop {
            let asked = self.attach_moment();
            let file = self.call(|| volume.attach(&place, access.clone())).await;
            // A call that failed may have made it.
            let file = file.inspect_err(|_| self.metadata.touched(parent))?;
            if file.created() {
                return self.made(asked, (parent, name), file, flags).await;
            }
            let answer = self.complete(file.attributes().clone()).await?;
            if let Some(opened) = self.adopt(asked, file, flags).await? {
                // Once: the kernel forgets a node as often as it was reported.
                let entry = self.metadata.entry(asked.metadata, &answer, (parent, name));
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

    /// A file was created and opened.
    async fn made(
        &self,
        asked: AttachMoment,
        (parent, name): (u64, &[u8]),
        file: File,
        flags: i32,
    ) -> Result<(Entry, Opened), FsError> {
        // Only this mount writes it, and the service knows everything about a new file.
        let answer = Answer::exact(file.attributes());
        self.metadata.entered(asked.metadata, parent, &answer.attr);
        let entry = self.metadata.entry(asked.metadata, &answer, (parent, name));
        let opened = self.adopt(asked, file, flags).await?;
        let opened = opened.ok_or(FsError::refused("a new file is already open", Errno::IO))?;
        Ok((entry, opened))
    }

    /// This moment, before a file is attached.
    fn attach_moment(&self) -> AttachMoment {
        AttachMoment {
            metadata: self.metadata.now(),
            data: self.data.now(),
        }
    }

    /// Adds an attached file to the open ones. `None` if another open of this mount has changed it
    /// since it was asked for: then the attachment is released.
    async fn adopt(
        &self,
        asked: AttachMoment,
        file: File,
        flags: i32,
    ) -> Result<Option<Opened>, FsError> {
        let is_ours = |policy: Policy| {
            let keeps = policy.is_past_pages() && !policy.is_in_order();
            policy.is_met_by_mounts() || self.options.strict && keeps
        };
        if file.policy().is_some_and(is_ours) {
            file.set_policy(None).map_err(FsError::from)?;
        }
        let Some(data) = self.data.open_asked(file.clone(), asked.data)? else {
            file.close_deferred().await?;
            return Ok(None);
        };

        let id = file.id();
        // A change that was logged before the data cache knew the file.
        if self.metadata.file_changed_since(asked.metadata, id) && !file.created() {
            data.invalidate();
        }
        let attributes = file.attributes();
        let exact = attributes.size_exact || file.created();
        let mut answer = Answer {
            exact,
            ..Answer::exact(attributes)
        };
        self.metadata.nodes().cover(&mut answer.attr);
        self.metadata.learn(asked.metadata, &answer);
        // An attachment for writing makes the size inexact: the kernel drops its attributes, unless
        // they are true. Its pages stay true if no other client may write.
        let open_cache_policy = self
            .metadata
            .nodes()
            .opened(&answer.attr, exact || file.sole());
        if !open_cache_policy.keep_pages && !file.created() {
            data.invalidate_older();
        }
        let known = exact && open_cache_policy.keep_attributes;
        if !known && !file.created() {
            self.metadata.attributes_changed(id);
        }
        let (append, write) = (flags & libc::O_APPEND != 0, writes(flags));
        // A program that creates a file to read it back has buffers, and is often one of many: the
        // kernel lets one writer at a time into its pages, and any number past them. Other writers
        // of the file follow.
        let made = file.created() && flags & libc::O_ACCMODE == libc::O_RDWR;
        let uncached = self.options.strict || data.is_write_through();
        let past_pages = uncached
            || past_pages(
                write && (made || self.files.use_direct_io(id)),
                self.metadata.upper().map(|upper| &**upper),
            );
        // The kernel would put appended bytes at the end as it knows it.
        let direct = past_pages || (append && write);
        let past = DirectOpens {
            all: past_pages,
            direct,
        };
        let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
        let counts = reads && flags & libc::O_NOATIME == 0;
        let keep_pages = open_cache_policy.keep_pages && !uncached;
        // The kernel does not report reads from its pages.
        let unseen = keep_pages && flags & (libc::O_TRUNC | libc::O_DIRECT) == 0;
        let presumed = counts && !write && unseen && self.accessed(id);
        let name_losses = self.volume.name_losses();
        let keeps = self.keeps_small(flags) && file.is_kept() && file.policy().is_none();
        let handle = self.files.add(id, |pages| {
            let opening = (open_cache_policy.opening, pages);
            Handle::new(
                file,
                data,
                (reads, write, counts),
                past,
                opening,
                name_losses,
                keeps.then_some(asked),
            )
        });
        handle.set_atime_pending(presumed);
        Ok(Some(Opened {
            handle: self.handles.insert(handle),
            keep_pages,
            direct,
            parallel: past_pages && !append,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use tokio::sync::oneshot;

    use super::*;
    use crate::fs::{AccessTimes, FileCopies};

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
    fn opens_bypass_the_page_cache_only_if_the_kernel_can_still_map_the_file() {
        let [old, new] = [false, true].map(|maps| Kernel { maps });
        assert!(!past_pages(true, Some(&old)));
        assert!(past_pages(true, Some(&new)));
        assert!(!past_pages(false, Some(&new)));
    }
}
