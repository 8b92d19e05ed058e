//! A sample of seeds. `SEED=42 cargo test -p enmasse-sim` lives through that one alone and shows what led to a fault;
//! `ENMASSE_SIM_RUNS=2000` makes the sample that long.

use enmasse_sim::run;

/// Seeds of the sample, unless the environment asks for more.
const RUNS: u64 = 40;

/// A number from the environment.
fn asked_for(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

#[test]
fn the_promises_hold_for_a_sample_of_seeds() {
    let only = asked_for("SEED");
    let runs = asked_for("ENMASSE_SIM_RUNS").unwrap_or(RUNS);
    let seeds = only.map_or(0..runs, |seed| seed..seed + 1);
    let mut received = 0;
    for seed in seeds {
        match run(seed) {
            Ok(report) => received += report.figures.received,
            Err(fault) => panic!("{fault}\nseed {seed}: replay it with SEED={seed}"),
        }
    }
    assert!(only.is_some() || received > 10_000, "a sample in which little happens proves little: {received}");
}

#[test]
fn a_seed_is_lived_through_the_same_way_twice() {
    let digests = || (0..3).map(|seed| run(seed).map(|report| report.digest)).collect::<Vec<_>>();
    assert_eq!(digests(), digests());
}

/// Seed 335: a long message needs longer to pass a narrow connection than everybody else stays silent. A run that ends by
/// that silence misses messages that still wait in their sender's output.
#[test]
fn a_run_does_not_end_while_a_client_has_output_left() {
    run(335).unwrap();
}
