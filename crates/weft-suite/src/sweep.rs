//! Which points of a case are measured, and how.

use crate::point::Point;
use crate::{Interface, Op, SuiteError};

/// What narrows a case; empty lists leave what the case does by itself.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Numbers of servers.
    pub servers: Vec<u32>,
    /// Numbers of clients.
    pub clients: Vec<u32>,
    /// Patterns, by name.
    pub patterns: Vec<String>,
    /// Sizes of records, in bytes.
    pub records: Vec<u64>,
    /// Operations.
    pub ops: Vec<Op>,
    /// Interfaces.
    pub interfaces: Vec<Interface>,
    /// Factor of the bytes of each point.
    pub scale: f64,
    /// Runs of each point whose median counts; with more than one, another one before them warms
    /// up.
    pub runs: usize,
    /// A write ends when it is synced.
    pub sync: bool,
    /// A shell command that is run before each step that only looks at files: it empties the
    /// caches that the suite cannot reach.
    pub before_read: Option<String>,
    /// Where points are measured decides what can be.
    pub place: TargetKind,
}

/// What a case may ask of the place it is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A volume of its own: any number of servers.
    Own,
    /// A standing volume with so many servers.
    Standing(u32),
    /// A mounted path: POSIX calls only.
    Path,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep {
            servers: Vec::new(),
            clients: Vec::new(),
            patterns: Vec::new(),
            records: Vec::new(),
            ops: Vec::new(),
            interfaces: Vec::new(),
            scale: 1.0,
            runs: 3,
            sync: true,
            before_read: None,
            place: TargetKind::Own,
        }
    }
}

impl Sweep {
    /// Whether an operation is asked for.
    pub fn wants(&self, op: Op) -> bool {
        self.ops.is_empty() || self.ops.contains(&op)
    }

    /// Whether a point is among those that are asked for; a case may not vary all of it. Records
    /// are as large as asked for, or a little less where they must be multiples of something.
    pub(crate) fn allows(&self, point: &Point) -> bool {
        let clients = u32::try_from(point.parts.len()).unwrap_or(u32::MAX);
        (self.clients.is_empty() || self.clients.contains(&clients))
            && (self.records.is_empty()
                || self
                    .records
                    .iter()
                    .any(|r| r.abs_diff(point.record) <= r / 8))
    }

    pub(crate) fn pattern(&self, name: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|p| p == name)
    }

    pub(crate) fn records(&self, default: &[u64]) -> Vec<u64> {
        chosen(&self.records, default)
    }

    pub(crate) fn clients(&self, default: &[u32]) -> Vec<u32> {
        chosen(&self.clients, default)
    }

    /// The numbers of servers. On a standing volume those of the default that it has; on a path
    /// one, which is a label.
    pub(crate) fn servers(&self, default: &[u32]) -> Vec<u32> {
        match self.place {
            _ if !self.servers.is_empty() => self.servers.clone(),
            TargetKind::Own => default.to_vec(),
            TargetKind::Standing(most) => {
                let mut fit: Vec<u32> = default.iter().map(|n| *n.min(&most)).collect();
                fit.sort_unstable();
                fit.dedup();
                fit
            }
            TargetKind::Path => vec![default.iter().copied().max().unwrap_or(1)],
        }
    }

    /// The number of servers as a row shows it: 0 for a path, unless the user names a number.
    pub(crate) fn known(&self, servers: u32) -> u32 {
        if self.place == TargetKind::Path && self.servers.is_empty() {
            0
        } else {
            servers
        }
    }

    /// The interfaces of those that make sense for a pattern; on a path POSIX calls take the place
    /// of each.
    pub(crate) fn interfaces(&self, sensible: &[Interface]) -> Vec<Interface> {
        if self.place == TargetKind::Path {
            return vec![Interface::Posix];
        }
        let wanted = |i: &Interface| self.interfaces.is_empty() || self.interfaces.contains(i);
        sensible.iter().copied().filter(wanted).collect()
    }

    /// A number of bytes, or of anything else that a larger experiment has more of, scaled; at
    /// least 1.
    #[allow(clippy::cast_sign_loss, reason = "a scale is above 0")]
    pub(crate) fn scaled(&self, number: u64) -> u64 {
        ((number as f64 * self.scale) as u64).max(1)
    }

    /// What no case can do anything with.
    pub(crate) fn check(&self, patterns: &[&str]) -> Result<(), SuiteError> {
        let asked = |text: String| Err(SuiteError::Asked(text));
        if let Some(unknown) = self
            .patterns
            .iter()
            .find(|p| !patterns.contains(&p.as_str()))
        {
            return asked(format!(
                "this case has no pattern {unknown:?}; it has {}",
                patterns.join(", ")
            ));
        }
        if !(self.scale > 0.0 && self.scale <= 1e6) {
            return asked(format!("a scale of {} is none: above 0", self.scale));
        }
        if self.records.contains(&0) || self.records.iter().any(|r| *r > 1 << 30) {
            return asked("records have 1 byte to 1 GiB".into());
        }
        if self.servers.iter().any(|n| !(1..=256).contains(n)) {
            return asked("1 to 256 servers can be measured".into());
        }
        if self.clients.iter().any(|n| !(1..=256).contains(n)) {
            return asked("1 to 256 clients can be started".into());
        }
        match self.place {
            TargetKind::Standing(most) if self.servers.iter().any(|n| *n > most) => {
                asked(format!("the volume has {most} servers only"))
            }
            TargetKind::Path if self.interfaces.iter().any(|i| *i != Interface::Posix) => {
                asked("on a path there are POSIX calls only".into())
            }
            TargetKind::Own | TargetKind::Standing(_)
                if self.interfaces.contains(&Interface::Posix) =>
            {
                asked("POSIX calls want a mounted path: --path DIR".into())
            }
            _ => Ok(()),
        }
    }
}

fn chosen<T: Copy>(asked: &[T], default: &[T]) -> Vec<T> {
    if asked.is_empty() {
        default.to_vec()
    } else {
        asked.to_vec()
    }
}
