//! The referee: what it finds in histories that are known to be wrong, and what it leaves alone.

mod judged;
mod outside;
