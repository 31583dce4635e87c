//! Open directories: a listing that goes on where it was, however often it is asked, in bounded memory.
//!
//! Each entry has a number, its *cookie*: `.` is 1, `..` is 2, that of any other is its place in its page of the service's.
//! An open directory remembers for every page the name before it (some bytes for a thousand entries), and keeps the
//! last few pages whole. Who reads on, or seeks back within those, meets each entry exactly once. A page that was
//! dropped is listed again; if names in it came or went meanwhile, who goes on within what it was is given it from its start: an
//! entry may then be seen twice, none is missed. Cookies of what it is now differ from those of what it was, so nobody is sent
//! back twice.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustix::io::Errno;
use tokio::sync::Mutex;
use weft_client::{FileKind, Place, Volume};

use super::belief::Answer;
use super::news::Asked;
use super::views::is_view;
use super::{Attr, Caller, Entry, FileSystem, FsError};

/// Pages kept whole.
const PAGES_KEPT: usize = 16;
/// The cookie of the first entry behind `.` and `..`.
const FIRST: u64 = 3;
/// A cookie behind `..` counts from here on: the page, how often the page has changed, and the place behind the entry in it.
const PAGE_SHIFT: u32 = 32;
const CHANGES_SHIFT: u32 = 24;

/// Where a listing goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    page: usize,
    changes: u8,
    index: usize,
}

impl Spot {
    /// From a cookie of `..` or of what follows it.
    fn behind(cookie: u64) -> Spot {
        let spot = cookie.saturating_sub(FIRST - 1);
        Spot {
            page: (spot >> PAGE_SHIFT) as usize,
            changes: (spot >> CHANGES_SHIFT) as u8,
            index: (spot & ((1 << CHANGES_SHIFT) - 1)) as usize,
        }
    }

    fn cookie(self) -> u64 {
        let page = (self.page as u64) << PAGE_SHIFT;
        let changes = u64::from(self.changes) << CHANGES_SHIFT;
        FIRST - 1 + (page | changes | self.index as u64)
    }
}

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
    listing: Mutex<Listing>,
    /// Losses of names that it was told of.
    told: AtomicU64,
}

/// What is known of the pages so far.
#[derive(Default)]
struct Listing {
    parent: Option<u64>,
    starts: Vec<Start>,
    kept: VecDeque<(usize, Arc<Leaf>)>,
}

/// Where a page begins.
#[derive(Clone)]
struct Start {
    /// The last name before it.
    after: Bytes,
    /// Which names it had, as a hash; not known before it was read.
    names: Option<u64>,
    /// How often it had others when it was listed again.
    changes: u8,
}

impl Start {
    fn after(name: Bytes) -> Start {
        Start {
            after: name,
            names: None,
            changes: 0,
        }
    }

    /// It was listed, and has these names.
    fn listed<'a>(&mut self, names: impl Iterator<Item = &'a Bytes>) {
        let mut hasher = DefaultHasher::new();
        names.for_each(|name| name.hash(&mut hasher));
        let names = hasher.finish();
        if self.names.is_some_and(|before| before != names) {
            self.changes = self.changes.wrapping_add(1);
        }
        self.names = Some(names);
    }
}

impl Listing {
    fn rewind(&mut self) {
        *self = Listing {
            parent: None,
            starts: vec![Start::after(Bytes::new())],
            kept: VecDeque::new(),
        };
    }
}

impl FileSystem {
    /// Opens a directory.
    pub fn open_directory(&self, caller: Caller, id: u64) -> u64 {
        let volume = self.on(caller);
        let mut listing = Listing::default();
        listing.rewind();
        self.directories.insert(Arc::new(OpenDirectory {
            id,
            caller,
            volume,
            listing: Mutex::new(listing),
            told: AtomicU64::new(self.volume.name_losses()),
        }))
    }

    /// The entries behind a cookie; 0 starts anew. Empty at the end. A directory that was removed has none, not even `.`: ENOENT,
    /// as on local file systems.
    pub async fn list(&self, handle: u64, cookie: u64) -> Result<Page, FsError> {
        let listed = self.list_open(handle, cookie).await;
        listed.map_err(|error| {
            if error.is_gone() {
                FsError::wrong("the directory was removed", Errno::NOENT)
            } else {
                error
            }
        })
    }

