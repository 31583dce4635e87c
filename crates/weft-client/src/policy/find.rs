//! Policies by name: those of the table, and plug-ins in a folder.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use parking_lot::Mutex;
use weft_policy::{Folder, NotFound, Plugin};

use super::{Policy, Row};

/// The policies that a client knows: those of [`Policy::all`], and the plug-ins of a folder. Those
/// that are dropped into the folder later, or replaced there, are found from then on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(Folder);

/// The rows of plug-ins that were found; each lives as long as its plug-in, which is as long as
/// this process.
static ROWS: LazyLock<Mutex<HashMap<usize, &'static Row>>> = LazyLock::new(Mutex::default);

impl Policies {
    /// With the plug-ins of this folder; the default is what `WEFT_POLICIES` names, else
    /// [`weft_policy::DEFAULT_FOLDER`].
    pub fn of(folder: Folder) -> Policies {
        Policies(folder)
    }

    /// The folder of the plug-ins.
    pub fn folder(&self) -> &Folder {
        &self.0
    }

    /// Finds a policy by its name. Loads a plug-in whose file is new or was replaced.
    ///
    /// # Errors
    /// [`UnknownPolicy`] says which there are, or what is wrong with the plug-in.
    pub fn find(&self, name: &str) -> Result<Policy, UnknownPolicy> {
        if let Ok(policy) = name.parse() {
            return Ok(policy);
        }
        match self.0.find(name) {
            Ok(plugin) => Ok(row_of(plugin)),
            Err(NotFound::Missing(_)) => Err(UnknownPolicy::of(name, Some(&self.0))),
            Err(why) => Err(UnknownPolicy {
                name: name.to_owned(),
                why: why.to_string(),
            }),
        }
    }

    /// The policies in the folder that can be loaded, and why others cannot.
    pub fn plugins(&self) -> Vec<Result<Policy, UnknownPolicy>> {
        let found = |name: &String| {
            if name.parse::<Policy>().is_err() {
                return self.find(name);
            }
            Err(UnknownPolicy {
                name: format!("{name}.so"),
                why: "a built-in policy has this name: give the plug-in another one".to_owned(),
            })
        };
        self.0.names().iter().map(found).collect()
    }

    /// As the folder has it now; the same one if that cannot be loaded.
    pub(crate) fn latest(&self, policy: Policy) -> Policy {
        if policy.plugin().is_none() {
            return policy;
        }
        self.find(policy.name()).unwrap_or_else(|why| {
            tracing::warn!(%why, "the policy is used as it was loaded before");
            policy
        })
    }
}

fn row_of(plugin: &'static Plugin) -> Policy {
    let mut rows = ROWS.lock();
    let row = rows
        .entry(std::ptr::from_ref(plugin) as usize)
        .or_insert_with(|| {
            Box::leak(Box::new(Row {
                name: plugin.name(),
                summary: plugin.summary(),
                values: plugin.values(),
                addressed: false,
                plugin: Some(plugin),
            }))
        });
    Policy(row)
}

/// A name that is no policy's, or that of a plug-in which cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no consistency policy; {why}")]
pub struct UnknownPolicy {
    name: String,
    why: String,
}

impl UnknownPolicy {
    /// There is none of this name.
    pub(super) fn of(name: &str, folder: Option<&Folder>) -> UnknownPolicy {
        let built_in = names(Policy::all().map(Policy::name));
        let plugins = folder.map_or_else(String::new, |folder| {
            let (path, plugins) = (folder.path().display(), folder.names());
            if plugins.is_empty() {
                return format!(", and no plug-ins in {path}");
            }
            let plugins = names(plugins.iter().map(String::as_str));
            format!(", and the plug-ins {plugins} in {path}")
        });
        let why = format!("there are {built_in}{plugins}");
        UnknownPolicy {
            name: name.to_owned(),
            why,
        }
    }

    /// What it was called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> impl fmt::Display {
    names.collect::<Vec<_>>().join(", ")
}
