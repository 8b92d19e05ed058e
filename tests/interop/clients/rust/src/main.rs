//! The interoperability scenarios with fe2o3-amqp; the contract is in the README three folders up.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::connection::{ConnectionHandle, OpenError};
use fe2o3_amqp::link::delivery::DeliveryFut;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::link::{ReceiverAttachError, SendError, SenderAttachError};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::sasl_profile::scram::{SaslScramSha1, SaslScramSha256, SaslScramSha512};
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::{Error, ErrorCondition, SenderSettleMode};
use fe2o3_amqp::types::messaging::{Body, Data, Message, MessageId, Modified, Outcome, Properties, Source, Target};
use fe2o3_amqp::types::primitives::{Binary, Symbol, Value};
use fe2o3_amqp::{Connection, Delivery, Receiver, Sender, Session};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(default)]
struct Options {
    host: String,
    port: u16,
    tls: bool,
    ca: String,
    certificate: Option<String>,
    key: String,
    mechanism: String,
    user: String,
    password: String,
    virtual_host: Option<String>,
    address: String,
    unknown: String,
    count: usize,
    size: usize,
    settled: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: 0,
            tls: false,
            ca: String::new(),
            certificate: None,
            key: String::new(),
            mechanism: "ANONYMOUS".into(),
            user: String::new(),
            password: String::new(),
            virtual_host: None,
            address: String::new(),
            unknown: String::new(),
            count: 1,
            size: 0,
            settled: false,
        }
    }
}

type Incoming = Delivery<Body<Value>>;
type Session_ = SessionHandle<()>;
type Ending = DeliveryFut<Result<Outcome, SendError>>;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let given: Options = serde_json::from_str(&arguments[2]).expect("options are JSON");
    println!("{}", within(run(&arguments[1], &given)).await);
}

async fn within<T>(step: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, step).await.expect("a step took too long")
}

async fn run(scenario: &str, given: &Options) -> Json {
    let mut connection = match open(given).await {
        Ok(connection) => connection,
        Err(error) => return json!({"refused": error.to_string()}),
    };
    if scenario == "refused" {
        return refused(&mut connection, given).await;
    }
    let mut session = begin(&mut connection).await;
    let answer = match scenario {
        "exchange" => exchange(&mut session, given).await,
        "outcomes" => outcomes(&mut session, given).await,
        "drain" => drain(&mut session, given).await,
        "request" => request(&mut session, given).await,
        "multicast" => multicast(&mut session, given).await,
        "anonymous" => anonymous(&mut session, given).await,
        other => panic!("unknown scenario {other}"),
    };
    session.end().await.expect("the session ends");
    connection.close().await.expect("the connection closes");
    answer
}

async fn begin(connection: &mut ConnectionHandle<()>) -> Session_ {
    Session::begin(connection).await.expect("a session")
}

async fn open(given: &Options) -> Result<ConnectionHandle<()>, OpenError> {
    let (user, password) = (given.user.clone(), given.password.clone());
    let profile = match given.mechanism.as_str() {
        "NONE" => None,
        "PLAIN" => Some(SaslProfile::Plain { username: user, password }),
        "EXTERNAL" => Some(SaslProfile::External),
        "SCRAM-SHA-1" => Some(SaslScramSha1::new(user, password).into()),
        "SCRAM-SHA-256" => Some(SaslScramSha256::new(user, password).into()),
        "SCRAM-SHA-512" => Some(SaslScramSha512::new(user, password).into()),
        _ => Some(SaslProfile::Anonymous),
    };
    let mut builder = Connection::builder().container_id("interop-rust");
    if let Some(profile) = profile {
        builder = builder.sasl_profile(profile);
    }
    if let Some(name) = &given.virtual_host {
        builder = builder.hostname(name.as_str()).sasl_hostname(name.as_str());
    }
    if !given.tls {
        return builder.open(format!("amqp://{}:{}", given.host, given.port).as_str()).await;
    }
    builder
        .alt_tls_establishment(true)
        .domain(given.host.as_str())
        .rustls_connector(connector(given))
        .open(format!("amqps://{}:{}", given.host, given.port).as_str())
        .await
}

