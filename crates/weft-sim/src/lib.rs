//! Whole volumes on one thread from a seed
