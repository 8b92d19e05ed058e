//! Seeded lives: `ENMASSE_CRASH_RUNS` is the number of seeds, `ENMASSE_CRASH_SEED` the first one.

/// Runs so many seeds by default; names the one that fails.
pub(crate) fn each_seed(runs: u64, live: fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: u64 = number("ENMASSE_CRASH_RUNS").unwrap_or(runs);
    let first: u64 = number("ENMASSE_CRASH_SEED").unwrap_or(1);
    for seed in first..first + runs {
        if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
            eprintln!("seed {seed}: run again with ENMASSE_CRASH_RUNS=1 ENMASSE_CRASH_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
