//! The segment log as its owner and its shards use it, on a simulated disk.

mod assembled;
mod basics;
mod catalog;
mod chunks;
mod crash;
mod damage;
mod garbage;
mod history;
mod joint;
mod recent;
mod shard;
