//! Arrays of several dimensions in a file: a shape and an element over the file's bytes.
//!
//! Nothing below knows of them: a hyperslab is a nested-strided pattern like any other. A
//! file may say in an attribute what array it holds ([`ATTRIBUTE`]), in the text form of [`Array`]:
//!
//! ```
//! use weft_layout::array::{Array, Slab};
//!
//! let matrix: Array = "f64 1000x500".parse()?;
//! // Every tenth row from the third on, of it columns 20 to 29.
//! let slab = [Slab::from(2).every(10).times(100), Slab::from(20).block(10)];
//! let (offset, pattern) = matrix.hyperslab(&slab)?;
//! assert_eq!(offset.0, (2 * 500 + 20) * 8);
//! assert_eq!(pattern.length()?, 100 * 10 * 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{OFFSET_MAX, Pattern, ViewOffset};

/// The extended attribute that says which array a file holds.
pub const ATTRIBUTE: &str = "user.weft.array";
pub use crate::limits::DIMENSIONS_MAX;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Unsigned integer of so many bytes: 1, 2, 4 or 8.
    Unsigned(u8),
    /// Signed integer of so many bytes: 1, 2, 4 or 8.
    Signed(u8),
    /// Floating-point number of so many bytes: 2, 4 or 8.
    Float(u8),
    /// So many bytes, at least one, of whatever meaning.
    Opaque(u32),
}

/// Which dimension is contiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ArrayOrder {
    /// The last: rows lie in a row, as in C.
    #[default]
    Row,
    /// The first: columns do, as in Fortran.
    Column,
}

/// An array from the first byte of a view on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    element: Element,
    shape: Vec<u64>,
    order: ArrayOrder,
}

/// What of one dimension is touched: `count` blocks of `block` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slab {
    /// The first element.
    pub start: u64,
    /// From the first element of one block to that of the next, at least 1.
    pub stride: u64,
    /// How many blocks.
    pub count: u64,
    /// Elements of each.
    pub block: u64,
}

impl Slab {
    /// One element.
    pub fn from(start: u64) -> Slab {
        Slab {
            start,
            stride: 1,
            count: 1,
            block: 1,
        }
    }

    /// Blocks this far apart.
    #[must_use]
    pub fn every(self, stride: u64) -> Slab {
        Slab { stride, ..self }
    }

    /// So many blocks.
    #[must_use]
    pub fn times(self, count: u64) -> Slab {
        Slab { count, ..self }
    }

    /// Blocks of so many elements.
    #[must_use]
    pub fn block(self, block: u64) -> Slab {
        Slab { block, ..self }
    }

    /// Its blocks do not overlap.
    fn is_apart(&self) -> bool {
        self.count == 1 || self.stride >= self.block
    }

    /// Why it does not fit a dimension of so many elements, in words.
    fn fault(&self, size: u64) -> String {
        let (stride, block) = (self.stride, self.block);
        match self.end() {
            _ if !self.is_apart() => {
                format!(
                    "overlaps itself: blocks of {block}, one every {stride} (START:STRIDE:COUNT:BLOCK)"
                )
            }
            Some(end) => format!("reaches element {}; the last is {}", end - 1, size - 1),
            None => "reaches past every element".to_owned(),
        }
    }

    /// One past the last element.
    fn end(&self) -> Option<u64> {
        let blocks = self.count.checked_sub(1)?.checked_mul(self.stride)?;
        self.start.checked_add(blocks)?.checked_add(self.block)
    }
}

impl fmt::Display for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slab {
            start,
            stride,
            count,
            block,
        } = self;
        write!(f, "{start}:{stride}:{count}:{block}")
    }
}

/// Why something is no array, or no hyperslab of one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// The text is not of the form of an array.
    #[error(
        "`{text}` is not an array description: write element, shape and perhaps order, as in `f64 1000x500 column`; elements are \
         u8 u16 u32 u64, i8 to i64, f16 f32 f64, or bytesN"
    )]
    Text {
        /// The text.
        text: String,
    },
    /// The shape has no or too many dimensions, an empty one, or more bytes than a file.
    #[error(
        "no array can have the shape {shape:?}: 1 to {DIMENSIONS_MAX} dimensions, none empty, at most {OFFSET_MAX} bytes"
    )]
    Shape {
        /// The shape.
        shape: Vec<u64>,
    },
    /// The hyperslab has another number of dimensions.
    #[error("the array has {array} dimensions, the hyperslab {slabs}")]
    Dimensions {
        /// Of the array.
        array: usize,
        /// Of the hyperslab.
        slabs: usize,
    },
    /// The hyperslab reaches past a dimension, or overlaps itself.
    #[error("dimension {dimension} has {size} elements, and {slab} {}", slab.fault(*size))]
    Slab {
        /// Which, from 0.
        dimension: usize,
        /// Its elements.
        size: u64,
        /// What was asked for.
        slab: Slab,
    },
}

