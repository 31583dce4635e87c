//! `weft --help` with its commands by family.
//!
//! clap has headings for options, but not for commands. So clap renders the list of all commands at
//! the terminal's width, and a heading is inserted before the first command of each family. The
//! families are those that the parser is built of, so help and parser cannot disagree.

use std::fmt::Write;

use clap::Command;

use crate::commands::FAMILIES;

/// Gives the help of `weft` a heading for each family of commands.
pub(super) fn by_family(whole: Command) -> Command {
    let families = FAMILIES.map(|family| (family.heading(), family.names()));
    let list = whole.clone().help_template("{subcommands}").render_help();
    let style = *whole.get_styles().get_header();
    let mut commands = String::new();
    let mut above = None;
    // The same lines, with and without escape sequences.
    let (styled, plain) = (list.ansi().to_string(), list.to_string());
    for (styled, plain) in styled.lines().zip(plain.lines()) {
        let heading = families.iter().find_map(|(heading, names)| {
            let name = command_of(plain)?;
            names.iter().any(|n| n == name).then_some(heading)
        });
        if heading.is_some() && heading != above {
            above = heading;
            let heading = heading.copied().unwrap_or_default();
            let _ = writeln!(commands, "\n{style}{heading}:{style:#}");
        }
        let _ = writeln!(commands, "{styled}");
    }
    whole.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{commands}\n\
         {style}Options:{style:#}\n{{options}}{{after-help}}"
    ))
}

/// The command that begins on a line of the list, if any. Commands are indented by two spaces,
/// continuation lines by more.
fn command_of(line: &str) -> Option<&str> {
    let entry = line.strip_prefix("  ").filter(|l| !l.starts_with(' '))?;
    entry.split(' ').next()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn help(width: usize) -> String {
        by_family(Cli::command().term_width(width))
            .term_width(width)
            .render_help()
            .to_string()
    }

    /// The names below each heading, as the help shows them.
    fn listed(help: &str) -> Vec<(String, Vec<String>)> {
        let mut families: Vec<(String, Vec<String>)> = Vec::new();
        for line in help.lines().take_while(|line| *line != "Options:") {
            if let Some(heading) = line.strip_suffix(':') {
                families.push((heading.to_owned(), Vec::new()));
            } else if let Some((_, names)) = families.last_mut() {
                names.extend(command_of(line).map(str::to_owned));
            }
        }
        families
    }

    #[test]
    fn every_command_is_in_one_family() {
        let families: Vec<String> = FAMILIES
            .iter()
            .flat_map(crate::commands::Family::names)
            .collect();
        let distinct: BTreeSet<&String> = families.iter().collect();
        assert_eq!(distinct.len(), families.len(), "{families:?}");
        let whole = Cli::command();
        let all: BTreeSet<String> = whole
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        assert_eq!(distinct.into_iter().cloned().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn help_lists_visible_commands_below_the_heading_of_their_family() {
        let whole = Cli::command();
        let shown = |name: &String| {
            let command = whole.find_subcommand(name).expect("the name is a command");
            !command.is_hide_set()
        };
        let mut expected: Vec<(String, Vec<String>)> = FAMILIES
            .iter()
            .map(|family| {
                let names = family.names().into_iter().filter(shown).collect();
                (family.heading().to_owned(), names)
            })
            .collect();
        // clap adds `weft help` after all other commands.
        let (_, last) = expected.last_mut().expect("there are families");
        last.push("help".to_owned());
        for width in [40, 80, 100] {
            assert_eq!(listed(&help(width)), expected, "width {width}");
        }
    }

    #[test]
    fn help_keeps_to_the_width_of_the_terminal() {
        for line in help(80).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
