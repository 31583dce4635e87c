//! All tests of the store in one program: linking one for each file took most of the time of a
//! build.

mod common;

mod addressed;
mod admission;
mod background;
mod bad_blocks;
mod basics;
mod cache;
mod checkpoint_files;
mod checkpoints;
mod clear;
mod corruption;
mod crash_index;
mod crash_marks;
mod crash_table;
mod disks;
mod folder;
mod full;
mod golden;
mod landing;
mod large;
mod log_doubt;
mod log_loss;
mod losses;
mod model;
mod older;
mod promises;
mod runs;
mod scrub;
mod tails;
mod trim;
