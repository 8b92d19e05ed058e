//! A sample of seeds. `SEED=42 cargo test -p enmasse-sim` runs that seed alone and prints the
//! history of a violation; `ENMASSE_SIM_RUNS=5000` sets the number of seeds.

use enmasse_sim::{Fault, FaultCounts, Profile, RunStats, run};

/// Seeds of the sample, unless the environment sets another number.
const RUNS: u64 = 40;

/// A number from the environment.
fn asked_for(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

/// Runs the sample of a profile; returns its statistics, or `None` if the environment requests one
/// seed.
fn sample(profile: Profile) -> Option<(RunStats, FaultCounts)> {
    let only = asked_for("SEED");
    let runs = asked_for("ENMASSE_SIM_RUNS").unwrap_or(RUNS);
    let (mut stats, mut faults) = (RunStats::default(), FaultCounts::default());
    for seed in only.map_or(0..runs, |seed| seed..seed + 1) {
        match run(profile, seed) {
            Ok(report) => {
                stats.add(&report.stats);
                faults.add(&report.faults);
            }
            Err(violation) => panic!("{violation}\nseed {seed}: repeat it with SEED={seed}"),
        }
    }
    println!("{stats:?}\n{faults}");
    only.is_none().then_some((stats, faults))
}

#[test]
fn direct_addresses_keep_the_contract_for_a_sample_of_seeds() {
    if let Some((stats, _)) = sample(Profile::Direct) {
        assert!(stats.received > 10_000, "too little traffic: {stats:?}");
    }
}

#[test]
fn stored_addresses_keep_the_contract_for_a_sample_of_seeds() {
    if let Some((stats, faults)) = sample(Profile::Stored) {
        let happened = [stats.redelivered, stats.dead_letters, stats.commits, stats.read];
        assert!(happened.iter().all(|count| *count > 100), "too little traffic: {stats:?}");
        for fault in [Fault::Drop, Fault::Close, Fault::End, Fault::Detach, Fault::Kill, Fault::Power, Fault::Compact] {
            assert!(faults.count(fault) > 0 && faults.pair(fault, Fault::Drop) > 0, "{fault:?}\n{faults}");
        }
        for fault in [Fault::Kill, Fault::Power, Fault::Plan, Fault::Compact, Fault::Rollback] {
            assert!(faults.pair(fault, Fault::Chunk) > 0, "{fault:?} beside a batch in chunks\n{faults}");
        }
    }
}

#[test]
fn promises_to_clients_of_mqtt_are_kept_for_a_sample_of_seeds() {
    if let Some((stats, faults)) = sample(Profile::Devices) {
        assert!(stats.received > 5_000 && stats.outcomes > 2_000, "too little traffic: {stats:?}");
        for fault in [Fault::Drop, Fault::Kill, Fault::Power] {
            assert!(faults.count(fault) > 0, "{fault:?}\n{faults}");
        }
    }
}

#[test]
fn seed_gives_the_same_run_twice() {
    for profile in [Profile::Direct, Profile::Stored, Profile::Devices] {
        let digests = || (0..3).map(|seed| run(profile, seed).map(|report| report.digest)).collect::<Vec<_>>();
        assert_eq!(digests(), digests());
    }
}

/// Seed 335: a long message takes longer to pass a narrow connection than the other clients stay
/// silent. A run that ends by that silence misses messages that still wait in their sender's
/// output.
#[test]
fn a_run_does_not_end_while_a_client_has_output_left() {
    run(Profile::Direct, 335).unwrap();
}

/// Seed 90057: the power fails after a client has ended a durable subscription and created it
/// again, while the drop of the former one still waits to be written.
#[test]
fn a_subscription_that_was_created_again_is_the_only_one_of_its_name_after_a_power_loss() {
    run(Profile::Stored, 90_057).unwrap();
}
