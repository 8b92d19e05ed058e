//! Commands of other threads for a worker.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use enmasse_amqp::time::Time;
use enmasse_amqp::types::Error;
use enmasse_journal::log::RecordLocation;
use enmasse_mqtt::session::Session;
use enmasse_router::core::{AddressKey, Answer, Operated, Operation, Read};
use enmasse_router::shard::{ConnId, LoginSubject, Moved, StoredAddressChange};
use enmasse_router::table::{AddressEntry, Judged, SpaceKey, Table};

use crate::socket::{AcceptedSocket, Socket};
use crate::stats::{ConnectionLine, SessionKey, WorkerAnswer, WorkerLinks, WorkerSessions};

/// A command for a worker. Those with a `Sender` are answered within a turn, unless stated
/// otherwise.
pub(crate) enum Command {
    /// serve this connection
    Serve(AcceptedSocket),
    /// serve this connection, which moves from another worker
    Adopt(Box<Socket>, Box<Moved>),
    /// the result of a password check; `None`: not checked, because too many are waiting
    PasswordChecked(ConnId, Option<bool>),
    /// the external decision about a login
    LoginJudged(ConnId, LoginSubject, Box<Judged>),
    /// the address for the attach with this number is refused, with this error
    CreationRefused(ConnId, u64, Error),
    /// seal this address if it is unused, or unseal it; the answer is whether it is sealed
    Seal(Arc<AddressEntry>, bool, Sender<bool>),
    /// apply this table, which removes these addresses
    Apply(Arc<Table>, Arc<[AddressKey]>, Sender<()>),
    /// add or change these stored addresses of this worker; precedes the table that names them
    ChangeStoredAddresses(Vec<StoredAddressChange>),
    /// results of batches that the journal has written, or refused
    Journaled(Vec<Answer>),
    /// results of reads of the journal
    Fetched(Vec<(RecordLocation, Read)>),
    /// copy the messages in this segment of the journal
    Compact(u32),
    /// run this operation on stored messages; answered when complete, after any number of turns
    Operate(Box<Operation>, Sender<Operated>),
    /// report statistics
    Stats(Sender<WorkerAnswer>),
    /// list the connections
    List(Sender<Vec<ConnectionLine>>),
    /// list the links: of one connection, or of all
    ListLinks(Option<u64>, Sender<WorkerLinks>),
    /// list the sessions of MQTT clients of a space
    Sessions(SpaceKey, Sender<WorkerSessions>),
    /// report the sessions of connected clients, of these users and client ids
    SessionStates(SpaceKey, Arc<HashSet<SessionKey>>, Sender<Vec<(SessionKey, Session)>>),
    /// end the session of this user and client id in a space
    EndSession(SpaceKey, Arc<SessionKey>, Sender<()>),
    /// close a connection of this worker; the answer is whether it has it
    Close(u64, Sender<bool>),
    /// start or stop the trace of a connection of this worker
    Trace(u64, bool),
    /// stop reading from all connections; each call reports the pending work
    Drain(Sender<Pending>),
    /// close everything, and end by this time
    Stop(Time),
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

/// The remaining work of a draining worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// batches sent to other workers since the start
    pub(crate) sent: u64,
    /// batches received from them since the start
    pub(crate) received: u64,
    /// an answer of the journal is pending, or a batch waits for another worker
    pub(crate) busy: bool,
}
