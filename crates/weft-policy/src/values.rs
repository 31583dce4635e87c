//! The values of a policy: what a client keeps of a file, and when its changes leave.

use std::time::Duration;

use crate::abi;

/// What makes a policy, beside its callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// Each operation is atomic, and all happen in one order (Vesta's cautious; CAPFS's commits
    /// that are not forced).
    pub in_order: bool,
    /// Which names of chunks a client keeps.
    pub names: Kept,
    /// A file that has bytes is not opened for writing.
    pub written_once: bool,
    /// For how long at most a write waits in the client; `None`: it leaves at once.
    pub delay: Option<Duration>,
}

/// Which names of chunks a client keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// None.
    None,
    /// Those that servers keep coherent.
    Coherent,
    /// Those that the open has seen, until it closes.
    Own {
        /// And for no longer than this.
        believed: Option<Duration>,
        /// And no longer than until a sync.
        until_sync: bool,
    },
}

impl Values {
    /// As if there were no policy: each server does its part when it arrives, and nothing is kept.
    pub const RECKLESS: Values = Values {
        in_order: false,
        names: Kept::None,
        written_once: false,
        delay: None,
    };

    /// Whether they need the names of chunks.
    pub fn needs_names(self) -> bool {
        self.names != Kept::None
    }

    pub(crate) fn to_abi(self) -> abi::Values {
        let (names, until_sync, believed) = match self.names {
            Kept::None => (abi::NAMES_NONE, false, None),
            Kept::Coherent => (abi::NAMES_COHERENT, false, None),
            Kept::Own {
                believed,
                until_sync,
            } => (abi::NAMES_OWN, until_sync, believed),
        };
        abi::Values {
            size: size_of::<abi::Values>() as u32,
            in_order: self.in_order.into(),
            names,
            until_sync: until_sync.into(),
            written_once: self.written_once.into(),
            reserved: 0,
            believed_ms: milliseconds(believed),
            delay_ms: milliseconds(self.delay),
        }
    }

    /// # Errors
    /// Says which value is not legal.
    pub(crate) fn of_abi(values: &abi::Values) -> Result<Values, String> {
        let flag = |what, value| match value {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{what} is {other}, not 0 or 1")),
        };
        let until_sync = flag("until_sync", values.until_sync)?;
        let believed = duration(values.believed_ms);
        let names = match values.names {
            abi::NAMES_NONE => Kept::None,
            abi::NAMES_COHERENT => Kept::Coherent,
            abi::NAMES_OWN => Kept::Own {
                believed,
                until_sync,
            },
            other => return Err(format!("names is {other}, which is no WEFT_NAMES_ value")),
        };
        if !matches!(names, Kept::Own { .. }) && (until_sync || believed.is_some()) {
            return Err("until_sync and believed_ms are for WEFT_NAMES_OWN only".to_owned());
        }
        let in_order = flag("in_order", values.in_order)?;
        let delay = duration(values.delay_ms);
        if in_order && (delay.is_some() || matches!(names, Kept::Own { .. })) {
            return Err(
                "operations in order neither wait in the client nor use names of its own"
                    .to_owned(),
            );
        }
        Ok(Values {
            in_order,
            names,
            written_once: flag("written_once", values.written_once)?,
            delay,
        })
    }
}

/// 0: none.
fn duration(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

/// Rounded up: no time at all means something else.
pub(crate) fn milliseconds(duration: Option<Duration>) -> u64 {
    let up = |duration: Duration| duration.as_nanos().div_ceil(1_000_000).max(1);
    duration.map_or(0, |duration| {
        u64::try_from(up(duration)).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_table_and_those_that_contradict_each_other_are_refused() {
        let own = |believed, until_sync| Kept::Own {
            believed,
            until_sync,
        };
        let second = Some(Duration::from_secs(1));
        for names in [
            Kept::None,
            Kept::Coherent,
            own(None, true),
            own(second, false),
        ] {
            for delay in [None, second] {
                let values = Values {
                    names,
                    delay,
                    written_once: true,
                    ..Values::RECKLESS
                };
                assert_eq!(Values::of_abi(&values.to_abi()), Ok(values));
            }
        }
        let short = Values {
            delay: Some(Duration::from_micros(5)),
            ..Values::RECKLESS
        };
        assert_eq!(short.to_abi().delay_ms, 1);
        let wrong = |change: fn(&mut abi::Values)| {
            let mut values = Values::RECKLESS.to_abi();
            change(&mut values);
            Values::of_abi(&values).unwrap_err()
        };
        assert!(wrong(|v| v.names = 3).contains("names is 3"));
        assert!(wrong(|v| v.in_order = 2).contains("in_order is 2"));
        assert!(wrong(|v| v.until_sync = 1).contains("WEFT_NAMES_OWN only"));
        assert!(wrong(|v| (v.in_order, v.delay_ms) = (1, 5)).contains("in order"));
    }
}
