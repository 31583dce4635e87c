//! A process of a client, from its start to its death: it connects, follows the watch, and does
//! several things at once, as the programs on a mount do.

mod change;
mod contest;
mod make;
mod process;
mod see;

pub(super) use self::process::live;
pub(super) use self::see::see;
