use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, Command};

use crate::args::Global;
use crate::copy::{self, Options, Part, Side};
use crate::remote::connect;
use crate::terminal::output;

/// Copy files and trees into a volume, out of it, and within it
#[derive(Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[command(after_help = "\
Examples:
  weft cp -r /usr/share/doc weft:/doc       into the volume
  weft cp -r weft:/doc /tmp/doc             out of it
  weft cp weft:/a weft:/b                   within it
  weft cp -a results/. weft:/results        what results holds, owners kept

A path in the volume is written weft:/…; a local file of such a name is written ./weft:… . Modes, times, symbolic and \
hard links, holes and user.* attributes are kept; with -p owners (for root) and, within a volume, layouts too. Of the \
forks only `data` is copied. What fails or is interrupted half way leaves no part of a file (one that was being replaced is \
empty then, which is said); -n goes on after that. A file that is cut while it is copied is a failure; one that states no size of its own, as \
in /proc, is copied to its end. What cannot be copied is said, the rest is copied, and the exit code is 1. A copy into \
the volume ends with a sync: what it reports survives power loss.")]
pub(crate) struct Cp {
    /// What to copy, and last where to: a directory that is there, or a new name
    #[arg(value_name = "PATH", num_args = 2.., required = true, value_parser = parser())]
    paths: Vec<Side>,
    /// Directories with everything in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Keep owners and layouts, too
    #[arg(short, long)]
    preserve: bool,
    /// The same as -r -p
    #[arg(short, long)]
    archive: bool,
    /// Leave alone what is there
    #[arg(short, long)]
    no_clobber: bool,
    /// Files that move data at a time; of small ones eight times as many
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: u16,
    /// Do not wait until the data survives power loss
    #[arg(long)]
    no_sync: bool,
    /// Print a summary, also without a terminal
    #[arg(short, long)]
    verbose: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Cp {
    pub(crate) fn run(mut self, global: &Global, whole: fn() -> Command) -> Result<ExitCode> {
        let target = self.paths.pop().expect("there are at least two paths");
        if let Some(problem) = misuse(&self.paths, &target) {
            let mut all = whole();
            // Built, so that the usage is that of `cp`.
            all.build();
            let cp = all.find_subcommand_mut("cp").expect("it is being run");
            cp.error(ErrorKind::ValueValidation, problem).exit();
        }
        let options = Options {
            recursive: self.recursive || self.archive,
            preserve: self.preserve || self.archive,
            no_clobber: self.no_clobber,
            refuse: false,
            resume: false,
            verify: false,
            part: Part::WHOLE,
            streams: self.streams.into(),
            sync: !self.no_sync,
            go_on: if self.recursive || self.archive {
                "`weft import --resume`, or `export --resume`, goes on where this ended; the same command copies everything again, with -n only \
                 what is missing, and into the target where that is a directory by now"
            } else {
                "the same command copies everything again, with -n only what is missing"
            },
        };
        let summary = connect::block_on(async {
            let volume = connect::volume(global).await?;
            copy::run(&volume, &self.paths, &target, options).await
        })?;
        if self.json {
            output::json(&summary)?;
        } else if self.verbose || output::interactive() {
            output::say(summary.line());
        }
        Ok(if summary.failures == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn misuse(sources: &[Side], target: &Side) -> Option<&'static str> {
    let weft = sources.iter().filter(|s| s.weft).count();
    if weft == 0 && !target.weft {
        return Some(
            "none of these paths is in the volume: write weft:/… for one that is, or use cp",
        );
    }
    (weft != 0 && weft != sources.len()).then_some(
        "some sources are in the volume and some are not: copy them one kind after the other",
    )
}

fn parser() -> impl TypedValueParser<Value = Side> {
    OsStringValueParser::new().try_map(side)
}

fn side(path: OsString) -> Result<Side, String> {
    let path = path.into_vec();
    match path.strip_prefix(b"weft:") {
        Some(inside) if inside.starts_with(b"/") => Ok(Side {
            path: inside.to_vec(),
            weft: true,
        }),
        Some(_) => Err("a path in the volume starts at its root: weft:/…".to_owned()),
        None if path.is_empty() => Err("a path cannot be empty".to_owned()),
        None => Ok(Side { path, weft: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Result<Side, String> {
        side(OsString::from(path))
    }

    #[test]
    fn sides_are_told_by_their_prefix() {
        assert_eq!(
            of("weft:/a/b"),
            Ok(Side {
                path: b"/a/b".to_vec(),
                weft: true
            })
        );
        assert_eq!(
            of("./weft:/a"),
            Ok(Side {
                path: b"./weft:/a".to_vec(),
                weft: false
            })
        );
        assert!(of("weft:a").unwrap_err().contains("weft:/"));
        assert!(of("").is_err());
    }

    #[test]
    fn at_least_one_side_is_in_the_volume_and_sources_are_of_one_kind() {
        let (local, weft) = (of("a").unwrap(), of("weft:/a").unwrap());
        let of = |sources: &[&Side], target: &Side| {
            let sources: Vec<Side> = sources.iter().copied().cloned().collect();
            misuse(&sources, target).is_none()
        };
        assert!(of(&[&local], &weft) && of(&[&weft], &local) && of(&[&weft, &weft], &weft));
        assert!(!of(&[&local], &local) && !of(&[&local, &weft], &weft));
    }
}
