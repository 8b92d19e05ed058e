//! The system has no descriptor left: accepting pauses, accepted connections are served, and
//! accepting resumes by itself. A separate process, because the limit applies to the whole process.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use enmasse_node::{EventKind, Listener, ListenerKind, Node, NodeConfig};
use rustix::process::{Resource, getrlimit, setrlimit};

const HEADER: &[u8] = b"AMQP\x00\x01\x00\x00";
const PATIENCE: Duration = Duration::from_secs(20);

fn greet(socket: &mut TcpStream) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(HEADER).unwrap();
    let mut answer = [0; 8];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, HEADER);
}

#[test]
fn accepting_pauses_without_descriptors_and_loses_no_connection() {
    let node = Node::start(&NodeConfig { workers: 1, ..NodeConfig::default() }).unwrap();
    let plan = include_str!("../../../vectors/plans/open.json");
    node.apply(&serde_json::from_str(plan).unwrap()).unwrap();
    let listener = Listener { kind: ListenerKind::Amqp, host: "127.0.0.1".to_owned(), port: 0, tls: None };
    let port = node.listen(listener).unwrap();
    let mut inside = TcpStream::connect(("127.0.0.1", port)).unwrap();
    greet(&mut inside);
    // The node has read its bound already; now the limit falls below it, and the remaining
    // descriptors are used up.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut taken: Vec<File> = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken.pop();
    // The last descriptor is for our own end of the connection, and the node finds none for its
    // end.
    let mut waiting = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let start = Instant::now();
    let reason = loop {
        let paused = node.events(100).into_iter().find_map(|event| match event.what {
            EventKind::AcceptPaused { reason } => Some(reason),
            _ => None,
        });
        if let Some(reason) = paused {
            break reason;
        }
        assert!(start.elapsed() < PATIENCE, "accepting never met the limit");
        std::thread::yield_now();
    };
    assert!(reason.contains("open files"), "{reason}");
    assert_eq!(node.stats().unwrap().connections, 1);
    taken.clear();
    greet(&mut waiting);
    assert_eq!(node.stats().unwrap().accept_pauses, 1);
    node.stop(Duration::from_secs(2));
}
