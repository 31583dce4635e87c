//! Plug-ins of all kinds, good and bad.

mod plugins;
