//! Long runs: `enmasse-sim [FIRST [COUNT [PROFILE]]]` runs COUNT seeds from FIRST on (0 and 1000)
//! of the profile `direct`, `stored` or `devices`, or of all, stops at the first violation, and reports how
//! often each fault and each pair of faults happened.

use std::process::ExitCode;

use enmasse_sim::{FaultCounts, Profile, RunStats, run};

const USAGE: &str = "usage: enmasse-sim [FIRST [COUNT [direct|stored|devices]]]";

fn options() -> Option<(u64, u64, Vec<Profile>)> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Some(default), |argument| argument.parse().ok());
    let (first, count) = (number(0)?, number(1000)?);
    let profiles = match arguments.next().as_deref() {
        None => vec![Profile::Direct, Profile::Stored, Profile::Devices],
        Some("direct") => vec![Profile::Direct],
        Some("stored") => vec![Profile::Stored],
        Some("devices") => vec![Profile::Devices],
        Some(_) => return None,
    };
    Some((first, count, profiles))
}

fn main() -> ExitCode {
    let Some((first, count, profiles)) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (mut stats, mut faults) = (RunStats::default(), FaultCounts::default());
    let mut code = ExitCode::SUCCESS;
    'seeds: for seed in first..first.saturating_add(count) {
        for profile in &profiles {
            match run(*profile, seed) {
                Ok(report) => {
                    stats.add(&report.stats);
                    faults.add(&report.faults);
                }
                Err(violation) => {
                    eprintln!("{violation}\nseed {seed} of the profile {profile:?} failed");
                    code = ExitCode::FAILURE;
                    break 'seeds;
                }
            }
        }
    }
    println!("{stats:?}\n\nFaults, and how often two of them came within 50 ms:\n{faults}");
    code
}
