//! Patterns: which bytes, relative to a starting point, as values that compose.
//!
//! ```
//! use weft_layout::Pattern;
//!
//! // 64 bytes every 256, 1000 times; and eight such series, 1 MiB apart.
//! let records = Pattern::bytes(64).every(256).times(1000);
//! let blocks = records.every(1 << 20).times(8);
//! assert_eq!(blocks.length(), Ok(8 * 1000 * 64));
//! ```
//!
//! One tree stands for every kind of request: a contiguous one is a leaf, a strided one a
//! repetition of a leaf, a nested-strided one a repetition of repetitions, a nested-batched one
//! repeats a sequence, a list is a leaf of its own. Places are relative and may be negative; they
//! become places of a view, or of memory, when a [`Request`](crate::Request) or a
//! [`Memory`](crate::Request) is made, and everything is checked then.

pub mod array;

use thiserror::Error;

use crate::OFFSET_MAX;
use crate::limits::{DEPTH_MAX, NODES_MAX};

/// Which bytes, relative to a starting point, in the order in which the caller means them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Consecutive bytes from the starting point on.
    Bytes(u64),
    /// The same again and again.
    Repeat {
        /// What is repeated.
        body: Box<Pattern>,
        /// From one to the next, in bytes; may be negative or less than what is repeated.
        stride: i64,
        /// How often; 0 touches nothing.
        times: u64,
    },
    /// One after another, each displaced from the starting point.
    Sequence(Vec<(i64, Pattern)>),
    /// Runs of bytes: displacement and length of each.
    List(Vec<(i64, u64)>),
}

/// What is repeated at a distance, not yet how often; made by [`Pattern::every`].
#[derive(Clone, Debug)]
#[must_use = "say how many times"]
pub struct Every {
    body: Pattern,
    stride: i64,
}

impl Every {
    /// How often.
    pub fn times(self, times: u64) -> Pattern {
        Pattern::Repeat {
            body: Box::new(self.body),
            stride: self.stride,
            times,
        }
    }
}

impl Pattern {
    /// Consecutive bytes.
    pub fn bytes(length: u64) -> Pattern {
        Pattern::Bytes(length)
    }

    /// Runs of bytes, each by its displacement and its length.
    pub fn list(runs: impl IntoIterator<Item = (i64, u64)>) -> Pattern {
        Pattern::List(runs.into_iter().collect())
    }

    /// Repeats this every `stride` bytes; [`times`](Every::times) then says how often. A negative
    /// stride goes backwards from the first.
    pub fn every(self, stride: i64) -> Every {
        Every { body: self, stride }
    }

    /// This, and after it `next`, which starts at `displacement` from this one's starting point.
    #[must_use]
    pub fn then(self, displacement: i64, next: Pattern) -> Pattern {
        match self {
            Pattern::Sequence(mut members) => {
                members.push((displacement, next));
                Pattern::Sequence(members)
            }
            first => Pattern::Sequence(vec![(0, first), (displacement, next)]),
        }
    }

    /// This, displaced.
    #[must_use]
    pub fn at(self, displacement: i64) -> Pattern {
        Pattern::Sequence(vec![(displacement, self)])
    }

    /// Bytes that it touches, counted as often as it touches them.
    ///
    /// # Errors
    /// [`PatternError`] when it is too large to be counted, too deep or of too many nodes.
    pub fn length(&self) -> Result<u64, PatternError> {
        let mut nodes = 0;
        let bytes = self.count(0, &mut nodes)?;
        within(bytes).ok_or(PatternError::TooLong)
    }

    fn count(&self, depth: usize, nodes: &mut usize) -> Result<u128, PatternError> {
        if depth >= DEPTH_MAX {
            return Err(PatternError::TooDeep);
        }
        *nodes += 1;
        if *nodes > NODES_MAX {
            return Err(PatternError::TooManyNodes);
        }
        let bytes = match self {
            Pattern::Bytes(length) => u128::from(*length),
            Pattern::Repeat { body, times, .. } => {
                body.count(depth + 1, nodes)? * u128::from(*times)
            }
            Pattern::Sequence(members) => {
                let mut sum = 0;
                for (_, member) in members {
                    sum += member.count(depth + 1, nodes)?;
                }
                sum
            }
            Pattern::List(runs) => runs.iter().map(|run| u128::from(run.1)).sum(),
        };
        // Checked at every level, so that no product above it overflows.
        within(bytes).map(u128::from).ok_or(PatternError::TooLong)
    }
}

fn within(bytes: u128) -> Option<u64> {
    u64::try_from(bytes).ok().filter(|&b| b <= OFFSET_MAX)
}

/// Why a pattern is not legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Nested too deeply.
    #[error("the request is nested too deeply: at most {DEPTH_MAX} levels")]
    TooDeep,
    /// Too many nodes.
    #[error("the request has too many nodes: at most {NODES_MAX}; a list may be longer")]
    TooManyNodes,
    /// Touches more bytes than can be counted.
    #[error("the request touches more than {OFFSET_MAX} bytes")]
    TooLong,
    /// Reaches before the first byte or past the last.
    #[error("the request reaches from {first} to {end}: bytes are numbered from 0 to {OFFSET_MAX}")]
    OutOfRange {
        /// The first byte it touches.
        first: i128,
        /// One past the last.
        end: i128,
    },
    /// Touches a byte twice where that would make the result depend on the order.
    #[error("the request touches byte {at} more than once")]
    Overlap {
        /// Such a byte.
        at: u64,
    },
    /// Too irregular to see whether it touches a byte twice.
    #[error(
        "the request has {runs} runs too irregularly nested to see whether they overlap: \
         at most {most} are compared one by one"
    )]
    TooIrregular {
        /// Its runs.
        runs: u64,
        /// How many would be compared.
        most: u64,
    },
    /// A received request has too few or too many nodes for its tree.
    #[error("the request's nodes do not form one tree")]
    Incomplete,
    /// Two patterns that must be equally long are not.
    #[error("the pattern in memory has {memory} bytes, the request {request}: they must be equal")]
    Unequal {
        /// Bytes of the pattern in memory.
        memory: u64,
        /// Bytes of the request.
        request: u64,
    },
}
