//! An open directory: the entries that were listed, and the pages that are kept whole.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};
use weft_client::{FileKind, Volume};

use super::cookies::{Cookies, Position};
use crate::fs::caller::Caller;
use crate::fs::metadata::{AskedAt, Attr};
use crate::limits::LISTING_PAGES_MAX;

/// One name of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name.
    pub name: Bytes,
    /// The service's attributes of its node; `None` for `.` and `..`.
    pub attr: Option<Attr>,
    /// The node's id.
    pub id: u64,
    /// The node's kind.
    pub kind: FileKind,
    /// Whether the size is certain: if not, the kernel must ask.
    pub exact: bool,
    /// It has no extended attributes.
    pub bare: bool,
    /// The cookie of this entry; a listing continues behind it.
    pub cookie: u64,
}

/// Consecutive entries.
#[derive(Clone, Debug, Default)]
pub struct Page {
    listed: Arc<ListedPage>,
    from: usize,
}

/// A page of the service, or the names that every directory has.
#[derive(Clone, Debug, Default)]
pub(super) struct ListedPage {
    pub(super) directory: u64,
    pub(super) asked: AskedAt,
    pub(super) entries: Vec<Listed>,
}

impl Page {
    /// A page's entries from this index on.
    pub(super) fn new(listed: Arc<ListedPage>, from: usize) -> Page {
        Page { listed, from }
    }

    pub(super) fn directory(&self) -> u64 {
        self.listed.directory
    }

    pub(super) fn asked(&self) -> AskedAt {
        self.listed.asked
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Listed] {
        &self.listed.entries[self.from..]
    }
}

/// An open directory.
pub(in crate::fs) struct OpenDirectory {
    pub(super) id: u64,
    pub(super) caller: Caller,
    pub(super) volume: Volume,
    /// Listing it does not count as an access.
    pub(super) quiet: bool,
    listing: Mutex<Listing>,
    /// Losses of names that were reported to it.
    pub(super) name_losses: AtomicU64,
}

impl OpenDirectory {
    pub(super) fn new(
        id: u64,
        caller: Caller,
        volume: Volume,
        quiet: bool,
        name_losses: u64,
    ) -> OpenDirectory {
        OpenDirectory {
            id,
            caller,
            volume,
            quiet,
            listing: Mutex::new(Listing::new()),
            name_losses: AtomicU64::new(name_losses),
        }
    }

    /// The listing, if no reader is at it.
    pub(super) fn idle_listing(&self) -> Option<MutexGuard<'_, Listing>> {
        self.listing.try_lock().ok()
    }

    /// The listing; readers of one directory run one after another.
    pub(super) async fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().await
    }
}

/// The listing so far.
pub(super) struct Listing {
    parent: Option<u64>,
    cookies: Cookies,
    /// Whole pages, by the ids of their segments.
    pages: VecDeque<(u64, Arc<ListedPage>)>,
    /// The segment that was last returned, and from which entry on.
    last: Option<(u64, usize)>,
}

impl Listing {
    fn new() -> Listing {
        Listing {
            parent: None,
            cookies: Cookies::new(),
            pages: VecDeque::new(),
            last: None,
        }
    }

    /// Restarts with the current entries. Cookies stay valid: a seek to the start is the same call.
    pub(super) fn rewind(&mut self) {
        self.parent = None;
        self.pages.clear();
        self.last = None;
    }

    pub(super) fn cached_page(&self, segment: usize) -> Option<&Arc<ListedPage>> {
        let id = self.cookies.id(segment);
        let page = self.pages.iter().find(|(of, _)| *of == id);
        page.map(|(_, listed)| listed)
    }

    pub(super) fn drop_page(&mut self, segment: usize) {
        let id = self.cookies.id(segment);
        self.pages.retain(|(of, _)| *of != id);
    }

    pub(super) fn cache_page(&mut self, segment: usize, listed: Arc<ListedPage>) {
        self.drop_page(segment);
        if self.pages.len() == LISTING_PAGES_MAX {
            self.pages.pop_front();
        }
        self.pages.push_back((self.cookies.id(segment), listed));
    }

    /// The directory's parent, once it is known.
    pub(super) fn parent(&self) -> Option<u64> {
        self.parent
    }

    pub(super) fn set_parent(&mut self, parent: u64) {
        self.parent = Some(parent);
    }

    /// The number of segments.
    pub(super) fn segments(&self) -> usize {
        self.cookies.segments()
    }

    /// Takes over the cookies that another open of the directory was given, if nothing was listed
    /// here yet.
    pub(super) fn adopt(&mut self, cookies: Cookies) {
        if self.cookies.names() == 0 {
            self.cookies = cookies;
        }
    }

    /// Gives the cookies away at the end.
    pub(super) fn take_cookies(&mut self) -> Cookies {
        self.rewind();
        std::mem::replace(&mut self.cookies, Cookies::new())
    }

    /// The position of a cookie, if its name is remembered.
    pub(super) fn find(&mut self, cookie: u64) -> Option<Position> {
        self.cookies.find(cookie)
    }

    /// The names between which a segment's names are.
    pub(super) fn bounds(&self, segment: usize) -> (Bytes, Option<Bytes>) {
        self.cookies.bounds(segment)
    }

    /// A segment has these names, in order; with `more`, further ones follow. Returns their
    /// cookies.
    pub(super) fn assign<'a>(
        &mut self,
        segment: usize,
        names: impl Iterator<Item = &'a Bytes>,
        more: bool,
    ) -> Vec<u64> {
        self.cookies.listed(segment, names, more)
    }

    /// The index of the first entry of a page that is behind a position in its segment.
    pub(super) fn first_behind(&self, position: Position, page: &ListedPage) -> usize {
        let cookies = page.entries.iter().map(|e| e.cookie);
        self.cookies.behind(position, cookies)
    }

    /// Joins an empty segment with the next.
    pub(super) fn join(&mut self, segment: usize) {
        self.drop_page(segment);
        self.drop_page(segment + 1);
        self.cookies.join(segment);
    }

    /// A segment is returned from this entry on.
    pub(super) fn note_returned(&mut self, segment: usize, from: usize) {
        self.last = Some((self.cookies.id(segment), from));
    }

    /// The end is returned: a reader that continues behind an earlier name seeks.
    pub(super) fn note_end(&mut self) {
        self.last = None;
    }

    /// Whether the cached page has already given a reader the entries behind a cookie.
    pub(super) fn continues(&self, segment: usize, cookie: u64) -> bool {
        let Some(listed) = self.cached_page(segment) else {
            return false;
        };
        let at = listed.entries.iter().position(|e| e.cookie == cookie);
        let of = self.cookies.id(segment);
        self.last
            .zip(at)
            .is_some_and(|((last, from), at)| last == of && at >= from)
    }
}
