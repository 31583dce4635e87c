//! The directory, and what it and its checkpoints may hold.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use weft_client::{Error, NewLayout, Volume};
use weft_proto::Code;

use crate::client::content::Content;
use crate::client::settle::settle;
use crate::state::State;

/// A directory in the directory.
const SUB: &str = "/sub";

pub(in crate::client) struct Tree {
    pub(super) volume: Volume,
    pub(super) state: State,
    pub(super) rng: SmallRng,
    pub(super) layout: NewLayout,
    pub(super) root: String,
    /// All paths that files may have.
    pub(super) paths: Vec<String>,
    /// Paths, and the ids of the files there.
    pub(super) names: BTreeMap<String, u64>,
    pub(super) files: BTreeMap<u64, Content>,
    /// Counts the checkpoints.
    pub(super) turn: u32,
    pub(super) checkpoints: BTreeMap<String, Image>,
}

/// What a checkpoint holds.
pub(super) struct Image {
    /// Paths of the directory, and the files that were there.
    pub(super) names: BTreeMap<String, u64>,
    pub(super) files: BTreeMap<u64, Content>,
}

impl Tree {
    /// Makes the directory of a client.
    pub(in crate::client) async fn new(
        volume: &Volume,
        state: &State,
        rng: SmallRng,
        layout: NewLayout,
        client: usize,
    ) -> Result<Tree, Error> {
        let root = format!("/tree-{client}");
        for path in [root.clone(), format!("{root}{SUB}")] {
            settle(state, "directory", async |maybe| {
                match volume.make_directory(&path, 0o755).await {
                    Err(e) if maybe && e.code() == Code::Exists => Ok(()),
                    result => result.map(drop),
                }
            })
            .await?;
        }
        let mut paths: Vec<String> = ["/a", "/b", "/sub/a"].map(|n| root.clone() + n).into();
        paths.push(format!("/outside-{client}"));
        Ok(Tree {
            volume: volume.clone(),
            state: state.clone(),
            rng,
            layout,
            root,
            paths,
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            turn: 0,
            checkpoints: BTreeMap::new(),
        })
    }

    /// The directory names what it must, and nothing else.
    pub(super) async fn check_names(&self) -> Result<(), Error> {
        let there = files_below(&self.volume, &self.root).await?;
        let expected = self.names.keys().filter_map(|path| self.inside(path));
        self.compare_names(&self.root, &there, &expected.collect());
        Ok(())
    }

    /// Where in the directory a path leads to, if it does.
    pub(super) fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        path.strip_prefix(&self.root)
    }

    pub(super) fn compare_names(
        &self,
        what: &str,
        there: &BTreeSet<String>,
        expected: &BTreeSet<&str>,
    ) {
        if there
            .iter()
            .map(String::as_str)
            .ne(expected.iter().copied())
        {
            let wrong = format!("{what} names {there:?}, expected {expected:?}");
            self.state.lock().note_wrong(wrong);
        }
    }

    /// Files without a name are gone.
    pub(super) fn forget_unnamed(&mut self) {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|id, _| named.contains(id));
    }
}

/// The files below a directory that has one other in it, as paths from there.
pub(super) async fn files_below(volume: &Volume, root: &str) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for directory in ["", SUB] {
        for entry in volume.list(format!("{root}{directory}")).all().await? {
            let name = String::from_utf8_lossy(&entry.name);
            found.insert(format!("{directory}/{name}"));
        }
    }
    found.remove(SUB);
    Ok(found)
}
