//! Open directories: a listing that goes on where it was, however often it is asked, in bounded
//! memory.
//!
//! Each entry has a number, its *cookie*: `.` is 1, `..` is 2, that of any other stays the entry's
//! as long as the directory is open (`places`). An open directory keeps the last few pages whole.
//! Who reads on within one of them is given what it was, and meets each entry exactly once. Who
//! seeks, or comes to a page anew, is given what is there now, behind the name that it had reached.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::Mutex;
use weft_client::{FileKind, Place, Volume};

use super::belief::Answer;
use super::news::{Asked, Subject};
use super::places::Places;
use super::views::is_view;
use super::{Attr, Caller, Entry, FileSystem, FsError};
use crate::limits::LISTING_PAGES_MAX;

/// The cookie of the first entry behind `.` and `..`.
const FIRST: u64 = 3;
/// One name of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name.
    pub name: Bytes,
    /// What it names, as the service knows it; `None` for `.` and `..`.
    pub attr: Option<Attr>,
    /// The id of what it names.
    pub id: u64,
    /// The kind of what it names.
    pub kind: FileKind,
    /// Whether the size is certain: the kernel must ask where it is not.
    pub exact: bool,
    /// It has no extended attributes.
    pub bare: bool,
    /// The number of this entry; a listing goes on behind it.
    pub cookie: u64,
}

/// Entries that follow each other.
#[derive(Clone, Debug, Default)]
pub struct Page {
    leaf: Arc<Leaf>,
    from: usize,
}

/// A page of the service, or the names that every directory has.
#[derive(Clone, Debug, Default)]
struct Leaf {
    directory: u64,
    asked: Asked,
    entries: Vec<Listed>,
}

impl Page {
    /// The entries, in order.
    pub fn entries(&self) -> &[Listed] {
        &self.leaf.entries[self.from..]
    }
}

/// A directory that is open.
pub(super) struct OpenDirectory {
    id: u64,
    caller: Caller,
    volume: Volume,
    /// Listing it does not count as an access.
    quiet: bool,
    listing: Mutex<Listing>,
    /// Losses of names that it was told of.
    told: AtomicU64,
}

/// What is known of the pages so far.
struct Listing {
    parent: Option<u64>,
    places: Places,
    /// By the ids of their stretches.
    kept: VecDeque<(u64, Arc<Leaf>)>,
    /// What was given out last: of which stretch, and from which entry on.
    last: Option<(u64, usize)>,
}

impl Listing {
    fn new() -> Listing {
        Listing {
            parent: None,
            places: Places::new(FIRST),
            kept: VecDeque::new(),
            last: None,
        }
    }

    /// From its start it is what is there now. Cookies stay good: a seek to the start is no other
    /// call.
    fn rewind(&mut self) {
        self.parent = None;
        self.kept.clear();
        self.last = None;
    }

    fn kept(&self, stretch: usize) -> Option<&Arc<Leaf>> {
        let id = self.places.id(stretch);
        let kept = self.kept.iter().find(|(of, _)| *of == id);
        kept.map(|(_, leaf)| leaf)
    }

    fn drop_kept(&mut self, stretch: usize) {
        let id = self.places.id(stretch);
        self.kept.retain(|(of, _)| *of != id);
    }

    fn keep(&mut self, stretch: usize, leaf: Arc<Leaf>) {
        self.drop_kept(stretch);
        if self.kept.len() == LISTING_PAGES_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back((self.places.id(stretch), leaf));
    }

    /// Whether a reader that goes on behind a cookie was given what is behind it by the page as it
    /// is kept.
    fn goes_on(&self, stretch: usize, cookie: u64) -> bool {
        let Some(leaf) = self.kept(stretch) else {
            return false;
        };
        let at = leaf.entries.iter().position(|e| e.cookie == cookie);
        let of = self.places.id(stretch);
        self.last
            .zip(at)
            .is_some_and(|((last, from), at)| last == of && at >= from)
    }
}

impl FileSystem {
    /// Opens a directory.
    ///
    /// `flags` as of open(2).
    pub fn open_directory(&self, caller: Caller, id: u64, flags: i32) -> u64 {
        let volume = self.on(caller);
        self.directories.insert(Arc::new(OpenDirectory {
            id,
            caller,
            volume,
            quiet: flags & libc::O_NOATIME != 0,
            listing: Mutex::new(Listing::new()),
            told: AtomicU64::new(self.volume.name_losses()),
        }))
    }

