//! Topic aliases both ways (3.3.2.3.4).

use enmasse_mqtt::codec::{QoS, ReasonCode, Version};
use enmasse_mqtt::connection::{Config, InFlight, SendError};

use crate::peer::{Peer, Seen, message, publish_v5};

fn topics(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| if let Seen::Publish { topic, .. } = seen { topic.as_str() } else { "?" }).collect()
}

fn with_alias(topic: &str, alias: u16) -> Vec<u8> {
    let [high, low] = alias.to_be_bytes();
    publish_v5(0x30, topic, 0, &[0x23, high, low], b"x")
}

/// [5: 3.3.2-12]
#[test]
fn every_alias_up_to_the_maximum_is_accepted_and_can_change() {
    let mut peer = Peer::open(Version::V5);
    for alias in 1..=10 {
        peer.send(&with_alias(&format!("topic/{alias}"), alias));
    }
    for alias in 1..=10 {
        assert_eq!(topics(&peer.send(&with_alias("", alias))), [format!("topic/{alias}")]);
    }
    peer.send(&with_alias("other", 4));
    assert_eq!(topics(&peer.send(&with_alias("", 4))), ["other"]);
}

/// [5: 3.3.2-8] [5: 3.3.2-9] [5: 3.2.2-17] [5: 3.2.2-18]
#[test]
fn an_alias_out_of_range_is_invalid() {
    for alias in [0, 11, 65_535] {
        assert_eq!(Peer::open(Version::V5).closed_by(&with_alias("a", alias)).code, ReasonCode::TopicAliasInvalid);
    }
    let none = Config { topic_alias_maximum: 0, ..Config::default() };
    let mut peer = Peer::open_with(none, Version::V5, &[], &InFlight::default());
    assert_eq!(peer.closed_by(&with_alias("a", 1)).code, ReasonCode::TopicAliasInvalid);
}

/// [5: 3.3.2-7]
#[test]
fn an_alias_without_a_topic_of_this_connection_is_an_error() {
    let mut peer = Peer::open(Version::V5);
    peer.send(&with_alias("a", 2));
    assert_eq!(peer.closed_by(&with_alias("", 1)).code, ReasonCode::ProtocolError);
    let mut peer = Peer::open(Version::V5);
    assert_eq!(peer.closed_by(&with_alias("", 2)).code, ReasonCode::ProtocolError);
}

/// [5: 3.1.2-26] [5: 3.1.2-27] [5: 3.3.2-11]
#[test]
fn no_alias_above_the_clients_maximum_is_sent() {
    let mut plain = Peer::open(Version::V5);
    for _ in 0..2 {
        plain.machine.send_at_most_once(&message("long/topic", QoS::AtMostOnce, &[b"x"])).unwrap();
        assert_eq!(plain.output(), publish_v5(0x30, "long/topic", 0, &[], b"x"));
    }
    let mut peer = Peer::open_v5(&[0x22, 0, 2]);
    let mut send = |topic: &str| {
        peer.machine.send_at_most_once(&message(topic, QoS::AtMostOnce, &[b"x"])).unwrap();
        peer.output()
    };
    assert_eq!(send("long/topic/1"), with_alias("long/topic/1", 1));
    assert_eq!(send("long/topic/1"), with_alias("", 1));
    assert_eq!(send("long/topic/2"), with_alias("long/topic/2", 2));
    // The least recently used topic gives up its alias.
    assert_eq!(send("long/topic/1"), with_alias("", 1));
    assert_eq!(send("long/topic/3"), with_alias("long/topic/3", 2));
    assert_eq!(send("long/topic/1"), with_alias("", 1));
    assert_eq!(send("long/topic/2"), with_alias("long/topic/2", 2));
}

#[test]
fn a_message_that_was_not_sent_sets_no_alias() {
    let mut peer = Peer::open_v5(&[0x22, 0, 2, 0x27, 0, 0, 0, 40]);
    let large = [0; 40];
    let result = peer.machine.send_at_most_once(&message("long/topic", QoS::AtMostOnce, &[&large]));
    assert_eq!(result, Err(SendError::TooLarge));
    peer.machine.send_at_most_once(&message("long/topic", QoS::AtMostOnce, &[b"x"])).unwrap();
    assert_eq!(peer.output(), with_alias("long/topic", 1));
}

#[test]
fn short_topics_and_3_x_have_no_alias() {
    let mut peer = Peer::open_v5(&[0x22, 0, 2]);
    peer.machine.send_at_most_once(&message("abc", QoS::AtMostOnce, &[b"x"])).unwrap();
    assert_eq!(peer.output(), publish_v5(0x30, "abc", 0, &[], b"x"));
}
