//! Short loads through the bare forwarder, and the errors of a run.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use enmasse_forwarder::Forwarder;
use serde_json::Value;

use super::{Options, Progress, run};
use enmasse_client::ErrorKind;
use enmasse_client::testing::{PASSWORD, Server, USER};
use enmasse_client::url::Url;

fn forwarder(sink: Option<u32>) -> u16 {
    let mut forwarder = Forwarder::bind(0, sink).unwrap();
    let port = forwarder.local_addr().unwrap().port();
    std::thread::spawn(move || forwarder.run());
    port
}

fn options(port: u16, pairs: &[(&str, &str)]) -> Options {
    let mut options =
        Options { duration: Duration::from_millis(200), warmup: Duration::from_millis(50), ..Options::default() };
    options.set("url", &format!("amqp://127.0.0.1:{port}/")).unwrap();
    options.set("pids", &std::process::id().to_string()).unwrap();
    for (name, value) in pairs {
        options.set(name, value).unwrap();
    }
    options
}

fn load(port: u16, pairs: &[(&str, &str)]) -> Value {
    let text = run(&options(port, pairs), &mut |_| true).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Asserts that no message was lost or duplicated and that there are measurements.
fn assert_whole(result: &Value) {
    let totals = &result["totals"];
    assert_eq!(totals["sent"], totals["received"], "{result}");
    for name in ["missing", "reordered", "foreign", "rejected", "released", "modified"] {
        assert_eq!(totals[name], 0, "{name}: {result}");
    }
    assert!(result["messages"].as_u64().unwrap() > 0, "{result}");
    assert!(result["messages_per_s"].as_f64().unwrap() > 0.0, "{result}");
    let latency = &result["latency"];
    assert!(latency["count"].as_u64().unwrap() > 0, "{result}");
    assert!(latency["p50_us"].as_f64().unwrap() <= latency["max_us"].as_f64().unwrap(), "{result}");
}

#[test]
fn every_unsettled_message_arrives_and_is_accepted() {
    let result = load(forwarder(None), &[]);
    assert_whole(&result);
    assert_eq!(result["totals"]["accepted"], result["totals"]["sent"]);
    assert!(result["settlement"]["count"].as_u64().unwrap() > 0);
    assert!(result["cpu"]["tool_us_per_message"].as_f64().unwrap() > 0.0);
    assert!(result["server_resident_kib"].as_u64().unwrap() > 0);
}

#[test]
fn presettled_messages_arrive_without_settlement() {
    let result = load(forwarder(None), &[("presettled", "true")]);
    assert_whole(&result);
    assert_eq!(result["totals"]["accepted"], 0);
    assert_eq!(result["settlement"], Value::Null);
}

#[test]
fn four_senders_share_four_receivers() {
    let result = load(forwarder(None), &[("senders", "4"), ("receivers", "4"), ("body", "1024")]);
    assert_whole(&result);
    assert!(result["mib_per_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn messages_of_different_addresses_are_not_mixed() {
    // There are as many addresses as links of each side. A message at the wrong receiver would be
    // out of order there.
    let pairs = [("senders", "3"), ("receivers", "3"), ("addresses", "3"), ("address", "a%d")];
    assert_whole(&load(forwarder(None), &pairs));
}

#[test]
fn large_durable_messages_are_all_delivered() {
    assert_whole(&load(forwarder(None), &[("body", "65536"), ("durable", "true"), ("credit", "50")]));
}

#[test]
fn a_fixed_rate_is_kept_and_every_message_is_timed() {
    let result = load(forwarder(None), &[("rate", "2000"), ("duration", "0.5")]);
    assert_whole(&result);
    let sent = result["sent_per_s"].as_f64().unwrap();
    assert!((1200.0..=2800.0).contains(&sent), "{result}");
    let timed = result["latency"]["count"].as_u64().unwrap();
    assert!(timed + 10 >= result["messages"].as_u64().unwrap() * 9 / 10, "{result}");
}

#[test]
fn sink_measures_senders_without_receivers() {
    let result = load(forwarder(Some(500)), &[("receivers", "0")]);
    assert_eq!(result["totals"]["accepted"], result["totals"]["sent"]);
    assert!(result["messages"].as_u64().unwrap() > 0);
    assert!(result["settlement"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn run_ends_after_the_given_number_of_messages() {
    let server = Server::open();
    let pairs = [("messages", "700"), ("senders", "2"), ("receivers", "2")];
    let result = load_at(&server.listen("amqp"), &server, &pairs);
    assert_whole(&result);
    assert_eq!((&result["totals"]["sent"], &result["messages"]), (&Value::from(1400), &Value::from(1400)), "{result}");
    let result = load(forwarder(Some(500)), &[("messages", "5000"), ("receivers", "0")]);
    assert_eq!((&result["totals"]["accepted"], &result["messages"]), (&Value::from(5000), &Value::from(5000)));
}

#[test]
fn receivers_only_run_receives_messages_of_another_run() {
    let port = forwarder(None);
    let receiving = std::thread::spawn(move || load(port, &[("messages", "3000"), ("senders", "0")]));
    let sent = load(port, &[("messages", "3000"), ("receivers", "0")]);
    let got = receiving.join().unwrap();
    assert_eq!((&sent["totals"]["accepted"], &got["messages"]), (&Value::from(3000), &Value::from(3000)), "{got}");
    for name in ["missing", "reordered", "foreign"] {
        assert_eq!(got["totals"][name], 0, "{name}: {got}");
    }
}

#[test]
fn idle_mode_reports_connections_and_memory_per_connection() {
    let pairs = [("mode", "idle"), ("connections", "100"), ("parallel", "7"), ("duration", "0.1")];
    for link in ["none", "receiver", "sender"] {
        let result = load(forwarder(None), &[&pairs[..], &[("link", link)]].concat());
        assert_eq!((&result["connections"], &result["setup"]["count"]), (&Value::from(100), &Value::from(100)));
        assert!(result["kib_per_connection"].is_number(), "{result}");
    }
}

#[test]
fn connect_mode_opens_and_closes_connections() {
    let result = load(forwarder(None), &[("mode", "connect"), ("parallel", "4"), ("link", "receiver")]);
    assert!(result["connections"].as_u64().unwrap() > 10, "{result}");
    assert!(result["setup"]["p50_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn progress_reports_the_phases_in_order() {
    let mut phases: Vec<&str> = Vec::new();
    let mut see = |progress: Progress| {
        assert!((0.0..=1.0).contains(&progress.fraction));
        if phases.last() != Some(&progress.phase) {
            phases.push(progress.phase);
        }
        true
    };
    run(&options(forwarder(None), &[]), &mut see).unwrap();
    phases.retain(|phase| *phase != "connect");
    assert_eq!(phases, ["warm up", "measure", "drain"]);
}

#[test]
fn run_stops_early_on_request() {
    for mode in ["load", "idle", "connect"] {
        let pairs = [("duration", "3600"), ("mode", mode), ("connections", "2")];
        let error = run(&options(forwarder(None), &pairs), &mut |progress| progress.phase != "measure").unwrap_err();
        assert!(error.message.contains("stopped early"), "{mode}: {error}");
    }
}

#[test]
fn absent_server_is_an_unavailable_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = run(&options(port, &[]), &mut |_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[test]
fn server_of_another_protocol_is_a_peer_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            // the probe sends nothing; the connections after it send a protocol header
            if stream.read_exact(&mut [0; 8]).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        }
    });
    for mode in ["load", "idle"] {
        let error = run(&options(port, &[("mode", mode), ("connections", "2")]), &mut |_| true).unwrap_err();
        assert_eq!(error.kind, ErrorKind::PeerError, "{error}");
    }
}

/// A load on a node, at a listener of it.
fn load_at(url: &Url, server: &Server, pairs: &[(&str, &str)]) -> Value {
    let mut options = options(url.port, pairs);
    options.url = url.clone();
    options.tls.ca = Some(server.ca());
    serde_json::from_str(&run(&options, &mut |_| true).unwrap()).unwrap()
}

#[test]
fn node_forwards_every_message() {
    let server = Server::open();
    let url = server.listen("amqp");
    for presettled in ["false", "true"] {
        assert_whole(&load_at(&url, &server, &[("presettled", presettled), ("senders", "2"), ("receivers", "2")]));
    }
    let rate = [("rate", "1000"), ("body", "300000")];
    assert_whole(&load_at(&url, &server, &rate));
}

#[test]
fn many_links_share_a_few_connections() {
    let server = Server::open();
    let pairs = [("senders", "10"), ("receivers", "10"), ("addresses", "10"), ("address", "a%d"), ("connections", "4")];
    assert_whole(&load_at(&server.listen("amqp"), &server, &pairs));
}

#[test]
fn every_receiver_of_a_multicast_gets_every_message() {
    let server = Server::open();
    let pairs = [("address", "multicast"), ("multicast", "true"), ("receivers", "5")];
    let result = load_at(&server.listen("amqp"), &server, &pairs);
    let totals = &result["totals"];
    assert_eq!(totals["received"].as_u64().unwrap(), 5 * totals["sent"].as_u64().unwrap(), "{result}");
    assert_eq!((&totals["missing"], &totals["reordered"]), (&Value::from(0), &Value::from(0)), "{result}");
}

#[test]
fn load_runs_over_every_transport() {
    let server = Server::open();
    for scheme in ["amqps", "ws", "wss"] {
        assert_whole(&load_at(&server.listen(scheme), &server, &[("body", "5000")]));
    }
}

#[test]
fn connections_log_in_with_each_mechanism() {
    let server = Server::closed();
    let user = |url: Url, password: &str| Url { user: Some(USER.into()), password: Some(password.into()), ..url };
    let url = user(server.listen("amqps"), PASSWORD);
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let pairs = [("mode", "connect"), ("parallel", "4"), ("mechanism", mechanism), ("duration", "0.5")];
        let result = load_at(&url, &server, &pairs);
        assert!(result["connections"].as_u64().unwrap() > 0, "{mechanism}: {result}");
    }
    let mut options = options(url.port, &[]);
    (options.url, options.tls.ca) = (user(url, "wrong"), Some(server.ca()));
    assert_eq!(run(&options, &mut |_| true).unwrap_err().kind, ErrorKind::Denied);
}

#[test]
fn refused_link_is_reported_with_the_servers_error() {
    let server = Server::open();
    let url = server.listen("amqp");
    let error = run(&options(url.port, &[("address", "nowhere")]), &mut |_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Missing);
    assert!(error.message.contains("nowhere"), "{error}");
}