    /// The entries behind a cookie; 0 starts anew. Empty at the end. A directory that was removed
    /// has none, not even `.`: ENOENT, as on local file systems.
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
        let mut listing = directory.listing.lock().await;
        if cookie == 0 {
            listing.rewind();
        }
        if cookie < 2 {
            let leaf = self.dots(&directory, &mut listing).await?;
            let from = cookie as usize;
            return Ok(Page { leaf, from });
        }
        if is_view(directory.id) {
            return self.view_page(&directory, cookie).await;
        }
        let mut sought = (cookie >= FIRST).then_some(cookie);
        if sought.is_some_and(|cookie| !listing.places.was_given(cookie)) {
            return Ok(Page::default());
        }
        let place = sought.and_then(|cookie| listing.places.find(cookie));
        // A name that has gone so long ago that its place is forgotten: from the start rather than
        // miss one.
        sought = sought.filter(|_| place.is_some());
        let mut stretch = place.map_or(0, |place| place.stretch);
        while stretch < listing.places.stretches() {
            if !sought.is_some_and(|cookie| listing.goes_on(stretch, cookie)) {
                self.drop_changed(&mut listing, stretch);
            }
            let leaf = self.page(&directory, &mut listing, stretch).await?;
            if leaf.entries.is_empty() && stretch + 1 < listing.places.stretches() {
                listing.drop_kept(stretch);
                listing.drop_kept(stretch + 1);
                listing.places.join(stretch);
                continue;
            }
            let mut from = 0;
            if let Some(place) = sought.and_then(|cookie| listing.places.find(cookie)) {
                if place.stretch != stretch {
                    // So many names have come that its page became two.
                    stretch = place.stretch;
                    continue;
                }
                let cookies = leaf.entries.iter().map(|e| e.cookie);
                from = listing.places.behind(place, cookies);
            }
            if from < leaf.entries.len() {
                listing.last = Some((listing.places.id(stretch), from));
                return Ok(Page { leaf, from });
            }
            sought = None;
            stretch += 1;
        }
        // Who goes on behind an earlier name from here seeks.
        listing.last = None;
        Ok(Page::default())
    }

    /// A page that is kept is listed again where names may have come or gone since.
    fn drop_changed(&self, listing: &mut Listing, stretch: usize) {
        let changed = |leaf: &Arc<Leaf>| {
            let subject = Subject::File(leaf.directory);
            self.news.since(leaf.asked, subject)
        };
        if listing.kept(stretch).is_some_and(changed) {
            listing.drop_kept(stretch);
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
        let leaf = Leaf {
            entries: entries.collect(),
            ..Leaf::default()
        };
        Ok(Page {
            leaf: Arc::new(leaf),
            from: 0,
        })
    }

    async fn dots(
        &self,
        directory: &OpenDirectory,
        listing: &mut Listing,
    ) -> Result<Arc<Leaf>, FsError> {
        let parent = match listing.parent {
            Some(parent) => parent,
            None if is_view(directory.id) => directory.id,
            None => {
                let place = Place::of(directory.id);
                let attributes = self
                    .call(|| directory.volume.known_attributes(&place))
                    .await?;
                // The root is its own parent, and so is what was removed.
                if attributes.parent == 0 {
                    directory.id
                } else {
                    attributes.parent
                }
            }
        };
        listing.parent = Some(parent);
        let dot = |name: &'static [u8], id, cookie| Listed {
            name: Bytes::from_static(name),
            attr: None,
            id,
            kind: FileKind::Directory,
            exact: true,
            bare: false,
            cookie,
        };
        Ok(Arc::new(Leaf {
            entries: vec![dot(b".", directory.id, 1), dot(b"..", parent, 2)],
            ..Leaf::default()
        }))
    }

    /// A page, kept or listed (again).
    async fn page(
        &self,
        directory: &OpenDirectory,
        listing: &mut Listing,
        stretch: usize,
    ) -> Result<Arc<Leaf>, FsError> {
        if let Some(leaf) = listing.kept(stretch) {
            return Ok(leaf.clone());
        }
        let asked = self.news.now();
        let (after, until) = listing.places.bounds(stretch);
        let place = Place::of(directory.id);
        let (mut found, more) = self
            .call(|| async {
                let mut pages = directory.volume.list_after(&place, after.clone());
                let found = pages.page().await?;
                Ok((found, pages.has_more()))
            })
            .await?;
        let listed = found.len();
        found.retain(|e| until.as_ref().is_none_or(|last| e.name <= *last));
        // It ends where the next one begins, if it does not end before.
        let ends = until.is_some_and(|last| {
            let end = found.last().map(|e| &e.name);
            found.len() < listed || end == Some(&last)
        });
        let names = found.iter().map(|e| &e.name);
        let cookies = listing.places.listed(stretch, names, more && !ends);
        let entries = found.into_iter().zip(cookies).map(|(e, cookie)| Listed {
            id: e.attributes.id,
            kind: FileKind::try_from(e.attributes.kind).unwrap_or(FileKind::Regular),
            exact: e.attributes.size_exact,
            bare: !e.attributes.xattrs,
            attr: Some(Attr::from(&e.attributes)),
            name: e.name,
            cookie,
        });
        let leaf = Arc::new(Leaf {
            directory: directory.id,
            asked,
            entries: entries.collect(),
        });
        listing.keep(stretch, leaf.clone());
        Ok(leaf)
    }

    /// What the kernel is told of an entry that a listing brings along, as if it had looked the
    /// name up.
    pub fn listed(&self, page: &Page, listed: &Listed) -> Option<Entry> {
        let mut attr = listed.attr?;
        self.cover(&mut attr);
        let answer = Answer {
            attr,
            exact: listed.exact,
            bare: listed.bare,
        };
        let Leaf {
            directory, asked, ..
        } = *page.leaf;
        let mut entry = self.entry(asked, &answer, (directory, &listed.name));
        if !listed.exact {
            entry.attr_valid = std::time::Duration::ZERO;
        }
        Some(entry)
    }

    /// A directory is no longer open.
    pub fn release_directory(&self, handle: u64) {
        self.directories.remove(handle);
    }

    /// What was done to the directory survives power loss when it returns.
    pub async fn sync_directory(&self, handle: u64) -> Result<(), FsError> {
        let directory = self.directories.get(handle)?;
        self.sync_names(&directory.told).await
    }

    /// Makes every change of the namespace that this mount has made so far survive power loss. No
    /// request, if it does. A descriptor hears once that some were lost; `told` counts what it
    /// heard.
    pub(super) async fn sync_names(&self, told: &AtomicU64) -> Result<(), FsError> {
        let changes = self.changes.load(Ordering::Acquire);
        let stable = self.options.durable || self.synced.load(Ordering::Acquire) >= changes;
        let synced = if stable {
            Ok(())
        } else {
            self.call(|| self.volume.sync_namespace()).await
        };
        self.volume.name_loss_since(told)?;
        synced?;
        self.synced.fetch_max(changes, Ordering::AcqRel);
        self.tell_refusals()
    }
}