impl Element {
    /// Its bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Element::Unsigned(bytes) | Element::Signed(bytes) | Element::Float(bytes) => {
                bytes.into()
            }
            Element::Opaque(bytes) => bytes.into(),
        }
    }
}

impl Array {
    /// Checks an array.
    ///
    /// # Errors
    /// [`ArrayError::Shape`].
    pub fn new(element: Element, shape: Vec<u64>, order: ArrayOrder) -> Result<Array, ArrayError> {
        let bytes = shape
            .iter()
            .try_fold(element.bytes(), |all, size| all.checked_mul(*size));
        let fits = bytes.is_some_and(|bytes| (1..=OFFSET_MAX).contains(&bytes));
        if shape.is_empty() || shape.len() > DIMENSIONS_MAX || !fits {
            return Err(ArrayError::Shape { shape });
        }
        Ok(Array {
            element,
            shape,
            order,
        })
    }

    /// What an element is.
    pub fn element(&self) -> Element {
        self.element
    }

    /// Elements in each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Which dimension is contiguous.
    pub fn order(&self) -> ArrayOrder {
        self.order
    }

    /// The elements of the array that all of these slabs, one for each dimension, select: where
    /// they start, and their pattern, in the array's order. An empty hyperslab touches nothing.
    ///
    /// # Errors
    /// [`ArrayError::Dimensions`], [`ArrayError::Slab`].
    pub fn hyperslab(&self, slabs: &[Slab]) -> Result<(ViewOffset, Pattern), ArrayError> {
        if slabs.len() != self.shape.len() {
            return Err(ArrayError::Dimensions {
                array: self.shape.len(),
                slabs: slabs.len(),
            });
        }
        if slabs.iter().any(|slab| slab.count == 0 || slab.block == 0) {
            return Ok((ViewOffset(0), Pattern::Bytes(0)));
        }
        let mut dimensions: Vec<usize> = (0..slabs.len()).collect();
        if self.order == ArrayOrder::Row {
            dimensions.reverse();
        }
        let mut step = self.element.bytes();
        let mut offset = 0;
        let mut pattern = None;
        for dimension in dimensions {
            let (size, slab) = (self.shape[dimension], slabs[dimension]);
            if !slab.is_apart() || slab.end().is_none_or(|end| end > size) {
                return Err(ArrayError::Slab {
                    dimension,
                    size,
                    slab,
                });
            }
            offset += slab.start * step;
            let block = match pattern {
                None => Pattern::Bytes(slab.block * step),
                Some(inner) => times(inner, step, slab.block),
            };
            pattern = Some(times(block, slab.stride * step, slab.count));
            step *= size;
        }
        let pattern = pattern.expect("an array has at least one dimension");
        Ok((ViewOffset(offset), pattern))
    }
}

fn times(pattern: Pattern, stride: u64, times: u64) -> Pattern {
    match times {
        1 => pattern,
        times => pattern.every(stride.cast_signed()).times(times),
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            Element::Unsigned(bytes) => write!(f, "u{} ", u32::from(bytes) * 8)?,
            Element::Signed(bytes) => write!(f, "i{} ", u32::from(bytes) * 8)?,
            Element::Float(bytes) => write!(f, "f{} ", u32::from(bytes) * 8)?,
            Element::Opaque(bytes) => write!(f, "bytes{bytes} ")?,
        }
        for (i, size) in self.shape.iter().enumerate() {
            write!(f, "{}{size}", if i > 0 { "x" } else { "" })?;
        }
        match self.order {
            ArrayOrder::Row => Ok(()),
            ArrayOrder::Column => write!(f, " column"),
        }
    }
}

impl FromStr for Array {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Array, ArrayError> {
        let parsed = || {
            let mut words = text.split_whitespace();
            let element = element(words.next()?)?;
            let shape = words
                .next()?
                .split('x')
                .map(|n| n.parse().ok())
                .collect::<Option<_>>()?;
            let order = match words.next() {
                None | Some("row") => ArrayOrder::Row,
                Some("column") => ArrayOrder::Column,
                Some(_) => return None,
            };
            words.next().is_none().then_some((element, shape, order))
        };
        let (element, shape, order) = parsed().ok_or_else(|| ArrayError::Text {
            text: text.to_owned(),
        })?;
        Array::new(element, shape, order)
    }
}

fn element(word: &str) -> Option<Element> {
    if let Some(bytes) = word.strip_prefix("bytes") {
        let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0)?;
        return Some(Element::Opaque(bytes));
    }
    let bits = |least: u8| {
        let bits: u8 = word.get(1..)?.parse().ok()?;
        (bits.is_power_of_two() && bits >= least && bits <= 64).then_some(bits / 8)
    };
    match word.as_bytes().first()? {
        b'u' => bits(8).map(Element::Unsigned),
        b'i' => bits(8).map(Element::Signed),
        b'f' => bits(16).map(Element::Float),
        _ => None,
    }
}
