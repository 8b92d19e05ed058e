//! Test support of this crate: a node with addresses and users, scripted servers, and temporary
//! files.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use enmasse_amqp::connection::{Connection, Event};
use enmasse_amqp::sasl::{Hash, derive};
use enmasse_amqp::time::Time;
use enmasse_node::{Listener, ListenerKind, Node, NodeConfig, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::url::Url;

/// The one user of `Server::closed`.
pub const USER: &str = "alice";
/// The password of that user.
pub const PASSWORD: &str = "a secret";

/// A temporary folder of one test, deleted when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder.
    pub fn create() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("enmasse-client-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A node with the addresses `anycast`, `multicast` and `a0` to `a9`, all with a window of 10
/// messages.
pub struct Server {
    /// the running node
    pub node: Node,
    folder: Folder,
}

impl Server {
    /// Admits every client.
    pub fn open() -> Self {
        Self::start(&json!({"type": "none", "anonymous": true, "mechanisms": ["PLAIN"]}), &json!([]))
    }

    /// Admits only `USER`, with any mechanism, to send to and receive from all addresses but
    /// `multicast`.
    pub fn closed() -> Self {
        let mechanisms = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"];
        let rights = json!([{"pattern": "anycast", "operations": ["send", "recv"]}]);
        let users =
            json!([{"name": USER, "verifiers": [verifier(Hash::Sha256), verifier(Hash::Sha512)], "rights": rights}]);
        Self::start(&json!({"type": "standard", "anonymous": false, "mechanisms": mechanisms}), &users)
    }

    fn start(authentication: &Value, users: &Value) -> Self {
        let mut addresses = vec![address("anycast", "anycast"), address("multicast", "multicast")];
        addresses.extend((0..10).map(|number| address(&format!("a{number}"), "anycast")));
        let space = json!({
            "uid": "space", "names": ["default"], "authentication": authentication, "users": users,
            "limits": {"connections": null, "links": null}, "addresses": addresses,
        });
        let node = Node::start(&NodeConfig { workers: 2, ..NodeConfig::default() }).unwrap();
        let plan = serde_json::from_value(json!({"version": 1, "spaces": [space]})).unwrap();
        assert_eq!(node.apply(&plan).unwrap().proof.active.len(), 12);
        let folder = Folder::create();
        write_certificates(&folder);
        Self { node, folder }
    }

    /// A listener of a kind, as a URL without a user.
    pub fn listen(&self, scheme: &str) -> Url {
        let tls = matches!(scheme, "amqps" | "wss").then(|| TlsFiles {
            certificate: self.folder.path("server.pem"),
            key: self.folder.path("server.key"),
            client_ca: None,
        });
        let kind = ListenerKind::parse(scheme).unwrap();
        let port = self.node.listen(Listener { kind, host: "127.0.0.1".to_owned(), port: 0, tls }).unwrap();
        Url::parse(&format!("{scheme}://localhost:{port}")).unwrap()
    }

    /// The CA of the listeners' certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.path("ca.pem")
    }
}

/// One connection of a scripted server.
pub trait ScriptedServer {
    /// The protocol machine of the server.
    fn machine(&mut self) -> &mut Connection;

    /// Reacts to an event of the client.
    fn handle(&mut self, event: Event<'_>);

    /// Whether to close the connection.
    fn over(&self) -> bool;

    /// Plays until the client disconnects, or the script ends.
    fn play(&mut self, mut socket: TcpStream) {
        let (mut input, mut buffer) = (Vec::new(), [0; 65_536]);
        while !self.over() {
            let Ok(count @ 1..) = socket.read(&mut buffer) else { break };
            input.extend_from_slice(&buffer[..count]);
            loop {
                let mut rest = &input[..];
                let happened = self.machine().poll_event(Time::ZERO, &mut rest).map(|event| self.handle(event));
                let left = rest.len();
                input.drain(..input.len() - left);
                if happened.is_none() {
                    break;
                }
            }
            self.machine().flush(Time::ZERO);
            let output = std::mem::take(self.machine().output());
            if socket.write_all(&output).is_err() {
                break;
            }
        }
    }
}

fn address(name: &str, kind: &str) -> Value {
    json!({"uid": name, "name": name, "type": kind, "limits": {"linkCapacity": 10, "messageSize": null}})
}

fn verifier(hash: Hash) -> Value {
    let verifier = derive(hash, PASSWORD, b"salt of a test", NonZeroU32::new(4096).unwrap()).unwrap();
    let text = |bytes: &[u8]| STANDARD.encode(bytes);
    let name = if hash == Hash::Sha256 { "SCRAM-SHA-256" } else { "SCRAM-SHA-512" };
    json!({
        "mechanism": name, "salt": text(&verifier.salt), "iterations": verifier.iterations,
        "storedKey": text(&verifier.stored_key), "serverKey": text(&verifier.server_key),
    })
}

fn write_certificates(folder: &Folder) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "test authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    fs::write(folder.path("ca.pem"), authority.pem()).unwrap();
    fs::write(folder.path("server.pem"), server.pem()).unwrap();
    fs::write(folder.path("server.key"), key.serialize_pem()).unwrap();
}
