//! The time to open a log with many messages, and the memory of the result.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use enmasse_journal::log::{Config, Log, Target, WriteBatch};

use crate::commits::{BODY_BYTES, HEAD_BYTES, noise};
use crate::disk::FolderDisk;

pub(crate) const HEADING: &str = "| stored | GiB on disk | written at records/s | opened in s, page cache empty | again in s | memory MiB | bytes/message |\n|---|---|---|---|---|---|---|";
const GROUP: u64 = 8000;

/// Fills a log, then opens it.
pub(crate) fn run(folder: &Path, count: u64) -> Result<String, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    fill(folder, count)?;
    let filled_s = begun.elapsed().as_secs_f64();
    let size: u64 = std::fs::read_dir(folder)?
        .map(|entry| entry?.metadata().map(|data| data.len()))
        .sum::<std::io::Result<u64>>()?;
    drop_page_cache(folder)?;
    let before = resident_bytes()?;
    let (cold_s, found, memory) = open(folder, before)?;
    let (warm_s, _, _) = open(folder, before)?;
    if found != count {
        return Err(format!("{found} of {count} messages were found").into());
    }
    Ok(format!(
        "| {count} | {:.1} | {:.0} | {cold_s:.2} | {warm_s:.2} | {:.0} | {:.0} |",
        size as f64 / f64::from(1 << 30),
        count as f64 / filled_s,
        memory as f64 / f64::from(1 << 20),
        memory as f64 / count as f64,
    ))
}

fn config() -> Config {
    Config { secret: 1, ..Config::default() }
}

fn fill(folder: &Path, count: u64) -> Result<(), Box<dyn std::error::Error>> {
    let (mut log, _) = Log::open(Arc::new(FolderDisk::open(folder)?), config())?;
    let bodies = noise(BODY_BYTES + 4096);
    let mut batch = WriteBatch::new();
    batch.declare(1, &[1; 16], "bench");
    for seq in 0..count {
        let start = (seq % 4096) as usize;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&seq.to_le_bytes());
        batch.message(&[Target { queue: 1, seq, head: &head }], &bodies[start..start + BODY_BYTES]);
        if seq % GROUP == GROUP - 1 || seq + 1 == count {
            log.append(&mut batch)?;
            log.sync()?;
            batch.clear();
            log.turn()?;
        }
    }
    Ok(())
}

/// Drops the page cache of these files.
fn drop_page_cache(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for entry in std::fs::read_dir(folder)? {
        let file = std::fs::File::open(entry?.path())?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

fn open(folder: &Path, before: u64) -> Result<(f64, u64, u64), Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let (log, recovered) = Log::open(Arc::new(FolderDisk::open(folder)?), config())?;
    let took_s = begun.elapsed().as_secs_f64();
    let found = recovered.queues.iter().map(|queue| queue.len() as u64).sum();
    let memory = resident_bytes()?.saturating_sub(before);
    drop(log);
    Ok((took_s, found, memory))
}

fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).ok_or("statm")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
