//! The client of a volume: attach, views, reads and writes, the namespace
