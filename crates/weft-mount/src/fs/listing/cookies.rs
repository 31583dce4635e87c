//! The cookies of a directory: each marks the position behind one name.
//!
//! A name's *cookie* is a hash of it, so it means the same to every reader: an NFS server opens a
//! directory anew for each answer, and continues at the cookie that a client sends it, also after
//! another mount.
//!
//! Names have the service's order. It is split into *segments*, each about a page of the service's.
//! A segment knows the name behind which it begins, and the cookie of every name that was listed in
//! it. So a seek to a cookie continues exactly behind the name that it was given for: a new listing
//! is merged with the old one, and a removed name keeps its position between those that stayed. A
//! million names take 16 MiB.
//!
//! Two names of a directory have one cookie in one of 10⁶ directories of a million names. A reader
//! that continues there goes on behind the later one: it never goes back.
//!
//! Rejected: the index of a name in its page as its cookie, which changes when names before it come
//! and go; numbers in the order in which names are first listed, which mean something to one reader
//! only; and an order by hashes as the service's order, which other file systems use, but which
//! would have had to be on disk from the start.
//!
//! Invariant: within a segment names are in order, existing and removed ones; segments are in
//! order.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::limits::REMOVED_NAMES_MAX;

/// The lowest cookie of an entry behind `.` and `..`.
pub(super) const FIRST: u64 = 3;

/// No entry's cookie: behind it there is nothing, as on local file systems.
pub(super) const END: u64 = i64::MAX.unsigned_abs();

/// The position of a cookie: its segment, and the number of existing and removed names before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) segment: usize,
    behind: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SeenName {
    cookie: u64,
    /// Names that were first listed later have higher ones.
    number: u64,
}

/// The cookie of a name. The kernel takes 63 bits.
fn cookie_of(name: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&blake3::hash(name).as_bytes()[..8]);
    (u64::from_le_bytes(eight) >> 1).clamp(FIRST, END - 1)
}

#[derive(Debug)]
struct Segment {
    id: u64,
    /// The last name before it.
    after: Bytes,
    seen: Vec<SeenName>,
}

/// The cookies of one directory that were given.
#[derive(Debug)]
pub(super) struct Cookies {
    segments: Vec<Segment>,
    /// The next name's number, and the next segment's id.
    number: u64,
    id: u64,
    /// The segment where a cookie was last found: a reader that continues is there, or in the next.
    last: usize,
}

impl Cookies {
    /// Nothing is listed yet.
    pub(super) fn new() -> Cookies {
        Cookies {
            segments: vec![Segment {
                id: 0,
                after: Bytes::new(),
                seen: Vec::new(),
            }],
            number: 0,
            id: 1,
            last: 0,
        }
    }

    /// How many segments there are.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// A segment's id, which stays when segments before it come and go.
    pub(super) fn id(&self, segment: usize) -> u64 {
        self.segments[segment].id
    }

    /// The names between which a segment's names are; without the second, all that follow.
    pub(super) fn bounds(&self, segment: usize) -> (Bytes, Option<Bytes>) {
        let next = self.segments.get(segment + 1);
        let after = self.segments[segment].after.clone();
        (after, next.map(|next| next.after.clone()))
    }

    /// Names that are remembered, removed ones included.
    pub(super) fn names(&self) -> usize {
        self.segments.iter().map(|segment| segment.seen.len()).sum()
    }

    /// The position of a cookie; `None` if its name was forgotten, or not listed yet.
    pub(super) fn find(&mut self, cookie: u64) -> Option<Position> {
        let from = self.last.min(self.segments.len());
        let mut segments = (from..self.segments.len()).chain(0..from);
        let position = segments.find_map(|segment| {
            let seen = &self.segments[segment].seen;
            let behind = seen.iter().rposition(|seen| seen.cookie == cookie)?;
            Some(Position { segment, behind })
        })?;
        self.last = position.segment;
        Some(position)
    }

