//! Lists directories.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use weft_client::{FileKind, Place};

use super::cookies::{END, FIRST, Position};
use super::kept::WholeListing;
use super::open_directory::{Listed, ListedPage, Listing, OpenDirectory, Page};
use crate::fs::metadata::{Answer, AskedAt, Attr};
use crate::fs::view_ids::is_view;
use crate::fs::{Caller, Entry, FileSystem, FsError};

impl FileSystem {
    /// Opens a directory.
    ///
    /// `flags` as of open(2).
    pub fn open_directory(&self, caller: Caller, id: u64, flags: i32) -> u64 {
        let volume = self.on(caller);
        let quiet = flags & libc::O_NOATIME != 0;
        let losses = self.volume.name_losses();
        let directory = OpenDirectory::new(id, caller, volume, quiet, losses);
        self.directories.insert(Arc::new(directory))
    }

    /// The entries behind a cookie; 0 restarts. Empty at the end. A removed directory has none, not
    /// even `.`: ENOENT, as on local file systems.
    pub async fn list(&self, handle: u64, cookie: u64) -> Result<Page, FsError> {
        let listed = self.list_open(handle, cookie).await;
        listed.map_err(|error| {
            if error.is_gone() {
                FsError::refused("the directory was removed", Errno::NOENT)
            } else {
                error
            }
        })
    }

    async fn list_open(&self, handle: u64, cookie: u64) -> Result<Page, FsError> {
        let directory = self.directories.get(handle)?;
        if !directory.quiet && !is_view(directory.id) {
            self.accessed_directory(directory.id);
        }
        let mut listing = directory.listing().await;
        if cookie == 0 {
            listing.rewind();
        }
        if cookie < 2 {
            let listed = self.dots(&directory, &mut listing).await?;
            return Ok(Page::new(listed, cookie as usize));
        }
        if is_view(directory.id) {
            return self.view_page(&directory, cookie).await;
        }
        let mut sought = (cookie >= FIRST).then_some(cookie);
        if sought == Some(END) {
            return Ok(Page::default());
        }
        let position = match sought {
            Some(cookie) => self.position(&directory, &mut listing, cookie).await?,
            None => None,
        };
        // The name was removed so long ago that its position is forgotten: restarting repeats
        // names, but misses none.
        sought = sought.filter(|_| position.is_some());
        let mut segment = position.map_or(0, |position| position.segment);
        while segment < listing.segments() {
            if !sought.is_some_and(|cookie| listing.continues(segment, cookie)) {
                self.drop_changed(&mut listing, segment);
            }
            let listed = self.page(&directory, &mut listing, segment).await?;
            if listed.entries.is_empty() && segment + 1 < listing.segments() {
                listing.join(segment);
                continue;
            }
            let mut from = 0;
            if let Some(position) = sought.and_then(|cookie| listing.find(cookie)) {
                if position.segment != segment {
                    // So many names were added that its page became two.
                    segment = position.segment;
                    continue;
                }
                from = listing.first_behind(position, &listed);
            }
            if from < listed.entries.len() {
                listing.note_returned(segment, from);
                return Ok(Page::new(listed, from));
            }
            sought = None;
            segment += 1;
        }
        listing.note_end();
        Ok(Page::default())
    }

    /// Where a cookie is. One that another open of the directory was given, or an earlier mount, is
    /// looked for in what was listed before, then in all of the directory.
    async fn position(
        &self,
        directory: &OpenDirectory,
        listing: &mut Listing,
        cookie: u64,
    ) -> Result<Option<Position>, FsError> {
        if let Some(position) = listing.find(cookie) {
            return Ok(Some(position));
        }
        if let Some(cookies) = self.closed_cookies.take(directory.id) {
            listing.adopt(cookies);
        }
        let mut segment = 0;
        while segment < listing.segments() {
            if let Some(position) = listing.find(cookie) {
                return Ok(Some(position));
            }
            self.page(directory, listing, segment).await?;
            segment += 1;
        }
        Ok(listing.find(cookie))
    }

    /// Drops a cached page if names may have come or gone since.
    fn drop_changed(&self, listing: &mut Listing, segment: usize) {
        let changed =
            |page: &Arc<ListedPage>| self.metadata.file_overtaken(page.asked, page.directory);
        if listing.cached_page(segment).is_some_and(changed) {
            listing.drop_page(segment);
        }
    }

    async fn view_page(&self, directory: &OpenDirectory, cookie: u64) -> Result<Page, FsError> {
        let (caller, id) = (directory.caller, directory.id);
        let names = self.view_names(caller, id).await?.into_iter().zip(FIRST..);
        let rest = names.filter(|(_, number)| *number > cookie);
        let entries = rest.map(|((name, kind), cookie)| Listed {
            name,
            attr: None,
            id,
            kind,
            exact: true,
            bare: false,
            cookie,
        });
        let listed = ListedPage {
            entries: entries.collect(),
            ..ListedPage::default()
        };
        Ok(Page::new(Arc::new(listed), 0))
    }

