//! The bare forwarder as a program: see the library.

use std::io::Write;
use std::process::ExitCode;

use enmasse_forwarder::Forwarder;

const USAGE: &str = "usage: enmasse-forwarder [--port N] [--sink CREDIT]
  --port N       listen on 127.0.0.1:N (default 0: a free one; the first line on stdout names it)
  --sink CREDIT  forward nothing: give producers CREDIT and accept at once (what a sender alone can do)";

fn main() -> ExitCode {
    match serve(std::env::args().skip(1)) {
        Ok(never) => match never {},
        Err(message) => {
            eprintln!("enmasse-forwarder: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut arguments: impl Iterator<Item = String>) -> Result<std::convert::Infallible, String> {
    let (mut port, mut sink) = (0, None);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match name.as_str() {
            "--port" => port = value.parse().map_err(|_| format!("--port {value}: no port number"))?,
            "--sink" => sink = Some(value.parse().map_err(|_| format!("--sink {value}: no number of messages"))?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let mut forwarder = Forwarder::bind(port, sink).map_err(|error| format!("port {port}: {error}"))?;
    let address = forwarder.local_addr().map_err(|error| error.to_string())?;
    println!("listening on {address}");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    forwarder.run().map_err(|error| error.to_string())
}
