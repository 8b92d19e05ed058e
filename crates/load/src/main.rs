//! The load tool by itself: `--name value` for every option of `enmasse_load::Options`, the result as JSON
//! on stdout.

use std::process::ExitCode;

use enmasse_load::Options;

fn main() -> ExitCode {
    match options().and_then(|options| enmasse_load::run(&options, &mut |_| true).map_err(|error| error.to_string())) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("enmasse-load: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let usage = || format!("usage: enmasse-load [--option value]...\n{}", Options::help());
        let name = argument.strip_prefix("--").ok_or_else(usage)?;
        let value = arguments.next().ok_or_else(usage)?;
        options.set(name, &value).map_err(|error| error.to_string())?;
    }
    Ok(options)
}
