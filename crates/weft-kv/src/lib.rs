//! The ordered transactional key-value trait and its two engines
