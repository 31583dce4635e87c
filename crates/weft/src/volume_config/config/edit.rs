//! Changes of a configuration that leave everything else in the file as the administrator wrote it.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::file::{Config, ServerName, ServerSection};
use crate::process::private_files::write_durably;

/// One section, as the file has it.
#[derive(Serialize, Deserialize)]
struct One {
    server: Vec<ServerSection>,
}

/// Appends the section of a server to the file.
pub(crate) fn add_section(config: &Config, section: &ServerSection) -> Result<Config> {
    let text = weft_client::read_small(&config.path)
        .with_context(|| format!("cannot read {}", config.path.display()))?;
    let one = One {
        server: vec![section.clone()],
    };
    let text = format!("{}\n\n{}", text.trim_end(), toml::to_string(&one)?);
    let config = Config::parse(&text, &config.path)?;
    write_durably(&config.path, &text)?;
    Ok(config)
}

/// Removes the section of a server from the file, with the comments in it. False if it is not
/// written as a section of its own.
pub(crate) fn remove_section(config: &Config, name: ServerName) -> Result<bool> {
    let text = weft_client::read_small(&config.path)
        .with_context(|| format!("cannot read {}", config.path.display()))?;
    let left = without(&text, name);
    if Config::parse(&left, &config.path)?.server(name).is_ok() {
        return Ok(false);
    }
    write_durably(&config.path, &left)?;
    Ok(true)
}

fn without(text: &str, name: ServerName) -> String {
    let mut kept = String::new();
    let mut block = String::new();
    let end = |block: &mut String, kept: &mut String| {
        let one = toml::from_str::<One>(block).ok();
        let is_it = one.is_some_and(|one| one.server.iter().any(|s| s.name() == name));
        if is_it {
            // Comments and empty lines at its end may belong to what follows.
            let lines: Vec<&str> = block.lines().collect();
            let last = lines.iter().rposition(|line| {
                let line = line.trim();
                !line.is_empty() && !line.starts_with('#')
            });
            for line in lines.iter().skip(last.map_or(0, |last| last + 1)) {
                kept.push_str(line);
                kept.push('\n');
            }
        } else {
            kept.push_str(block);
        }
        block.clear();
    };
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            end(&mut block, &mut kept);
        }
        block.push_str(line);
    }
    end(&mut block, &mut kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_section_of_the_server_goes() {
        let section = |id, replica, more: &str| {
            format!(
                "[[server]] # here\nid = {id}\nreplica = {replica}\naddress = \"h:1\"\nfolder = \"f{id}{replica}\"\n{more}\n"
            )
        };
        let head = "# ours\n[volume]\nname = \"v\"\n\n[meta]\naddress = \"h:2\"\n\n";
        let disks = "disks = [\n  \"/a\",\n]\n\n# about the next one";
        let (first, second, third) = (section(0, 0, ""), section(0, 1, disks), section(1, 0, ""));
        let all = [head, &first, &second, &third].concat();
        let name = |id, replica| ServerName { id, replica };
        let left = without(&all, name(0, 1));
        assert_eq!(
            left,
            [head, &first, "\n# about the next one\n", &third].concat()
        );
        assert_eq!(
            without(&all, name(1, 0)),
            [head, &first, &second, "\n"].concat()
        );
        assert_eq!(without(&all, name(7, 0)), all);
    }
}
