//! Long runs: `enmasse-sim [FIRST [COUNT]]` lives through COUNT seeds from FIRST on (0 and 1000) and stops at the
//! first fault.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (first, count) = (numbers.next().unwrap_or(Ok(0)), numbers.next().unwrap_or(Ok(1000)));
    let (Ok(first), Ok(count)) = (first, count) else {
        eprintln!("usage: enmasse-sim [FIRST [COUNT]]");
        return ExitCode::from(2);
    };
    for seed in first..first.saturating_add(count) {
        match enmasse_sim::run(seed) {
            Ok(report) => println!("seed {seed}: {:?}", report.figures),
            Err(fault) => {
                eprintln!("{fault}\nseed {seed} failed");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