    async fn dots(
        &self,
        directory: &OpenDirectory,
        listing: &mut Listing,
    ) -> Result<Arc<ListedPage>, FsError> {
        let parent = match listing.parent() {
            Some(parent) => parent,
            None if is_view(directory.id) => directory.id,
            None => {
                // It comes with the first names, which are asked for next.
                self.page(directory, listing, 0).await?;
                listing.parent().unwrap_or(directory.id)
            }
        };
        listing.set_parent(parent);
        let dot = |name: &'static [u8], id, cookie| Listed {
            name: Bytes::from_static(name),
            attr: None,
            id,
            kind: FileKind::Directory,
            exact: true,
            bare: false,
            cookie,
        };
        Ok(Arc::new(ListedPage {
            entries: vec![dot(b".", directory.id, 1), dot(b"..", parent, 2)],
            ..ListedPage::default()
        }))
    }

    /// A page, from the cache or listed now.
    async fn page(
        &self,
        directory: &OpenDirectory,
        listing: &mut Listing,
        segment: usize,
    ) -> Result<Arc<ListedPage>, FsError> {
        if let Some(listed) = listing.cached_page(segment) {
            return Ok(listed.clone());
        }
        let (after, until) = listing.bounds(segment);
        let from_start = after.is_empty() && until.is_none();
        let kept = from_start.then(|| self.kept_listing(directory)).flatten();
        let (asked, mut found, more, parent) = if let Some(kept) = kept {
            (kept.asked, kept.entries.clone(), false, kept.parent)
        } else {
            let asked = self.metadata.now();
            let place = Place::of(directory.id);
            let (found, more, parent) = self
                .call(|| async {
                    let mut pages = directory.volume.list_after(&place, after.clone());
                    let found = pages.page().await?;
                    Ok((found, pages.has_more(), pages.parent()))
                })
                .await?;
            if from_start && !more {
                self.keep_listing(directory, asked, parent, &found);
            }
            (asked, found, more, parent)
        };
        // The root is its own parent, and so is a removed directory.
        listing.set_parent(if parent == 0 { directory.id } else { parent });
        let count = found.len();
        found.retain(|e| until.as_ref().is_none_or(|last| e.name <= *last));
        // The segment ends where the next one begins, or before.
        let ends = until.is_some_and(|last| {
            let end = found.last().map(|e| &e.name);
            found.len() < count || end == Some(&last)
        });
        let names = found.iter().map(|e| &e.name);
        let cookies = listing.assign(segment, names, more && !ends);
        let entries = found.into_iter().zip(cookies).map(|(e, cookie)| Listed {
            id: e.attributes.id,
            kind: FileKind::try_from(e.attributes.kind).unwrap_or(FileKind::Regular),
            exact: e.attributes.size_exact,
            bare: !e.attributes.xattrs,
            attr: Some(Attr::from(&e.attributes)),
            name: e.name,
            cookie,
        });
        let listed = Arc::new(ListedPage {
            directory: directory.id,
            asked,
            entries: entries.collect(),
        });
        listing.cache_page(segment, listed.clone());
        Ok(listed)
    }

    /// All names of a complete directory, if nothing has changed since they were listed.
    fn kept_listing(&self, directory: &OpenDirectory) -> Option<Arc<WholeListing>> {
        let kept = self.listings.find(directory.caller, directory.id)?;
        let changed = |id| self.metadata.file_overtaken(kept.asked, id);
        let is_true = self.metadata.is_complete(directory.id)
            && !changed(directory.id)
            && !kept.entries.iter().any(|e| changed(e.attributes.id));
        if !is_true {
            self.listings.forget(directory.id);
        }
        is_true.then_some(kept)
    }

    fn keep_listing(
        &self,
        directory: &OpenDirectory,
        asked: AskedAt,
        parent: u64,
        entries: &[weft_client::Listed],
    ) {
        if self.metadata.is_complete(directory.id) {
            let entries = entries.to_vec();
            let whole = WholeListing {
                asked,
                parent,
                entries,
            };
            let (caller, id) = (directory.caller, directory.id);
            self.listings.keep(caller, id, Arc::new(whole));
        }
    }

    /// The entry for a name of a listing that brings attributes along, as if the kernel had looked
    /// the name up.
    pub fn listed_entry(&self, page: &Page, listed: &Listed) -> Option<Entry> {
        let mut attr = listed.attr?;
        self.cover(&mut attr);
        let answer = Answer {
            attr,
            exact: listed.exact,
            bare: listed.bare,
        };
        let name = (page.directory(), &listed.name[..]);
        let mut entry = self.metadata.entry(page.asked(), &answer, name);
        if !listed.exact {
            entry.attr_valid = Duration::ZERO;
        }
        Some(entry)
    }

    /// An open directory is closed.
    pub fn release_directory(&self, handle: u64) {
        if let Ok(directory) = self.directories.get(handle)
            && let Some(mut listing) = directory.idle_listing()
        {
            let cookies = listing.take_cookies();
            self.closed_cookies.keep(directory.id, cookies);
        }
        self.directories.remove(handle);
    }

    /// Makes changes of the directory survive power loss.
    pub async fn sync_directory(&self, handle: u64) -> Result<(), FsError> {
        let directory = self.directories.get(handle)?;
        self.sync_names(&directory.name_losses).await
    }
}
