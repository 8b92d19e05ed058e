//! CONNECT as a login (`docs/contracts.md` 4 and 5): its credentials become a SASL exchange.
//!
//! - user name and password: PLAIN, or OAUTHBEARER if the password is a JSON web token and the
//!   space accepts tokens
//! - authentication method (5.0, 4.12): that mechanism, with AUTH packets
//! - neither: the client certificate, if there is one; else an anonymous client

use std::sync::Arc;

use enmasse_amqp::types::{Open, SaslInit, Symbol};
use enmasse_mqtt::codec::{Connect, PropertyId, ReasonCode};
use enmasse_mqtt::session::StoredWill;

use crate::shard::mqtt::enhanced::Enhanced;
use crate::shard::mqtt::login::Login;
use crate::shard::{ConnId, Shard};
use crate::table::Handshake;

const PLAIN: Symbol = Symbol::constant("PLAIN");
const OAUTHBEARER: Symbol = Symbol::constant("OAUTHBEARER");
const EXTERNAL: Symbol = Symbol::constant("EXTERNAL");
const ANONYMOUS: Symbol = Symbol::constant("ANONYMOUS");
/// Random bytes of a client id that the node assigns.
const CLIENT_ID_RANDOM: usize = 12;

/// Whether a password is a JSON web token: three parts, of which the first is an encoded object.
fn is_token(password: &str) -> bool {
    password.starts_with("eyJ") && password.split('.').count() == 3
}

impl Shard {
    /// Begins the login of a client.
    pub(super) fn connect_mqtt(&mut self, id: ConnId, connect: &Connect<'_>) {
        let assigned = connect.client_id.is_empty();
        let client_id = if assigned { self.new_client_id() } else { connect.client_id.to_owned() };
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(mqtt) = conn.machine.mqtt_mut() else { return };
        let method = connect.properties.text(PropertyId::AuthenticationMethod);
        let login = Login {
            clean_start: connect.clean_start,
            session_expiry_s: connect.session_expiry_s(),
            will: connect.will.as_ref().map(|will| Box::new(StoredWill::from_connect(will))),
            ..Login::new(client_id, assigned)
        };
        mqtt.login = Some(Box::new(login));
        let Some(handshake) = &conn.handshake else { return };
        let offered = handshake.mechanisms();
        mqtt.enhanced =
            method.map(|method| Box::new(Enhanced { method: Symbol::from(method), peer: handshake.peer().clone() }));
        let init = match (method, connect.user, connect.password) {
            (Some(method), ..) if offered.iter().any(|one| one.as_str() == method) => {
                let data = connect.properties.binary(PropertyId::AuthenticationData);
                Some((Symbol::from(method), data.unwrap_or_default().to_vec()))
            }
            (Some(_), ..) => return mqtt.refuse_login(ReasonCode::BadAuthenticationMethod),
            (None, Some(user), password) => {
                // Passwords are text, as in SASL (RFC 4616): other bytes are a wrong password.
                let password = std::str::from_utf8(password.unwrap_or_default()).unwrap_or("\u{fffd}");
                Some(credentials(user, password, offered.contains(&OAUTHBEARER)))
            }
            (None, None, _) if offered.contains(&EXTERNAL) => Some((EXTERNAL, Vec::new())),
            (None, None, _) if handshake.is_optional() => None,
            (None, None, _) => Some((ANONYMOUS, Vec::new())),
        };
        match init {
            Some((mechanism, response)) => {
                self.sasl_init(id, &SaslInit { mechanism, initial_response: Some(response), hostname: None });
            }
            None => {
                if let Some(login) = &mut mqtt.login {
                    login.authenticated(None);
                }
            }
        }
    }

    /// The next message of an exchange, within CONNECT or later.
    pub(super) fn continue_mqtt_login(&mut self, id: ConnId, data: &[u8]) {
        if let Some(login) = self.mqtt(id).and_then(|mqtt| mqtt.login.as_mut()) {
            login.awaits_client = false;
        }
        self.sasl_response(id, data);
    }

    /// Begins a new exchange of an open connection, by the method of CONNECT (4.12.1). The outcome
    /// is that of `reauthenticated`; until then the client keeps its rights.
    pub(super) fn reauthenticate_mqtt(&mut self, id: ConnId, data: &[u8]) {
        let mut nonce = [0; 18];
        (self.entropy)(&mut nonce);
        let Some(conn) = self.fabric.conns.get_mut(id.key()) else { return };
        let Some(mqtt) = conn.machine.mqtt_mut() else { return };
        // The machine reports no AUTH of a client that named no method.
        let Some(enhanced) = &mqtt.enhanced else { return };
        let handshake = Handshake::new(Arc::clone(&self.table), enhanced.peer.clone(), nonce);
        let mechanism = enhanced.method.clone();
        if !handshake.mechanisms().contains(&mechanism) {
            return mqtt.disconnect(ReasonCode::BadAuthenticationMethod, "the method is not offered any more");
        }
        conn.handshake = Some(Box::new(handshake));
        self.sasl_init(id, &SaslInit { mechanism, initial_response: Some(data.to_vec()), hostname: None });
    }

    /// The connection has ended: the outcome of a re-authentication means nothing any more.
    pub(super) fn abandon_reauthentication(&mut self, id: ConnId) {
        if let Some(conn) = self.fabric.conns.get_mut(id.key())
            && conn.access.is_some()
        {
            conn.handshake = None;
        }
    }

    fn new_client_id(&mut self) -> String {
        let mut random = [0; CLIENT_ID_RANDOM];
        (self.entropy)(&mut random);
        random.iter().fold("auto-".to_owned(), |id, byte| id + &format!("{byte:02x}"))
    }

    /// The client is authenticated: its space is found, and its client id is its container.
    pub(super) fn open_mqtt(&mut self, id: ConnId) {
        let login = self.fabric.conns.get(id.key()).and_then(|conn| conn.machine.mqtt()?.login.as_ref());
        let Some(login) = login else { return };
        let open = Open { container_id: login.client_id.clone(), ..Open::default() };
        self.opened(id, &open);
    }
}

/// The mechanism and the first message of a user name and password.
fn credentials(user: &str, password: &str, takes_tokens: bool) -> (Symbol, Vec<u8>) {
    if takes_tokens && is_token(password) {
        // RFC 7628, 3.1: `=` and `,` of the name are escaped.
        let user = user.replace('=', "=3D").replace(',', "=2C");
        return (OAUTHBEARER, format!("n,a={user},\u{1}auth=Bearer {password}\u{1}\u{1}").into_bytes());
    }
    (PLAIN, format!("\0{user}\0{password}").into_bytes())
}
