//! A node without a control plane: `serve PORT PLAN.json [WORKERS]`. For measuring the data plane
//! alone.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use enmasse_node::{Listener, ListenerKind, Node, NodeConfig};

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("serve: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until its standard input ends.
fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: serve PORT PLAN.json [WORKERS]; ends with its standard input";
    let (port, plan) = arguments.next().zip(arguments.next()).ok_or(usage)?;
    let workers = arguments.next().map_or(Ok(0), |count| count.parse())?;
    let node = Node::start(&NodeConfig { workers, ..NodeConfig::default() })?;
    node.apply(&serde_json::from_str(&std::fs::read_to_string(plan)?)?)?;
    let listener = Listener { kind: ListenerKind::Amqp, host: "127.0.0.1".to_owned(), port: port.parse()?, tls: None };
    println!("{}", node.listen(listener)?);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", serde_json::to_string(&node.stats()?)?);
    node.stop(Duration::from_secs(5));
    Ok(())
}
