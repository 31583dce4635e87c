//! Integer arithmetic for layouts: division by a constant, and arithmetic progressions modulo a
//! number.
//!
//! Owns no state; everything here is a pure function of numbers, and knows no layout, view or
//! piece. No step allocates. Each function states the range of its arguments; callers check it
//! once, when they make a value.

pub(crate) mod divisor;
pub(crate) mod modular;
pub(crate) mod progression;
