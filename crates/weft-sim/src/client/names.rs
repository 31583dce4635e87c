//! Directories that one client makes and removes.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;
use weft_client::{Error, Volume};
use weft_proto::Code;

use crate::state::State;

/// A client's names that must, may or must not be there.
pub(super) struct Names {
    client: usize,
    certain: BTreeMap<String, Option<bool>>,
}

impl Names {
    pub(super) fn new(client: usize) -> Names {
        Names {
            client,
            certain: BTreeMap::new(),
        }
    }

    pub(super) async fn change(&mut self, volume: &Volume, rng: &mut SmallRng, state: &State) {
        let name = format!("/name-{}-{}", self.client, rng.random_range(0..6));
        let create: bool = rng.random();
        let result = if create {
            volume.make_directory(&name, 0o755).await.map(|_| ())
        } else {
            volume.remove_directory(&name).await.map(drop)
        };
        let certain = match &result {
            Ok(()) => Some(create),
            Err(e) if e.code() == Code::Exists && create => Some(true),
            Err(e) if e.code() == Code::NotFound && !create => Some(false),
            Err(Error::Unreachable { .. }) => return state.lock().count("name", &result),
            Err(_) => None,
        };
        let mut state = state.lock();
        let before = self.certain.get(&name).copied().unwrap_or(Some(false));
        match (&result, certain) {
            // It was there, or was not, as it had to be; or that is not known.
            (Err(_), Some(there)) if before.is_none_or(|b| b == there) => {
                state.count("name", &Ok(()));
            }
            (Err(e), Some(_)) => state.note_wrong(format!(
                "{name}: expected there = {before:?}, but was told: {e}"
            )),
            _ => state.count("name", &result),
        }
        self.certain.insert(name, certain);
    }

    pub(super) async fn check(&self, volume: &Volume, state: &State) -> Result<(), Error> {
        let there: Vec<String> = volume
            .list("/")
            .all()
            .await?
            .iter()
            .map(|e| format!("/{}", String::from_utf8_lossy(&e.name)))
            .collect();
        for (name, certain) in &self.certain {
            if let Some(expected) = certain
                && there.contains(name) != *expected
            {
                state.lock().note_wrong(format!(
                    "{name}: expected there = {expected}, found {there:?}"
                ));
            }
        }
        Ok(())
    }
}
