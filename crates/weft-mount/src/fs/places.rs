//! What the cookies of an open directory mean: each is the place behind one name, for as long as
//! the directory is open.
//!
//! Names have an order, the service's, and a name gets a number, its *cookie*, when it is listed
//! first. The order is cut into *stretches*, each about a page of the service's; a stretch knows
//! the name behind which it begins, and of every name that was listed in it the number and a hash.
//! So who seeks to a cookie goes on exactly behind the name that it was given for: what is listed
//! again is laid beside what was, and a name that has gone keeps its place between those that
//! stayed. A million names take 16 MiB.
//!
//! Rejected: the place of a name in its page as its cookie, which means another place when names
//! before it come and go; and an order by hashes as the service's own, which other file systems
//! use, but which would have had to be on the disk from the start.
//!
//! Invariants:
//! 1. No number is given to two names. A name that goes and comes back may get its number again.
//! 2. Within a stretch names are in order, those that are there and those that were; stretches are
//!    in order.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::limits::REMOVED_NAMES_MAX;
use bytes::Bytes;

/// Where a cookie is: in which stretch, behind how many names that are or were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stretch: usize,
    behind: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    hash: u64,
    cookie: u64,
}

#[derive(Debug)]
struct Stretch {
    id: u64,
    /// The last name before it.
    after: Bytes,
    seen: Vec<Seen>,
}

/// The places of one open directory.
#[derive(Debug)]
pub(super) struct Places {
    hasher: RandomState,
    stretches: Vec<Stretch>,
    /// The next cookie, and the next stretch's id.
    cookie: u64,
    id: u64,
    /// Where a cookie was found last: who reads on is there, or in the next.
    last: usize,
}

impl Places {
    /// Nothing was listed; the first name will get this cookie.
    pub(super) fn new(first: u64) -> Places {
        Places {
            hasher: RandomState::new(),
            stretches: vec![Stretch {
                id: 0,
                after: Bytes::new(),
                seen: Vec::new(),
            }],
            cookie: first,
            id: 1,
            last: 0,
        }
    }

    /// How many stretches there are.
    pub(super) fn stretches(&self) -> usize {
        self.stretches.len()
    }

    /// What stays a stretch's when others come and go before it.
    pub(super) fn id(&self, stretch: usize) -> u64 {
        self.stretches[stretch].id
    }

    /// The names of a stretch are behind the first of these, up to the second; without it, all that
    /// follow.
    pub(super) fn bounds(&self, stretch: usize) -> (Bytes, Option<Bytes>) {
        let next = self.stretches.get(stretch + 1);
        let after = self.stretches[stretch].after.clone();
        (after, next.map(|next| next.after.clone()))
    }

    /// Where a cookie is; nothing if its name was forgotten, or it is no name's.
    pub(super) fn find(&mut self, cookie: u64) -> Option<Place> {
        let from = self.last.min(self.stretches.len());
        let mut stretches = (from..self.stretches.len()).chain(0..from);
        let place = stretches.find_map(|stretch| {
            let seen = &self.stretches[stretch].seen;
            let behind = seen.iter().position(|seen| seen.cookie == cookie)?;
            Some(Place { stretch, behind })
        })?;
        self.last = place.stretch;
        Some(place)
    }

    /// Whether a cookie was ever given to a name.
    pub(super) fn was_given(&self, cookie: u64) -> bool {
        cookie < self.cookie
    }