    /// A segment has these names, in order; with `more`, further ones become the next segment.
    /// Returns the names' cookies.
    pub(super) fn listed<'a>(
        &mut self,
        segment: usize,
        names: impl Iterator<Item = &'a Bytes>,
        more: bool,
    ) -> Vec<u64> {
        let names: Vec<&Bytes> = names.collect();
        let cookies: Vec<u64> = names.iter().map(|name| cookie_of(name)).collect();
        let old = std::mem::take(&mut self.segments[segment].seen);
        let mut merged = MergedNames::new(&old, &cookies);
        for cookie in &cookies {
            merged.push(*cookie, &mut self.number);
        }
        let (mut seen, rest) = merged.done();
        match names.last().filter(|_| more) {
            Some(last) => {
                let next = Segment {
                    id: self.id,
                    after: (*last).clone(),
                    seen: rest,
                };
                self.id += 1;
                self.segments.insert(segment + 1, next);
            }
            None => seen.extend(rest),
        }
        forget(&mut seen, &cookies);
        self.segments[segment].seen = seen;
        cookies
    }

    /// A segment has no names any more: joins it with the next, whose id is dropped. False if it is
    /// the last.
    pub(super) fn join(&mut self, segment: usize) -> bool {
        if segment + 1 >= self.segments.len() {
            return false;
        }
        let next = self.segments.remove(segment + 1);
        self.segments[segment].seen.extend(next.seen);
        true
    }

    /// The first of the names with these cookies, all of one segment, that is behind a position in
    /// it.
    pub(super) fn behind(&self, position: Position, cookies: impl Iterator<Item = u64>) -> usize {
        let seen = &self.segments[position.segment].seen;
        let at = seen[position.behind].cookie;
        let mut there = HashMap::new();
        let mut count = 0;
        for cookie in cookies {
            if cookie == at {
                return count + 1;
            }
            there.insert(cookie, count);
            count += 1;
        }
        let mut rest = seen[position.behind + 1..].iter();
        rest.find_map(|seen| there.get(&seen.cookie).copied())
            .unwrap_or(count)
    }
}

/// Merges newly listed names with earlier ones.
struct MergedNames<'a> {
    old: &'a [SeenName],
    /// The index in `old` of a name that is listed again.
    positions: HashMap<u64, usize>,
    listed: HashSet<u64>,
    /// All of `old` before here is in `seen`, except names that are listed later.
    at: usize,
    seen: Vec<SeenName>,
}

