//! The bare MQTT echo as a program: see `mqtt` of the library.

use std::io::Write;
use std::process::ExitCode;

use enmasse_forwarder::MqttEcho;

const USAGE: &str = "usage: enmasse-mqtt-echo [PORT]
  PORT  listen on 127.0.0.1:PORT (default 0: a free one; the first line on stdout names it)";

fn main() -> ExitCode {
    match serve() {
        Ok(never) => match never {},
        Err(message) => {
            eprintln!("enmasse-mqtt-echo: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<std::convert::Infallible, String> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse()).map_err(|_| USAGE)?;
    let mut echo = MqttEcho::bind(port).map_err(|error| format!("port {port}: {error}"))?;
    println!("listening on {}", echo.local_addr().map_err(|error| error.to_string())?);
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    echo.run().map_err(|error| error.to_string())
}