    /// A stretch has these names, in order, and with `more` further ones: those become a stretch of
    /// their own. Returns their cookies.
    pub(super) fn listed<'a>(
        &mut self,
        stretch: usize,
        names: impl Iterator<Item = &'a Bytes>,
        more: bool,
    ) -> Vec<u64> {
        let names: Vec<&Bytes> = names.collect();
        let hashes: Vec<u64> = names.iter().map(|n| self.hasher.hash_one(n)).collect();
        let old = std::mem::take(&mut self.stretches[stretch].seen);
        let mut merged = Merged::new(&old, &hashes);
        for hash in &hashes {
            merged.push(*hash, &mut self.cookie);
        }
        let (mut seen, cookies, rest) = merged.done();
        match names.last().filter(|_| more) {
            Some(last) => {
                let next = Stretch {
                    id: self.id,
                    after: (*last).clone(),
                    seen: rest,
                };
                self.id += 1;
                self.stretches.insert(stretch + 1, next);
            }
            None => seen.extend(rest),
        }
        forget(&mut seen, &cookies);
        self.stretches[stretch].seen = seen;
        cookies
    }

    /// A stretch has no names any more: it becomes one with the next, whose id it loses. False if
    /// it is the last.
    pub(super) fn join(&mut self, stretch: usize) -> bool {
        if stretch + 1 >= self.stretches.len() {
            return false;
        }
        let next = self.stretches.remove(stretch + 1);
        self.stretches[stretch].seen.extend(next.seen);
        true
    }

    /// The first of the names with these cookies, all of one stretch, that is behind a place in it.
    pub(super) fn behind(&self, place: Place, cookies: impl Iterator<Item = u64>) -> usize {
        let seen = &self.stretches[place.stretch].seen;
        let at = seen[place.behind].cookie;
        let mut there = HashMap::new();
        let mut count = 0;
        for cookie in cookies {
            if cookie == at {
                return count + 1;
            }
            there.insert(cookie, count);
            count += 1;
        }
        let mut rest = seen[place.behind + 1..].iter();
        rest.find_map(|seen| there.get(&seen.cookie).copied())
            .unwrap_or(count)
    }
}

/// Lays names that are listed beside those that were.
struct Merged<'a> {
    old: &'a [Seen],
    /// Where in `old` a name is that is listed again.
    places: HashMap<u64, usize>,
    listed: HashSet<u64>,
    /// All of `old` before here is in `seen`, but for what is listed later.
    at: usize,
    seen: Vec<Seen>,
    cookies: Vec<u64>,
}

