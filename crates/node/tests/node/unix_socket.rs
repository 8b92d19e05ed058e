//! MQTT over a Unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use enmasse_node::{ErrorKind, EventKind};

use crate::control::guarded_plan;
use crate::harness::{OPEN_SPACE, PATIENCE, Site, workers};

/// CONNECT of MQTT 3.1.1 with clean session and these fields after the header.
fn connect(flags: u8, fields: &[&str]) -> Vec<u8> {
    let mut body = b"\0\x04MQTT\x04".to_vec();
    body.extend_from_slice(&[flags | 2, 0, 0]);
    for field in fields {
        body.extend_from_slice(&(field.len() as u16).to_be_bytes());
        body.extend_from_slice(field.as_bytes());
    }
    [&[0x10, body.len() as u8][..], &body].concat()
}

fn login(site: &Site, connect: &[u8]) -> (UnixStream, [u8; 4]) {
    let mut socket = UnixStream::connect(site.folder.path("mqtt.sock")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(connect).unwrap();
    let mut answer = [0; 4];
    socket.read_exact(&mut answer).unwrap();
    (socket, answer)
}

#[test]
fn client_of_a_unix_socket_is_served_and_listed_until_the_node_stops() {
    let site = Site::new(&workers(2), OPEN_SPACE);
    let path = site.folder.path("mqtt.sock");
    site.node.listen_unix(&path).unwrap();
    let taken = site.node.listen_unix(&path).unwrap_err();
    assert_eq!((taken.kind(), taken.code()), (ErrorKind::Unavailable, "E6001"));
    let (_client, answer) = login(&site, &connect(0, &["device"]));
    assert_eq!(answer, [0x20, 2, 0, 0]);
    let line = site.node.connections().unwrap().pop().unwrap();
    assert_eq!((line.transport, line.container.as_deref(), line.address), ("mqtt-unix", Some("device"), None));
    site.node.stop(Duration::from_secs(1));
    assert!(!path.exists());
}

/// As from the loopback address: passwords need no TLS, and wrong ones delay the next attempts.
#[test]
fn password_is_checked_and_guessing_delayed() {
    let site = Site::new(&workers(1), &guarded_plan());
    site.node.listen_unix(&site.folder.path("mqtt.sock")).unwrap();
    let as_alice = |password| connect(0xc0, &["device", "alice@guarded", password]);
    assert_eq!(login(&site, &as_alice("secret")).1, [0x20, 2, 0, 0]);
    let refused: Vec<_> = (0..7).map(|_| login(&site, &as_alice("wrong")).1).collect();
    assert!(refused.iter().all(|answer| answer[3] != 0), "{refused:?}");
    let reason = site.event(|event| match &event.what {
        EventKind::LoginRefused { reason, .. } if reason.contains("too many wrong passwords") => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.contains("try again later"), "{reason}");
}
