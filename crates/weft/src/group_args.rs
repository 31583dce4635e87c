//! The options that make a command one of a group's that read or write together.

use std::time::Duration;

use clap::{Args, ValueEnum};
use weft_client::{GROUP_WAIT, Group, Missing, Overlaps};

use crate::output;

/// What is said of groups in the help of commands that take part in one.
pub(crate) const GROUPS: &str = "\
Together: the commands of a group, started anywhere, become one job on each server: what several of them want is read \
once, and blocks that they fill between them are written whole. All name the group, how many they are, and each its number:
  for k in 0 1 2 3; do weft read /grid 1/4x8 --offset $k --group show --members 4 --member $k > part.$k & done; wait";

/// As which member of which group.
#[derive(Args)]
pub(crate) struct GroupArgs {
    /// Do it together with the other members of this group, in whatever processes
    #[arg(long, value_name = "ID", requires_all = ["members", "member"])]
    group: Option<String>,
    /// How many members the group has
    #[arg(long, value_name = "N", requires = "group", value_parser = clap::value_parser!(u32).range(1..=1024))]
    members: Option<u32>,
    /// Which of them this is, from 0
    #[arg(long, value_name = "K", requires = "group")]
    member: Option<u32>,
    /// Which of the group's collectives, if it has several at a time
    #[arg(long, value_name = "S", requires = "group", default_value_t = 0)]
    sequence: u64,
    /// How long servers wait for the other members after the first came, in seconds
    #[arg(long, value_name = "SECONDS", requires = "group", default_value_t = GROUP_WAIT.as_secs_f64(), value_parser = seconds)]
    timeout: f64,
    /// What happens when members do not come
    #[arg(long, requires = "group", default_value = "fail")]
    missing: WhenMissing,
}

/// What happens when members do not come.
#[derive(Clone, Copy, ValueEnum)]
enum WhenMissing {
    /// It fails for all
    Fail,
    /// It is done without them
    GoOn,
}

/// What happens to bytes that several members write.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum WhenShared {
    /// It is refused
    #[default]
    Refuse,
    /// The highest member's stay
    MemberOrder,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if (0.0..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("give 0 to 3600 seconds".to_owned())
    }
}

impl GroupArgs {
    /// The member's place, if the command belongs to a group.
    pub(crate) fn group(&self, shared: WhenShared) -> Option<Group> {
        let (id, members, member) = (self.group.as_ref()?, self.members?, self.member?);
        let missing = match self.missing {
            WhenMissing::Fail => Missing::Fail,
            WhenMissing::GoOn => Missing::GoOn,
        };
        let overlaps = match shared {
            WhenShared::Refuse => Overlaps::Refuse,
            WhenShared::MemberOrder => Overlaps::MemberOrder,
        };
        let group = Group::new(id, members, member)
            .sequence(self.sequence)
            .wait(Duration::from_secs_f64(self.timeout))
            .missing(missing)
            .overlaps(overlaps);
        Some(group)
    }
}

/// Says on the error output who was missing.
pub(crate) fn warn_of(missing: &[u32]) {
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(u32::to_string).collect();
        let plural = if names.len() == 1 {
            "member"
        } else {
            "members"
        };
        output::say(format_args!(
            "weft: went on without {plural} {}",
            names.join(", ")
        ));
    }
}