    async fn list_open(&self, handle: u64, cookie: u64) -> Result<Page, FsError> {
        let directory = self.directories.get(handle)?;
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
        let spot = Spot::behind(cookie);
        // Beyond the last are only those of an earlier listing.
        let mut page = spot.page.min(listing.starts.len() - 1);
        let mut from = if page == spot.page { spot.index } else { 0 };
        loop {
            let leaf = self.page(&directory, &mut listing, page).await?;
            if page == spot.page && listing.starts[page].changes != spot.changes {
                // Names came or went: from the start rather than miss one.
                from = 0;
            }
            if from < leaf.entries.len() {
                return Ok(Page { leaf, from });
            }
            from = 0;
            page += 1;
            if page == listing.starts.len() {
                return Ok(Page::default());
            }
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
        page: usize,
    ) -> Result<Arc<Leaf>, FsError> {
        if let Some((_, leaf)) = listing.kept.iter().find(|(number, _)| *number == page) {
            return Ok(leaf.clone());
        }
        let asked = self.news.now();
        let after = listing.starts[page].after.clone();
        // A page that was listed before ends where the next one begins, whatever came in between since.
        let until = listing.starts.get(page + 1).map(|next| next.after.clone());
        let place = Place::of(directory.id);
        let (found, more) = self
            .call(|| async {
                let mut pages = directory.volume.list_after(&place, after.clone());
                let mut found = pages.page().await?;
                // Of a page that grew, all.
                while let (Some(until), Some(last)) = (&until, found.last())
                    && last.name < *until
                    && pages.has_more()
                {
                    found.extend(pages.page().await?);
                }
                Ok((found, pages.has_more()))
            })
            .await?;
        let found = found
            .into_iter()
            .take_while(|e| until.as_ref().is_none_or(|last| e.name <= *last));
        let found: Vec<_> = found.collect();
        let start = &mut listing.starts[page];
        start.listed(found.iter().map(|e| &e.name));
        let changes = start.changes;
        let behind = |index| Spot {
            page,
            changes,
            index,
        };
        let entries: Vec<Listed> = found
            .into_iter()
            .zip(1..)
            .map(|(e, place)| Listed {
                id: e.attributes.id,
                kind: FileKind::try_from(e.attributes.kind).unwrap_or(FileKind::Regular),
                exact: e.attributes.size_exact,
                bare: !e.attributes.xattrs,
                attr: Some(Attr::from(&e.attributes)),
                name: e.name,
                cookie: behind(place).cookie(),
            })
            .collect();
        if until.is_none()
            && more
            && let Some(last) = entries.last()
        {
            listing.starts.push(Start::after(last.name.clone()));
        }
        let leaf = Arc::new(Leaf {
            directory: directory.id,
            asked,
            entries,
        });
        if listing.kept.len() == PAGES_KEPT {
            listing.kept.pop_front();
        }
        listing.kept.push_back((page, leaf.clone()));
        Ok(leaf)
    }

    /// What the kernel is told of an entry that a listing brings along, as if it had looked the name up.
    pub fn listed(&self, page: &Page, listed: &Listed) -> Option<Entry> {
        let mut attr = listed.attr?;
        self.files.cover(&mut attr);
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

    /// Makes every change of the namespace that this mount has made so far survive power loss. No request, if it does. A
    /// descriptor hears once that some were lost; `told` counts what it heard.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_where_its_listing_goes_on() {
        assert_eq!(Spot::behind(2), Spot::behind(0), "behind `..`");
        let first = Spot {
            page: 0,
            changes: 0,
            index: 1,
        };
        assert_eq!(first.cookie(), FIRST);
        for spot in [
            first,
            Spot {
                page: 0,
                changes: 255,
                index: 1000,
            },
            Spot {
                page: (1 << 31) - 1,
                changes: 7,
                index: (1 << CHANGES_SHIFT) - 1,
            },
        ] {
            assert_eq!(Spot::behind(spot.cookie()), spot);
            assert!(spot.cookie().cast_signed() > 0, "it is an offset of a file");
        }
    }

    #[test]
    fn a_page_has_changed_when_other_names_are_in_it_though_they_are_as_many() {
        let mut page = Start::after(Bytes::new());
        let names = |names: [&'static str; 2]| names.map(|n| Bytes::from_static(n.as_bytes()));
        for (listed, changes) in [
            (["a", "b"], 0),
            (["a", "b"], 0),
            (["b", "c"], 1),
            (["b", "c"], 1),
            (["a", "b"], 2),
        ] {
            page.listed(names(listed).iter());
            assert_eq!(page.changes, changes);
        }
    }
}
