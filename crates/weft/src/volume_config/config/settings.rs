//! The settings of a running node. The node writes them into its lock, so that a later change of
//! the configuration is noticed.

use std::collections::BTreeMap;

use anyhow::Result;

use super::file::{Config, NodeName};

/// The settings of a node, one a line.
pub(in crate::volume_config) fn of(config: &Config, node: NodeName) -> Result<String> {
    let own = match node {
        NodeName::Meta => toml::to_string(&config.meta)?,
        NodeName::Server(id) => toml::to_string(config.server(id)?)?,
    };
    // The volume's name is stored in the namespace when it is formatted.
    let volume = toml::to_string(&config.volume)?;
    let volume = volume.lines().filter(|line| !line.starts_with("name = "));
    let volume = volume.map(|line| format!("volume {line}\n"));
    Ok(own + &volume.collect::<String>())
}

/// Describes how the settings that a node runs with differ from the configuration.
pub(crate) fn changed(runs: &str, config: &Config, node: NodeName) -> Result<Vec<String>> {
    Ok(differences(runs, &of(config, node)?))
}

fn differences(runs: &str, configured: &str) -> Vec<String> {
    let (runs, configured) = (parse(runs), parse(configured));
    let mut names: Vec<&str> = runs.keys().chain(configured.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let differ = names
        .into_iter()
        .filter(|name| runs.get(name) != configured.get(name));
    let value = |of: &BTreeMap<&str, &str>, name| {
        of.get(name)
            .map_or("the default".to_owned(), |value| (*value).to_owned())
    };
    differ
        .map(|name| {
            let (now, then) = (value(&configured, name), value(&runs, name));
            format!("{name} is {now}, and it runs with {then}")
        })
        .collect()
}

fn parse(settings: &str) -> BTreeMap<&str, &str> {
    let lines = settings.lines();
    lines.filter_map(|line| line.split_once(" = ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named_with_both_values() {
        let runs = "id = 0\ncache = \"1 GiB\"\nthreads = 2\n";
        let now = "id = 0\ncache = \"2 GiB\"\nthreads = 2\ncapacity = \"9 GiB\"\n";
        assert_eq!(
            differences(runs, now),
            [
                "cache is \"2 GiB\", and it runs with \"1 GiB\"",
                "capacity is \"9 GiB\", and it runs with the default"
            ]
        );
        assert!(differences(runs, runs).is_empty());
    }
}
