//! The messages for a command line that does not parse: clap's, without suggestions of hidden
//! commands and options.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory, Error};

use weft_proto::text;

use super::Cli;

/// The message of a parse error. `args` is the command line.
pub(crate) fn words(args: &[OsString], mut error: Error) -> String {
    let all = Cli::command();
    let command = args.iter().skip(1).find_map(|arg| all.find_subcommand(arg));
    suggest_what_is_shown(&mut error, &all, command);
    if let Some(words) = of_a_mount_option(&error) {
        return words;
    }
    escape(&mut error);
    let mut said = error.render().to_string();
    if let Some(number) = error
        .source()
        .and_then(|source| source.downcast_ref::<ParseIntError>())
    {
        said = said.replace(&number.to_string(), no_number(number));
    }
    let lines = said.lines().map(|line| match line.strip_prefix("Usage:") {
        Some(usage) => format!("Usage:{}", without_global(usage, &all)),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The message for an address without the volume's key, if the command line lacks the key.
pub(crate) fn lacks_key(cli: &Cli) -> Option<String> {
    let address = cli.global.address()?;
    let among_options = cli.command.names_key();
    if cli.global.key().is_some() || among_options {
        return None;
    }
    Some(format!(
        "weft: no key given for the volume at {address}: name its file (volume.key of the volume's folder, or a copy) by --key-file or \
         WEFT_KEY_FILE:\n\nUsage: weft --address {address} --key-file <FILE> <COMMAND>"
    ))
}

/// The message for a wrong mount option. The rest of the list is left out: mount(8) may have added
/// it.
fn of_a_mount_option(error: &Error) -> Option<String> {
    let is_list = matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(arg)) if arg == "-o <OPTIONS>");
    let wrong = error.source().filter(|_| is_list)?;
    Some(format!("weft: {wrong}"))
}

/// Escapes control characters in words of the command line. Rendering would drop them silently.
fn escape(error: &mut Error) {
    let context = error.context();
    let escaped: Vec<_> = context
        .filter_map(|(kind, value)| match value {
            ContextValue::String(word) => Some((kind, ContextValue::String(text::lines(word)))),
            _ => None,
        })
        .collect();
    for (kind, value) in escaped {
        error.insert(kind, value);
    }
}

/// Removes suggestions of hidden commands and options.
fn suggest_what_is_shown(error: &mut Error, all: &Command, command: Option<&Command>) {
    let hidden = |name: &str| all.find_subcommand(name).is_some_and(Command::is_hide_set);
    for kind in [
        ContextKind::SuggestedSubcommand,
        ContextKind::ValidSubcommand,
    ] {
        if let Some(ContextValue::Strings(mut names)) = error.remove(kind) {
            names.retain(|name| !hidden(name));
            if !names.is_empty() {
                error.insert(kind, ContextValue::Strings(names));
            }
        }
    }
    let mut options = command.into_iter().flat_map(Command::get_arguments);
    if let Some(ContextValue::String(option)) = error.get(ContextKind::SuggestedArg)
        && options
            .any(|arg| arg.is_hide_set() && arg.get_long() == Some(option.trim_start_matches('-')))
    {
        error.remove(ContextKind::SuggestedArg);
    }
}

/// Why a text is not a number, naming what is expected.
fn no_number(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow => "this number is too large",
        IntErrorKind::NegOverflow => "this number is too small",
        _ => "a whole number is needed here",
    }
}

/// A usage line without the options of every command. clap names each that is set, by the command
/// line or the environment, twice: once for itself and once as the command's own.
fn without_global(usage: &str, all: &Command) -> String {
    let global = all.get_arguments().filter(|arg| arg.is_global_set());
    global.fold(usage.to_owned(), |usage, arg| {
        let (Some(long), Some(names)) = (arg.get_long(), arg.get_value_names()) else {
            return usage;
        };
        let values = names.iter().map(|name| format!(" <{name}>"));
        usage.replace(&format!(" --{long}{}", values.collect::<String>()), "")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn of(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&args)
            .err()
            .expect("the line is misuse");
        words(&args, error)
    }

    #[test]
    fn hidden_commands_and_options_are_not_suggested() {
        let text = of("weft sort-pat");
        assert!(text.contains("'sort'"), "{text}");
        assert!(
            !text.contains("sort-path") && !text.contains("sort-worker"),
            "{text}"
        );
        for line in ["weft bench-worke", "weft --volume /v"] {
            let text = of(line);
            assert!(!text.contains("worker"), "{text}");
        }
        let text = of("weft up /v --lin 5");
        assert!(!text.contains("--link"), "{text}");
    }

    #[test]
    fn a_malformed_number_says_what_is_expected() {
        let text = of("weft explain /f --pieces abc");
        assert!(text.contains("a whole number is needed here"), "{text}");
        let text = of("weft explain /f --pieces 99999999999999999999999");
        assert!(text.contains("too large"), "{text}");
    }

    #[test]
    fn usage_names_no_option_twice() {
        let text = of("weft --volume /v mv /a");
        assert!(text.contains("Usage: weft mv"), "{text}");
        assert!(!text.contains("--volume"), "{text}");
    }

    #[test]
    fn control_characters_are_escaped() {
        for line in [
            "weft bad\u{1b}[31m",
            "weft ls --bad\u{1b}[31m",
            "weft mount /p -o bad\u{1b}[31m",
        ] {
            let text = text::lines(&of(line));
            assert!(text.contains("bad\\u{1b}[31m"), "{text}");
        }
    }

    #[test]
    fn only_the_wrong_mount_option_of_a_list_is_named() {
        for (list, words) in [
            ("remount,bogus", "no mount option `bogus`"),
            ("ro,attr_timeout=soon", "attr_timeout: `soon`"),
            ("ro,wire=thin", "wire: "),
        ] {
            let text = of(&format!("weft mount /p -o {list}"));
            assert!(text.contains(words), "{text}");
            assert!(!text.contains(list) && !text.contains("'--help'"), "{text}");
        }
    }

    #[test]
    fn an_address_without_a_key_says_what_to_add() {
        let of = |line: &str| lacks_key(&Cli::try_parse_from(line.split(' ')).ok().unwrap());
        let text = of("weft --address h:1 ls /").unwrap();
        assert!(
            text.contains("Usage: weft --address h:1 --key-file <FILE>"),
            "{text}"
        );
        assert_eq!(of("weft --address h:1 --key-file k ls /"), None);
        assert_eq!(of("weft --address h:1 mount /p -o key_file=k"), None);
    }
}
