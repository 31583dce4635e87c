//! The disk of an I/O server: chunks, cells and forks, log and recovery
