//! The members of a group that take from a pointer in the order of their numbers.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tokio::time::Instant;
use weft_proto::collective::Membership;
use weft_proto::{Code, Failure};

use super::state::Asked;
use crate::failure;
use crate::io::collective::names;

/// Whether the members were dealt their ranges; `None` as long as they wait.
type Outcome = Option<Result<(), Failure>>;

/// One ordered take of a group, until all members have arrived.
pub(super) struct Gathering {
    group: String,
    sequence: u64,
    members: u32,
    arrived: BTreeMap<u32, Asked>,
    started: Instant,
    outcome: watch::Sender<Outcome>,
}

impl Gathering {
    pub(super) fn new(membership: &Membership) -> Gathering {
        Gathering {
            group: membership.group.clone(),
            sequence: membership.sequence,
            members: membership.members,
            arrived: BTreeMap::new(),
            started: Instant::now(),
            outcome: watch::Sender::new(None),
        }
    }

    pub(super) fn is_of(&self, membership: &Membership) -> bool {
        (self.group.as_str(), self.sequence) == (membership.group.as_str(), membership.sequence)
    }

    /// A member arrives, or comes again after a lost connection.
    ///
    /// # Errors
    /// [`Code::Busy`] while another ordered take waits; [`Code::Invalid`] if the members do not
    /// agree.
    pub(super) fn arrive(&mut self, membership: &Membership, asked: Asked) -> Result<(), Failure> {
        if !self.is_of(membership) {
            let what = format!(
                "the pointer waits for ordered take {} of group `{}`; take {} of group `{}` can begin after it",
                self.sequence, self.group, membership.sequence, membership.group
            );
            return Err(Failure::new(Code::Busy, what));
        }
        if membership.members != self.members {
            return Err(failure::invalid(format!(
                "group `{}` has {} members here and {} for another member",
                self.group, membership.members, self.members
            )));
        }
        let before = self.arrived.get(&membership.member);
        if before.is_some_and(|before| *before != asked) {
            return Err(failure::invalid(format!(
                "member {} of group `{}` has arrived already, with another take",
                membership.member, self.group
            )));
        }
        self.arrived.insert(membership.member, asked);
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.arrived.len() == self.members as usize
    }

    /// When the first member arrived.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The takes of the members that have arrived, in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<Asked> {
        self.arrived.values().copied().collect()
    }

    /// For a member that waits.
    pub(super) fn ended(&self) -> watch::Receiver<Outcome> {
        self.outcome.subscribe()
    }

    /// Tells the members that wait.
    pub(super) fn end(&self, outcome: Result<(), Failure>) {
        self.outcome.send_replace(Some(outcome));
    }

    /// The failure of a take without all its members.
    pub(super) fn missing(&self) -> Failure {
        let absent = (0..self.members).filter(|member| !self.arrived.contains_key(member));
        let absent: Vec<u32> = absent.collect();
        let what = format!(
            "{} of group `{}` did not arrive for ordered take {} in time; nothing was taken",
            names(&absent),
            self.group,
            self.sequence
        );
        Failure::new(Code::MembersMissing, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(member: u32, members: u32, sequence: u64) -> Membership {
        Membership {
            group: "g".to_owned(),
            sequence,
            members,
            member,
            ..Membership::default()
        }
    }

    fn asked(taker: u64) -> Asked {
        Asked {
            taker,
            sequence: 1,
            bytes: 10 * taker,
        }
    }

    #[tokio::test]
    async fn members_are_ordered_by_number_and_disagreement_is_refused() {
        let mut all = Gathering::new(&member(2, 3, 7));
        all.arrive(&member(2, 3, 7), asked(12)).unwrap();
        all.arrive(&member(0, 3, 7), asked(10)).unwrap();
        let refused = |all: &mut Gathering, membership, taker| {
            all.arrive(&membership, asked(taker)).unwrap_err().code()
        };
        assert_eq!(refused(&mut all, member(1, 3, 8), 11), Code::Busy);
        assert_eq!(refused(&mut all, member(1, 4, 7), 11), Code::Invalid);
        assert_eq!(refused(&mut all, member(0, 3, 7), 11), Code::Invalid);
        assert!(!all.is_complete());
        let failure = all.missing();
        assert!(failure.message.contains("member 1 of group"), "{failure:?}");
        // A repetition changes nothing.
        all.arrive(&member(0, 3, 7), asked(10)).unwrap();
        all.arrive(&member(1, 3, 7), asked(11)).unwrap();
        assert!(all.is_complete());
        assert_eq!(all.in_order(), [asked(10), asked(11), asked(12)]);
    }
}
