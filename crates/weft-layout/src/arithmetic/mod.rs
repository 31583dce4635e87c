//! Number theory below the layouts: division by a constant, and arithmetic progressions modulo a
//! number.

pub(crate) mod divisor;
pub(crate) mod modular;
pub(crate) mod progression;
