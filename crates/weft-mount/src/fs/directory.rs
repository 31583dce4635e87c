//! Open directories: a listing that goes on where it was, however often it is asked, in bounded memory.
//!
//! Each entry has a number, its *cookie*: `.` is 1, `..` is 2, the others follow in the order of the service's pages.
//! An open directory remembers for every page the name before it (some bytes for a thousand entries), and keeps the
//! last few pages whole. Who reads on, or seeks back within those, meets each entry exactly once. A page that was
//! dropped is listed again; if names in it came or went meanwhile, it is given from its start: an entry may then be
//! seen twice, none is missed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
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
}

/// What is known of the pages so far.
#[derive(Default)]
struct Listing {
    parent: Option<u64>,
    starts: Vec<Start>,
    kept: VecDeque<(usize, Arc<Leaf>)>,
    /// The last page was seen.
    ended: bool,
}

/// Where a page begins.
#[derive(Clone)]
struct Start {
    /// The cookie of its first entry.
    cookie: u64,
    /// The last name before it.
    after: Bytes,
    /// How many entries it had; not known before it was read.
    count: Option<usize>,
}

impl Listing {
    fn rewind(&mut self) {
        *self = Listing {
            parent: None,
            starts: vec![Start {
                cookie: FIRST,
                after: Bytes::new(),
                count: None,
            }],
            kept: VecDeque::new(),
            ended: false,
        };
    }

    /// The page that holds what follows a cookie: the last that begins at or before the entry after it.
    fn page_behind(&self, cookie: u64) -> usize {
        let next = cookie + 1;
        self.starts
            .partition_point(|s| s.cookie <= next)
            .saturating_sub(1)
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
        }))
    }

    /// The entries behind a cookie; 0 starts anew. Empty at the end.
    pub async fn list(&self, handle: u64, cookie: u64) -> Result<Page, FsError> {
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
        let mut page = listing.page_behind(cookie);
        loop {
            let start = listing.starts[page].clone();
            let leaf = self.page(&directory, &mut listing, page).await?;
            let from = match start.count {
                // Names came or went: from the start rather than miss one.
                Some(count) if count != leaf.entries.len() => 0,
                _ => (cookie + 1).saturating_sub(start.cookie) as usize,
            };
            if from < leaf.entries.len() {
                return Ok(Page { leaf, from });
            }
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
        let start = listing.starts[page].clone();
        // A page that was listed before ends where the next one begins, whatever came in between since.
        let until = listing.starts.get(page + 1).map(|next| next.after.clone());
        let place = Place::of(directory.id);
        let (found, more) = self
            .call(|| async {
                let mut pages = directory.volume.list_after(&place, start.after.clone());
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
        let entries: Vec<Listed> = found
            .zip(start.cookie..)
            .map(|(e, cookie)| Listed {
                id: e.attributes.id,
                kind: FileKind::try_from(e.attributes.kind).unwrap_or(FileKind::Regular),
                exact: e.attributes.size_exact,
                bare: !e.attributes.xattrs,
                attr: Some(Attr::from(&e.attributes)),
                name: e.name,
                cookie,
            })
            .collect();
        if until.is_none() {
            listing.starts[page].count = Some(entries.len());
            if more && let Some(last) = entries.last() {
                let (cookie, after) = (last.cookie + 1, last.name.clone());
                listing.starts.push(Start {
                    cookie,
                    after,
                    count: None,
                });
            } else {
                listing.ended = true;
            }
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
        self.directories.get(handle)?;
        self.sync_names().await
    }

    /// Makes every change of the namespace that this mount has made so far survive power loss. No request, if it does.
    pub(super) async fn sync_names(&self) -> Result<(), FsError> {
        let changes = self.changes.load(Ordering::Acquire);
        if self.options.durable || self.synced.load(Ordering::Acquire) >= changes {
            return self.tell_refusals();
        }
        self.call(|| self.volume.sync_namespace()).await?;
        self.synced.fetch_max(changes, Ordering::AcqRel);
        self.tell_refusals()
    }
}
