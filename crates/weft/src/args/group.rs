//! The options by which a command joins a group whose members read or write together.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use weft_client::{GROUP_WAIT, Group, Missing, Overlaps};

use weft_proto::limits;

use crate::terminal::output;

/// The help text about groups, for commands that can join one.
pub(crate) const GROUPS: &str = "\
Groups: commands that form a group, on any machines, become one job on each server. Bytes that several members want are \
read once, and blocks that several members fill together are written once. Each member names the group, its size and its own \
number:
  for k in 0 1 2 3; do weft read /grid 1/4x8 --offset $k --group show --members 4 --member $k > part.$k & done; wait";

/// The group that a command joins, and its number in it.
#[derive(Args)]
pub(crate) struct GroupArgs {
    /// Run as a member of this group, together with the other members' commands
    #[arg(long, value_name = "ID", requires_all = ["members", "member"])]
    group: Option<String>,
    /// Number of members in the group
    #[arg(long, value_name = "N", requires = "group", value_parser = clap::value_parser!(u32).range(1..=1024))]
    members: Option<u32>,
    /// Number of this member, from 0
    #[arg(long, value_name = "K", requires = "group")]
    member: Option<u32>,
    /// Number of the collective operation, if the group runs several at a time
    #[arg(long, value_name = "S", requires = "group", default_value_t = 0)]
    sequence: u64,
    /// Seconds to wait for the other members after the first has arrived
    #[arg(long, value_name = "SECONDS", requires = "group", default_value_t = GROUP_WAIT.as_secs_f64(), value_parser = seconds)]
    timeout: f64,
    /// What to do when members do not arrive in time
    #[arg(long, requires = "group", default_value = "fail")]
    missing: WhenMissing,
}

/// A member's place in a group, from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) id: String,
    pub(crate) sequence: u64,
    pub(crate) members: u32,
    pub(crate) member: u32,
    pub(crate) wait: Duration,
    pub(crate) missing: Missing,
}

/// What to do when members do not arrive in time.
#[derive(Clone, Copy, ValueEnum)]
enum WhenMissing {
    /// Fail for all members
    Fail,
    /// Go on without them
    GoOn,
}

/// What to do with bytes that several members write.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum WhenShared {
    /// Refuse the write
    #[default]
    Refuse,
    /// Keep the bytes of the member with the highest number
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
    pub(crate) fn membership(&self) -> Option<Membership> {
        let (id, members, member) = (self.group.as_ref()?, self.members?, self.member?);
        Some(Membership {
            id: id.clone(),
            sequence: self.sequence,
            members,
            member,
            wait: Duration::from_secs_f64(self.timeout),
            missing: match self.missing {
                WhenMissing::Fail => Missing::Fail,
                WhenMissing::GoOn => Missing::GoOn,
            },
        })
    }

    /// The group, if the command belongs to one.
    pub(crate) fn group(&self, shared: WhenShared) -> Option<Group> {
        let overlaps = match shared {
            WhenShared::Refuse => Overlaps::Refuse,
            WhenShared::MemberOrder => Overlaps::MemberOrder,
        };
        Some(self.membership()?.group().overlaps(overlaps))
    }
}

impl Membership {
    /// The group as the library describes it.
    pub(crate) fn group(&self) -> Group {
        Group::new(&self.id, self.members, self.member)
            .sequence(self.sequence)
            .wait(self.wait)
            .missing(self.missing)
    }

    /// Refuses a member number or group name that no group can have. Servers refuse the same.
    pub(crate) fn check(&self) -> Result<()> {
        if self.member >= self.members {
            let (member, members) = (self.member, self.members);
            bail!("member {member} of {members}: members are numbered from 0");
        }
        if self.id.is_empty() || self.id.len() > limits::GROUP_NAME_MAX {
            let most = limits::GROUP_NAME_MAX;
            let length = self.id.len();
            bail!("the group's name has {length} bytes: choose 1 to {most}");
        }
        Ok(())
    }
}

/// Members by number.
pub(crate) fn members(numbers: &[u32]) -> String {
    let names: Vec<String> = numbers.iter().map(u32::to_string).collect();
    let plural = if names.len() == 1 {
        "member"
    } else {
        "members"
    };
    format!("{plural} {}", names.join(", "))
}

/// Reports the missing members on standard error.
pub(crate) fn warn_of(missing: &[u32]) {
    if !missing.is_empty() {
        output::say(format_args!("weft: went on without {}", members(missing)));
    }
}
