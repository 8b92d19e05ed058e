//! The MQTT load tool by itself: `--name value` for every option of `enmasse_load::MqttOptions`, the
//! result as JSON on stdout.

use std::process::ExitCode;

use enmasse_load::{MqttOptions, run_mqtt};

fn main() -> ExitCode {
    match options().and_then(|options| run_mqtt(&options).map_err(|error| error.to_string())) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("enmasse-mqtt-load: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<MqttOptions, String> {
    let mut options = MqttOptions::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let usage = || format!("usage: enmasse-mqtt-load [--option value]...\n{}", MqttOptions::help());
        let name = argument.strip_prefix("--").ok_or_else(usage)?;
        let value = arguments.next().ok_or_else(usage)?;
        options.set(name, &value).map_err(|error| error.to_string())?;
    }
    Ok(options)
}
