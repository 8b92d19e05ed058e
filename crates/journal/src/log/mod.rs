//! The segment log: records, group commit, recovery, space.