fn connector(given: &Options) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&given.ca).expect("the CA file") {
        roots.add(certificate.expect("a certificate")).expect("a CA certificate");
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match &given.certificate {
        None => config.with_no_client_auth(),
        Some(path) => {
            let chain = CertificateDer::pem_file_iter(path).expect("the client certificate");
            let key = PrivateKeyDer::from_pem_file(&given.key).expect("the client key");
            config
                .with_client_auth_cert(chain.map(|item| item.expect("a certificate")).collect(), key)
                .expect("a client certificate and its key")
        }
    };
    TlsConnector::from(Arc::new(config))
}

fn body(number: usize, size: usize) -> Vec<u8> {
    vec![number as u8; size]
}

fn numbered(number: usize) -> Properties {
    Properties::builder().message_id(number as u64).build()
}

/// Credit is given by hand, so that a scenario can count and drain it.
async fn receiver(session: &mut Session_, name: &str, source: impl Into<Source>, credit: u32) -> Receiver {
    let mut receiver = Receiver::builder()
        .name(name)
        .source(source)
        .credit_mode(CreditMode::Manual)
        .attach(session)
        .await
        .expect("the receiver attaches");
    receiver.set_credit(credit).await.expect("credit is given");
    receiver
}

async fn sender(session: &mut Session_, name: &str, target: impl Into<Target>) -> Sender {
    Sender::builder().name(name).target(target.into()).attach(session).await.expect("the sender attaches")
}

async fn next(receiver: &mut Receiver) -> Incoming {
    within(receiver.recv()).await.expect("a message")
}

fn id_of(delivery: &Incoming) -> Option<MessageId> {
    delivery.message().properties.as_ref().and_then(|properties| properties.message_id.clone())
}

fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted(_) => "accepted",
        Outcome::Rejected(_) => "rejected",
        Outcome::Released(_) => "released",
        Outcome::Modified(_) => "modified",
    }
}

async fn send_empty(sender: &mut Sender, count: usize) -> Vec<Ending> {
    let mut endings = Vec::new();
    for number in 0..count {
        let message = Message::builder().properties(numbered(number)).value(Value::Null).build();
        endings.push(sender.send_batchable(message).await.expect("the message is sent"));
    }
    endings
}

