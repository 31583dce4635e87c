use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, Command};

use crate::args::Global;
use crate::copy::{self, Options, TransferPart, TreePath};
use crate::remote::connect;
use crate::terminal::output;

/// Copy files and directory trees into, out of, or within a volume
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
  weft cp -a results/. weft:/results        the contents of results, with owners

A path in the volume is written weft:/…; write ./weft:… for a local file of such a name. Modes, times, symbolic and hard links, \
holes and user.* attributes are copied; with -p also owners (as root) and, within a volume, layouts. Only the fork `data` is \
copied. A failed or interrupted copy leaves no partial file; a file that was being replaced is then empty, which is reported. \
Use -n to continue. A file that is truncated while it is copied is a failure; one that states no size, as in /proc, is copied to \
its end. Failures are reported, the other files are still copied, and the exit code is 1. A copy into the volume ends with a sync, \
so copied files survive power loss.")]
pub(crate) struct Cp {
    /// The files and directories to copy; last, an existing directory or the new name
    #[arg(value_name = "PATH", num_args = 2.., required = true, value_parser = parser())]
    paths: Vec<TreePath>,
    /// Copy directories with everything in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// Also copy owners and layouts
    #[arg(short, long)]
    preserve: bool,
    /// Same as -r -p
    #[arg(short, long)]
    archive: bool,
    /// Do not replace existing files
    #[arg(short, long)]
    no_clobber: bool,
    /// Files to copy at a time; eight times as many if they are small
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: u16,
    /// Do not sync at the end
    #[arg(long)]
    no_sync: bool,
    /// Print a summary even if standard error is not a terminal
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
            part: TransferPart::WHOLE,
            streams: self.streams.into(),
            sync: !self.no_sync,
            go_on: if self.recursive || self.archive {
                "`weft import --resume` or `weft export --resume` continues; the same command copies everything again, with -n only the missing \
                 files; if the target has become a directory, it copies into that"
            } else {
                "the same command copies everything again, with -n only the missing files"
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

fn misuse(sources: &[TreePath], target: &TreePath) -> Option<&'static str> {
    let weft = sources.iter().filter(|s| s.weft).count();
    if weft == 0 && !target.weft {
        return Some(
            "none of these paths is in the volume: write weft:/… for one that is, or use cp",
        );
    }
    (weft != 0 && weft != sources.len())
        .then_some("some sources are in the volume and some are not: copy the two kinds separately")
}

fn parser() -> impl TypedValueParser<Value = TreePath> {
    OsStringValueParser::new().try_map(parse_path)
}

fn parse_path(path: OsString) -> Result<TreePath, String> {
    let path = path.into_vec();
    match path.strip_prefix(b"weft:") {
        Some(inside) if inside.starts_with(b"/") => Ok(TreePath {
            path: inside.to_vec(),
            weft: true,
        }),
        Some(_) => Err("a path in the volume starts at its root: weft:/…".to_owned()),
        None if path.is_empty() => Err("a path cannot be empty".to_owned()),
        None => Ok(TreePath { path, weft: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Result<TreePath, String> {
        parse_path(OsString::from(path))
    }

    #[test]
    fn a_prefix_distinguishes_volume_paths_from_local_paths() {
        assert_eq!(
            of("weft:/a/b"),
            Ok(TreePath {
                path: b"/a/b".to_vec(),
                weft: true
            })
        );
        assert_eq!(
            of("./weft:/a"),
            Ok(TreePath {
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
        let of = |sources: &[&TreePath], target: &TreePath| {
            let sources: Vec<TreePath> = sources.iter().copied().cloned().collect();
            misuse(&sources, target).is_none()
        };
        assert!(of(&[&local], &weft) && of(&[&weft], &local) && of(&[&weft, &weft], &weft));
        assert!(!of(&[&local], &local) && !of(&[&local, &weft], &weft));
    }
}