impl<'a> MergedNames<'a> {
    fn new(old: &'a [SeenName], cookies: &[u64]) -> MergedNames<'a> {
        let listed: HashSet<u64> = cookies.iter().copied().collect();
        let positions = old.iter().enumerate();
        let positions = positions.filter(|(_, seen)| listed.contains(&seen.cookie));
        MergedNames {
            old,
            positions: positions
                .map(|(position, seen)| (seen.cookie, position))
                .collect(),
            listed,
            at: 0,
            seen: Vec::with_capacity(old.len()),
        }
    }

    fn push(&mut self, cookie: u64, next: &mut u64) {
        let number = if let Some(position) = self.positions.get(&cookie) {
            // A removed name before it stays before it.
            while self.at <= *position {
                let seen = self.old[self.at];
                if !self.listed.contains(&seen.cookie) {
                    self.seen.push(seen);
                }
                self.at += 1;
            }
            self.old[*position].number
        } else {
            *next += 1;
            *next - 1
        };
        self.seen.push(SeenName { cookie, number });
    }

    /// The existing and removed names up to the last listed one, and the earlier names behind it.
    fn done(self) -> (Vec<SeenName>, Vec<SeenName>) {
        let rest = self.old[self.at..].iter();
        let rest = rest.filter(|seen| !self.listed.contains(&seen.cookie));
        (self.seen, rest.copied().collect())
    }
}

/// Forgets the oldest removed names beyond the limit.
fn forget(seen: &mut Vec<SeenName>, there: &[u64]) {
    if seen.len() <= there.len() + REMOVED_NAMES_MAX {
        return;
    }
    let there: HashSet<u64> = there.iter().copied().collect();
    let gone = seen.iter().filter(|seen| !there.contains(&seen.cookie));
    let mut gone: Vec<u64> = gone.map(|seen| seen.number).collect();
    gone.sort_unstable();
    let first = gone[gone.len().saturating_sub(REMOVED_NAMES_MAX)..]
        .first()
        .copied();
    seen.retain(|seen| there.contains(&seen.cookie) || Some(seen.number) >= first);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn name(number: u32) -> Bytes {
        format!("{number:06}").into()
    }

    /// Lists a segment of a directory, a page at most: the names and their cookies.
    fn list(
        cookies: &mut Cookies,
        segment: usize,
        directory: &BTreeSet<Bytes>,
        page: usize,
    ) -> Vec<(Bytes, u64)> {
        let (after, until) = cookies.bounds(segment);
        let behind = directory.iter().filter(|name| **name > after);
        let within = behind.filter(|name| until.as_ref().is_none_or(|until| *name <= until));
        let names: Vec<Bytes> = within.cloned().collect();
        let more = names.len() > page;
        let names = &names[..names.len().min(page)];
        let listed = cookies.listed(segment, names.iter(), more);
        names.iter().cloned().zip(listed).collect()
    }

    /// All names after a cookie, or from the start.
    fn rest(
        cookies: &mut Cookies,
        directory: &BTreeSet<Bytes>,
        cookie: Option<u64>,
        page: usize,
    ) -> Vec<(Bytes, u64)> {
        let mut sought = cookie;
        let mut segment = cookie.map_or(0, |c| cookies.find(c).unwrap().segment);
        let mut all = Vec::new();
        while segment < cookies.segments() {
            let names = list(cookies, segment, directory, page);
            if names.is_empty() && cookies.join(segment) {
                continue;
            }
            let mut from = 0;
            if let Some(cookie) = sought {
                let position = cookies.find(cookie).unwrap();
                if position.segment != segment {
                    segment = position.segment;
                    continue;
                }
                from = cookies.behind(position, names.iter().map(|(_, cookie)| *cookie));
                sought = None;
            }
            all.extend(names.into_iter().skip(from));
            segment += 1;
        }
        all
    }

    #[test]
    fn a_cookie_keeps_its_position_while_names_come_and_go() {
        let mut random = SmallRng::seed_from_u64(5);
        for _ in 0..60 {
            let page = random.random_range(1..20);
            let mut directory: BTreeSet<Bytes> = (0..100).map(|n| name(n * 10)).collect();
            let mut cookies = Cookies::new();
            let mut first = rest(&mut cookies, &directory, None, page);
            assert_eq!(first.len(), 100);
            let stays: BTreeSet<Bytes> = first
                .iter()
                .map(|(name, _)| name.clone())
                .filter(|_| random.random_bool(0.5))
                .collect();
            for _ in 0..20 {
                for _ in 0..random.random_range(0..40) {
                    let name = name(random.random_range(0..1000));
                    if !stays.contains(&name) && !directory.remove(&name) {
                        directory.insert(name);
                    }
                }
                let (sought, cookie) = first[random.random_range(0..first.len())].clone();
                let seen = rest(&mut cookies, &directory, Some(cookie), page);
                let names: Vec<&Bytes> = seen.iter().map(|(name, _)| name).collect();
                let stayed: Vec<&Bytes> = names
                    .iter()
                    .copied()
                    .filter(|n| stays.contains(*n))
                    .collect();
                let expected: Vec<&Bytes> = stays.iter().filter(|n| **n > sought).collect();
                assert_eq!(stayed, expected, "after {sought:?}");
                assert!(names.iter().all(|name| directory.contains(*name)));
                assert!(names.is_sorted() && names.windows(2).all(|two| two[0] != two[1]));
                if random.random_bool(0.3) {
                    // A listing from the start keeps earlier cookies valid.
                    let again = rest(&mut cookies, &directory, None, page);
                    assert!(again.iter().map(|(name, _)| name).eq(&directory));
                    first.extend(again);
                }
            }
        }
    }

    #[test]
    fn the_number_of_removed_names_is_bounded() {
        let mut cookies = Cookies::new();
        let (mut first, mut last) = (0, 0);
        for round in 0..20 {
            let names: Vec<Bytes> = (0..1000).map(|n| name(round * 1000 + n)).collect();
            last = cookies.listed(0, names.iter(), false)[0];
            first = if round == 0 { last } else { first };
        }
        assert!(cookies.segments[0].seen.len() <= 1000 + REMOVED_NAMES_MAX);
        assert!(cookies.find(last).is_some(), "the newest are kept");
        assert!(cookies.find(first).is_none());
    }
}