impl<'a> Merged<'a> {
    fn new(old: &'a [Seen], hashes: &[u64]) -> Merged<'a> {
        let listed: HashSet<u64> = hashes.iter().copied().collect();
        let places = old.iter().enumerate();
        let places = places.filter(|(_, seen)| listed.contains(&seen.hash));
        Merged {
            old,
            places: places.map(|(place, seen)| (seen.hash, place)).collect(),
            listed,
            at: 0,
            seen: Vec::with_capacity(old.len()),
            cookies: Vec::with_capacity(hashes.len()),
        }
    }

    fn push(&mut self, hash: u64, next: &mut u64) {
        let cookie = if let Some(place) = self.places.get(&hash) {
            // What has gone before it stays before it.
            while self.at <= *place {
                let seen = self.old[self.at];
                if !self.listed.contains(&seen.hash) {
                    self.seen.push(seen);
                }
                self.at += 1;
            }
            self.old[*place].cookie
        } else {
            *next += 1;
            *next - 1
        };
        self.seen.push(Seen { hash, cookie });
        self.cookies.push(cookie);
    }

    /// All that is or was there up to the last name that was listed, the cookies of those, and what
    /// was there behind it.
    fn done(self) -> (Vec<Seen>, Vec<u64>, Vec<Seen>) {
        let rest = self.old[self.at..].iter();
        let rest = rest.filter(|seen| !self.listed.contains(&seen.hash));
        (self.seen, self.cookies, rest.copied().collect())
    }
}

/// Forgets the places of those that have gone first, of the many that have.
fn forget(seen: &mut Vec<Seen>, there: &[u64]) {
    if seen.len() <= there.len() + REMOVED_NAMES_MAX {
        return;
    }
    let there: HashSet<u64> = there.iter().copied().collect();
    let gone = seen.iter().map(|seen| seen.cookie);
    let mut gone: Vec<u64> = gone.filter(|cookie| !there.contains(cookie)).collect();
    gone.sort_unstable();
    let first = gone[gone.len().saturating_sub(REMOVED_NAMES_MAX)..]
        .first()
        .copied();
    seen.retain(|seen| there.contains(&seen.cookie) || Some(seen.cookie) >= first);
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

    /// Lists a stretch of a directory as it is, a page at most; the names and their cookies.
    fn list(
        places: &mut Places,
        stretch: usize,
        directory: &BTreeSet<Bytes>,
        page: usize,
    ) -> Vec<(Bytes, u64)> {
        let (after, until) = places.bounds(stretch);
        let behind = directory.iter().filter(|name| **name > after);
        let within = behind.filter(|name| until.as_ref().is_none_or(|until| *name <= until));
        let names: Vec<Bytes> = within.cloned().collect();
        let more = names.len() > page;
        let names = &names[..names.len().min(page)];
        let cookies = places.listed(stretch, names.iter(), more);
        names.iter().cloned().zip(cookies).collect()
    }

    /// All names behind a cookie, or from the start.
    fn rest(
        places: &mut Places,
        directory: &BTreeSet<Bytes>,
        cookie: Option<u64>,
        page: usize,
    ) -> Vec<(Bytes, u64)> {
        let mut sought = cookie;
        let mut stretch = cookie.map_or(0, |c| places.find(c).unwrap().stretch);
        let mut all = Vec::new();
        while stretch < places.stretches() {
            let names = list(places, stretch, directory, page);
            if names.is_empty() && places.join(stretch) {
                continue;
            }
            let mut from = 0;
            if let Some(cookie) = sought {
                let place = places.find(cookie).unwrap();
                if place.stretch != stretch {
                    stretch = place.stretch;
                    continue;
                }
                from = places.behind(place, names.iter().map(|(_, cookie)| *cookie));
                sought = None;
            }
            all.extend(names.into_iter().skip(from));
            stretch += 1;
        }
        all
    }

    #[test]
    fn a_cookie_is_behind_its_name_whatever_comes_and_goes() {
        let mut random = SmallRng::seed_from_u64(5);
        for _ in 0..60 {
            let page = random.random_range(1..20);
            let mut directory: BTreeSet<Bytes> = (0..100).map(|n| name(n * 10)).collect();
            let mut places = Places::new(3);
            let mut first = rest(&mut places, &directory, None, page);
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
                let seen = rest(&mut places, &directory, Some(cookie), page);
                let names: Vec<&Bytes> = seen.iter().map(|(name, _)| name).collect();
                let stayed: Vec<&Bytes> = names
                    .iter()
                    .copied()
                    .filter(|n| stays.contains(*n))
                    .collect();
                let expected: Vec<&Bytes> = stays.iter().filter(|n| **n > sought).collect();
                assert_eq!(stayed, expected, "behind {sought:?}");
                assert!(names.iter().all(|name| directory.contains(*name)));
                assert!(names.is_sorted() && names.windows(2).all(|two| two[0] != two[1]));
                if random.random_bool(0.3) {
                    // From the start again: cookies of before stay good.
                    let again = rest(&mut places, &directory, None, page);
                    assert!(again.iter().map(|(name, _)| name).eq(&directory));
                    first.extend(again);
                }
            }
        }
    }

    #[test]
    fn places_of_names_that_have_gone_are_bounded() {
        let mut places = Places::new(3);
        let mut last = 0;
        for round in 0..20 {
            let names: Vec<Bytes> = (0..1000).map(|n| name(round * 1000 + n)).collect();
            last = places.listed(0, names.iter(), false)[0];
        }
        assert!(places.stretches[0].seen.len() <= 1000 + REMOVED_NAMES_MAX);
        assert!(places.find(last).is_some(), "the newest are kept");
        assert!(places.find(3).is_none() && places.was_given(3));
        assert!(!places.was_given(3 + 20_000));
    }
}
