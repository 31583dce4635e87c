//! All opens by file, and what this mount has written that the service does not know yet.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::handle::Handle;
use super::pages::Pages;
use crate::fs::metadata::Attr;

/// Open files by id.
#[derive(Default)]
pub(in crate::fs) struct OpenFiles(Mutex<HashMap<u64, FileHandles>>);

#[derive(Default)]
struct FileHandles {
    handles: Vec<Arc<Handle>>,
    pages: Arc<Pages>,
    /// When this mount last wrote it; the servers may not know yet.
    written: Option<i64>,
}

impl FileHandles {
    /// The end as far as an open for writing knows.
    fn written_end(&self) -> Option<u64> {
        let mut writers = self.handles.iter().filter(|h| h.write);
        writers.find_map(|h| h.data().known_end())
    }
}

impl OpenFiles {
    pub(in crate::fs) fn add(
        &self,
        id: u64,
        open: impl FnOnce(Arc<Pages>) -> Handle,
    ) -> Arc<Handle> {
        let mut files = self.0.lock();
        let file = files.entry(id).or_default();
        let handle = Arc::new(open(file.pages.clone()));
        file.handles.push(handle.clone());
        handle
    }

    pub(in crate::fs) fn remove(&self, handle: &Arc<Handle>) {
        let mut files = self.0.lock();
        if let Some(file) = files.get_mut(&handle.id) {
            file.handles.retain(|h| !Arc::ptr_eq(h, handle));
            if file.handles.is_empty() {
                files.remove(&handle.id);
            }
        }
    }

    pub(in crate::fs) fn all(&self, id: u64) -> Vec<Arc<Handle>> {
        let files = self.0.lock();
        files
            .get(&id)
            .map(|f| f.handles.clone())
            .unwrap_or_default()
    }

    /// Any open of this file.
    pub(in crate::fs) fn any(&self, id: u64) -> Option<Arc<Handle>> {
        self.0.lock().get(&id)?.handles.first().cloned()
    }

    /// Whether an open writes this file past the kernel's pages.
    pub(in crate::fs) fn use_direct_io(&self, id: u64) -> bool {
        let files = self.0.lock();
        let past = |file: &FileHandles| file.handles.iter().any(|h| h.write && h.past.all);
        files.get(&id).is_some_and(past)
    }

    /// Whether an open writes this file so that its bytes go to the servers before the write
    /// returns, unless the file's policy delays them.
    pub(in crate::fs) fn writes_through(&self, id: u64) -> bool {
        let files = self.0.lock();
        let through = |h: &Arc<Handle>| h.write && h.data().is_write_through();
        let through = |file: &FileHandles| file.handles.iter().any(through);
        files.get(&id).is_some_and(through)
    }

    /// This mount has changed the file: what other opens of it than `by` believe by their policies
    /// has ended.
    pub(in crate::fs) fn changed(&self, id: u64, by: Option<&Handle>) {
        let files = self.0.lock();
        for handle in files.get(&id).map_or(&[][..], |file| &file.handles) {
            let is_other = by.is_none_or(|by| !std::ptr::eq(by, &raw const **handle));
            if is_other && handle.data().is_write_through() {
                handle.data().file().forget_own_names();
            }
        }
    }

    /// Whether an open writes this file through the kernel's pages.
    pub(in crate::fs) fn is_written_through_pages(&self, id: u64) -> bool {
        let files = self.0.lock();
        let through = |file: &FileHandles| file.handles.iter().any(|h| h.write && !h.past.direct);
        files.get(&id).is_some_and(through)
    }

    /// Whether a program may have a writable mapping of this file, or may make one.
    pub(in crate::fs) fn may_be_mapped(&self, id: u64) -> bool {
        let files = self.0.lock();
        let maps = |file: &FileHandles| file.handles.iter().any(|h| h.write && h.reads);
        files.get(&id).is_some_and(maps)
    }

    /// Whether an open that writes this file may send bytes to its cells.
    pub(in crate::fs) fn writes_cells(&self, id: u64) -> bool {
        let files = self.0.lock();
        let cells = |h: &Arc<Handle>| h.write && h.data().needs_cells();
        let cells = |file: &FileHandles| file.handles.iter().any(cells);
        files.get(&id).is_some_and(cells)
    }

    /// The size of a file that only this mount has written, if it is open for writing.
    pub(in crate::fs) fn written_end(&self, id: u64) -> Option<u64> {
        self.0.lock().get(&id)?.written_end()
    }

    /// Notes that a file was written at this time.
    pub(in crate::fs) fn wrote(&self, id: u64, time: i64) {
        if let Some(file) = self.0.lock().get_mut(&id) {
            file.written = file.written.max(Some(time));
        }
    }

    /// The time of a file's last write was set by hand.
    pub(in crate::fs) fn time_set(&self, id: u64) {
        if let Some(file) = self.0.lock().get_mut(&id) {
            file.written = None;
        }
    }

    /// Adds what this mount has written and not yet sent.
    pub(in crate::fs) fn cover(&self, attr: &mut Attr) {
        let files = self.0.lock();
        let Some(file) = files.get(&attr.id) else {
            return;
        };
        if let Some(end) = file.written_end() {
            attr.size = attr.size.max(end);
        }
        if let Some(written) = file.written {
            attr.modified = attr.modified.max(written);
            attr.changed = attr.changed.max(written);
        }
    }
}