async fn exchange(session: &mut Session_, given: &Options) -> Json {
    let mode = if given.settled { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
    let mut incoming = receiver(session, "in", given.address.as_str(), given.count as u32).await;
    let mut outgoing = Sender::builder()
        .name("out")
        .target(given.address.as_str())
        .sender_settle_mode(mode)
        .attach(session)
        .await
        .expect("the sender attaches");
    let (count, size) = (given.count, given.size);
    let sending = tokio::spawn(async move {
        let mut endings = Vec::new();
        for number in 0..count {
            let data = Data(Binary::from(body(number, size)));
            let message = Message::builder().properties(numbered(number)).data(data).build();
            endings.push(outgoing.send_batchable(message).await.expect("the message is sent"));
        }
        (outgoing, endings)
    });
    let (mut in_order, mut intact) = (true, true);
    for number in 0..count {
        let delivery = next(&mut incoming).await;
        in_order &= id_of(&delivery) == Some(MessageId::Ulong(number as u64));
        let data: Vec<u8> =
            delivery.body().try_as_data().expect("a data body").flat_map(|part| part.to_vec()).collect();
        intact &= data == body(number, size);
        if !given.settled {
            incoming.accept(&delivery).await.expect("accepted");
        }
    }
    let (outgoing, endings) = within(sending).await.expect("the sending task");
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for ending in endings {
        let outcome = within(ending).await.expect("an outcome");
        if !given.settled {
            *counted.entry(name_of(&outcome)).or_default() += 1;
        }
    }
    outgoing.close().await.expect("the sender closes");
    json!({"received": count, "in_order": in_order, "intact": intact, "outcomes": counted})
}

async fn outcomes(session: &mut Session_, given: &Options) -> Json {
    let mut incoming = receiver(session, "in", given.address.as_str(), 4).await;
    let mut outgoing = sender(session, "out", given.address.as_str()).await;
    let endings = send_empty(&mut outgoing, 4).await;
    let spoiled =
        Error::new(ErrorCondition::Custom(Symbol::from("test:spoiled")), Some("past its date".to_string()), None);
    let modified = Modified { delivery_failed: Some(true), undeliverable_here: Some(true), message_annotations: None };
    let delivery = next(&mut incoming).await;
    incoming.accept(&delivery).await.expect("accepted");
    let delivery = next(&mut incoming).await;
    incoming.reject(&delivery, spoiled).await.expect("rejected");
    let delivery = next(&mut incoming).await;
    incoming.release(&delivery).await.expect("released");
    let delivery = next(&mut incoming).await;
    incoming.modify(&delivery, modified).await.expect("modified");

    let mut answer = json!({});
    let mut names = Vec::new();
    for ending in endings {
        let outcome = within(ending).await.expect("an outcome");
        names.push(name_of(&outcome));
        match outcome {
            Outcome::Rejected(rejected) => {
                let error = rejected.error.expect("an error");
                answer["error"] = json!({"condition": condition_text(&error), "description": error.description});
            }
            Outcome::Modified(modified) => {
                answer["modified"] = json!({
                    "delivery_failed": modified.delivery_failed,
                    "undeliverable_here": modified.undeliverable_here,
                });
            }
            _ => {}
        }
    }
    answer["outcomes"] = json!(names);
    answer
}

async fn drain(session: &mut Session_, given: &Options) -> Json {
    let mut incoming = receiver(session, "in", given.address.as_str(), 10).await;
    let mut outgoing = sender(session, "out", given.address.as_str()).await;
    let endings = send_empty(&mut outgoing, given.count).await;
    for _ in 0..given.count {
        let delivery = next(&mut incoming).await;
        incoming.accept(&delivery).await.expect("accepted");
    }
    for ending in endings {
        within(ending).await.expect("an outcome");
    }
    // The library does not report the end of the drain. That the link still works shows it.
    incoming.drain().await.expect("the drain is asked for");
    let another = sender(session, "another", given.address.as_str()).await; // what it answers comes after the drain's end
    incoming.set_credit(1).await.expect("credit is given");
    let ending = send_empty(&mut outgoing, 1).await.remove(0);
    let delivery = next(&mut incoming).await;
    incoming.accept(&delivery).await.expect("accepted");
    let outcome = within(ending).await.expect("an outcome");
    another.close().await.expect("the sender closes");
    json!({"received": given.count, "afterwards": name_of(&outcome)})
}

async fn request(session: &mut Session_, given: &Options) -> Json {
    let mut service = receiver(session, "service", given.address.as_str(), 10).await;
    let mut answers = sender(session, "answers", Target::builder().build()).await;
    let mut replies = receiver(session, "replies", Source::builder().dynamic(true).build(), 10).await;
    let mut requests = sender(session, "requests", given.address.as_str()).await;
    let reply_to = replies.source().as_ref().and_then(|source| source.address.clone()).expect("a dynamic address");
    let (mut texts, mut correlated) = (Vec::new(), true);
    for number in 0..given.count {
        let properties = Properties::builder().message_id(number as u64).reply_to(reply_to.as_str()).build();
        let question = Message::builder().properties(properties).value(format!("ping {number}")).build();
        let asked_for = requests.send_batchable(question).await.expect("the question is sent");
        let asked = next(&mut service).await;
        service.accept(&asked).await.expect("accepted");
        within(asked_for).await.expect("an outcome");

        let question = asked.message().properties.clone().expect("properties");
        let properties = Properties::builder()
            .to(question.reply_to.expect("a reply-to"))
            .correlation_id(question.message_id.expect("a message id"));
        let text = text_of(&asked).to_uppercase();
        let answer = Message::builder().properties(properties.build()).value(text).build();
        let answered = answers.send_batchable(answer).await.expect("the answer is sent");
        let reply = next(&mut replies).await;
        replies.accept(&reply).await.expect("accepted");
        within(answered).await.expect("an outcome");
        texts.push(text_of(&reply));
        let correlation = reply.message().properties.as_ref().and_then(|item| item.correlation_id.clone());
        correlated &= correlation == Some(MessageId::Ulong(number as u64));
    }
    json!({"replies": texts, "correlated": correlated})
}

fn text_of(delivery: &Incoming) -> String {
    match delivery.body().try_as_value() {
        Ok(Value::String(text)) => text.clone(),
        _ => panic!("the body is a string"),
    }
}

/// A session for each attach: now and then the library answers a refusal with two detaches, which
/// ends its session.
async fn refused(connection: &mut ConnectionHandle<()>, given: &Options) -> Json {
    let mut session = begin(connection).await;
    let sender = match Sender::attach(&mut session, "out", given.address.as_str()).await {
        Ok(_) => Json::Null,
        Err(SenderAttachError::RemoteClosedWithError(error)) => json!(condition_text(&error)),
        Err(other) => json!(other.to_string()),
    };
    let mut session = begin(connection).await;
    let receiver = match Receiver::attach(&mut session, "in", given.address.as_str()).await {
        Ok(_) => Json::Null,
        Err(ReceiverAttachError::RemoteClosedWithError(error)) => json!(condition_text(&error)),
        Err(other) => json!(other.to_string()),
    };
    json!({"sender": sender, "receiver": receiver})
}

/// The condition as it is on the wire.
fn condition_text(error: &Error) -> String {
    match &error.condition {
        ErrorCondition::AmqpError(condition) => Symbol::from(condition).to_string(),
        ErrorCondition::Custom(condition) => condition.to_string(),
        other => format!("{other:?}"),
    }
}

async fn multicast(session: &mut Session_, given: &Options) -> Json {
    let mut listeners = Vec::new();
    for number in 0..3 {
        let name = format!("listener-{number}");
        listeners.push(receiver(session, &name, given.address.as_str(), given.count as u32).await);
    }
    let mut outgoing = sender(session, "out", given.address.as_str()).await;
    let endings = send_empty(&mut outgoing, given.count).await;
    let mut received = Vec::new();
    for listener in &mut listeners {
        let mut heard = BTreeSet::new();
        for _ in 0..given.count {
            let delivery = next(listener).await;
            heard.insert(format!("{:?}", id_of(&delivery)));
            listener.accept(&delivery).await.expect("accepted");
        }
        received.push(heard.len());
    }
    for ending in endings {
        within(ending).await.expect("an outcome");
    }
    json!({"received": received})
}

async fn anonymous(session: &mut Session_, given: &Options) -> Json {
    let mut incoming = receiver(session, "in", given.address.as_str(), 1).await;
    let mut outgoing = sender(session, "out", Target::builder().build()).await;
    let addressed = |to: &str| {
        let properties = Properties::builder().to(to).build();
        Message::builder().properties(properties).value(Value::Null).build()
    };
    let known = outgoing.send_batchable(addressed(&given.address)).await.expect("the message is sent");
    let delivery = next(&mut incoming).await;
    incoming.accept(&delivery).await.expect("accepted");
    let known = within(known).await.expect("an outcome");
    let unknown = outgoing.send(addressed(&given.unknown)).await.expect("an outcome");
    let condition = match &unknown {
        Outcome::Rejected(rejected) => rejected.error.as_ref().map(condition_text),
        _ => None,
    };
    json!({"known": name_of(&known), "unknown": name_of(&unknown), "condition": condition})
}
