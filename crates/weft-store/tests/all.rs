//! All tests of the store in one program: linking a program for each file took most of the time of
//! a build.

mod common;

mod addressed;
mod addressed_forks;
mod admission;
mod background;
mod bad_blocks;
mod basics;
mod cache;
mod checkpoint_files;
mod checkpoints;
mod clear;
mod coded;
mod corruption;
mod crash_index;
mod crash_marks;
mod crash_table;
mod deferred_truncation;
mod disks;
mod folder;
mod full;
mod golden;
mod large;
mod log_doubt;
mod log_loss;
mod losses;
mod model;
mod older;
mod received_data;
mod runs;
mod scrub;
mod trim;
mod unplaced_writes;
