//! How many pieces of a row are data, and how many parity.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The most pieces of data in a row.
pub const DATA_MAX: u32 = 64;
/// The most pieces of parity in a row.
pub const PARITY_MAX: u32 = 4;

/// `k+m`: rows of k pieces of data and m of parity, any k of which give the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    data: u32,
    parity: u32,
}

/// Why numbers are no shape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// Not `k+m`.
    #[error("`{0}` is not of the form K+M, for example 4+1 or 8+2")]
    Form(String),
    /// A number is out of its bounds.
    #[error("parity {data}+{parity} is not possible: K is 1 to {DATA_MAX} and M 1 to {PARITY_MAX}")]
    Bounds {
        /// Pieces of data.
        data: u32,
        /// Pieces of parity.
        parity: u32,
    },
}

impl Shape {
    /// Rows of so many pieces of data and of parity.
    ///
    /// # Errors
    /// [`ShapeError::Bounds`].
    pub fn new(data: u32, parity: u32) -> Result<Self, ShapeError> {
        if (1..=DATA_MAX).contains(&data) && (1..=PARITY_MAX).contains(&parity) {
            Ok(Self { data, parity })
        } else {
            Err(ShapeError::Bounds { data, parity })
        }
    }

    /// Pieces of data in a row.
    pub fn data(self) -> u32 {
        self.data
    }

    /// Pieces of parity in a row: so many servers can be lost.
    pub fn parity(self) -> u32 {
        self.parity
    }

    /// All pieces of a row: so many servers a file needs.
    pub fn pieces(self) -> u32 {
        self.data + self.parity
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let form = || ShapeError::Form(text.to_owned());
        let (data, parity) = text.split_once('+').ok_or_else(form)?;
        let number = |digits: &str| digits.parse().map_err(|_| form());
        Self::new(number(data)?, number(parity)?)
    }
}
