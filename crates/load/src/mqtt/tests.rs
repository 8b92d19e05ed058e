//! The MQTT load against the bare echo.

use std::thread;
use std::time::Duration;

use enmasse_forwarder::MqttEcho;
use serde_json::Value;

use super::{MqttOptions, run};

/// A report of a short run against an echo.
fn report(pairs: &[(&str, &str)]) -> Value {
    let mut echo = MqttEcho::bind(0).unwrap();
    let url = format!("mqtt://{}", echo.local_addr().unwrap());
    thread::spawn(move || echo.run());
    let mut options = MqttOptions { warmup: Duration::from_millis(20), ..MqttOptions::default() };
    options.set("url", &url).unwrap();
    options.set("duration", "0.1").unwrap();
    for (name, value) in pairs {
        options.set(name, value).unwrap();
    }
    serde_json::from_str(&run(&options).unwrap()).unwrap()
}

fn assert_complete(report: &Value, copies: u64) {
    let total = |name: &str| report["totals"][name].as_i64().unwrap();
    assert!(report["messages_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(total("received"), total("sent") * copies as i64, "{report}");
    assert_eq!((total("missing"), total("foreign"), total("reordered")), (0, 0, 0), "{report}");
}

#[test]
fn messages_of_qos_0_and_1_arrive() {
    assert_complete(&report(&[]), 1);
    let report = report(&[("qos", "1"), ("window", "50")]);
    assert_complete(&report, 1);
    assert_eq!(report["totals"]["acknowledged"], report["totals"]["sent"]);
    assert!(report["acknowledgement"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn every_subscriber_gets_every_message() {
    assert_complete(&report(&[("subscribers", "7"), ("publishers", "3")]), 7);
}

#[test]
fn filters_are_subscribed_in_chunks() {
    let report = report(&[("wildcards", "1234"), ("filter", "bench/+")]);
    // The echo sends each message to every connection that has subscribed.
    let total = |name: &str| report["totals"][name].as_u64().unwrap();
    assert_eq!(total("received"), 2 * total("sent"));
}

#[test]
fn a_rate_is_kept_and_timed() {
    let report = report(&[("rate", "2000"), ("qos", "1")]);
    assert_complete(&report, 1);
    assert!(report["latency"]["count"].as_u64().unwrap() > 0);
    assert!(report["messages_per_s"].as_f64().unwrap() < 4000.0);
}

#[test]
fn connections_are_held_and_opened() {
    let idle = report(&[("mode", "idle"), ("connections", "30")]);
    assert_eq!(idle["connections"], 30);
    assert!(report(&[("mode", "connect"), ("parallel", "4")])["connections"].as_u64().unwrap() > 4);
}

#[test]
fn option_errors_name_the_option() {
    for (name, value) in [("qos", "2"), ("version", "4"), ("url", "amqp://h"), ("body", "1"), ("colour", "red")] {
        let message = MqttOptions::default().set(name, value).unwrap_err().message;
        assert!(message.contains(name), "{message}");
    }
    let options = MqttOptions { publishers: 0, subscribers: 0, ..MqttOptions::default() };
    assert!(run(&options).unwrap_err().message.contains("publishers"));
}
