//! Packet identifiers of the client: messages with QoS 1 and 2, SUBSCRIBE and UNSUBSCRIBE
//! [5: 2.2.1-4].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::codec::{PacketId, QoS};

/// What a packet identifier of the client is used for, and how far that is (4.3.2, 4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// PUBLISH with QoS 1 that the driver has not answered
    PublishQoS1,
    /// PUBLISH with QoS 2 that the driver has not answered
    PublishQoS2,
    /// PUBREC was sent; PUBLISH with this identifier is a duplicate
    Received {
        /// it takes a place in the receive maximum: it came on this connection
        counted: bool,
    },
    /// PUBREL came; the driver has not completed it
    Released {
        /// as of `Received`
        counted: bool,
    },
    /// SUBSCRIBE with so many filters
    Subscribe(u32),
    /// UNSUBSCRIBE with so many filters
    Unsubscribe(u32),
}

impl Request {
    /// Whether it is a message whose next answer is the driver's.
    const fn is_owed(self) -> bool {
        matches!(self, Self::PublishQoS1 | Self::PublishQoS2 | Self::Released { .. })
    }
}

/// What a PUBLISH with a packet identifier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// a new message
    New,
    /// a duplicate whose original is not answered yet
    Pending,
    /// a duplicate whose PUBREC is repeated [5: 4.3.3-10]
    Again,
    /// another packet has the identifier
    InUse,
}

/// All packet identifiers in use by the client.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_id: HashMap<u16, Request, BuildHasherDefault<IdHasher>>,
    /// messages that take a place in the receive maximum
    messages: u16,
    /// messages that wait for the driver's next answer, not for PUBREL of the client
    owed: u16,
    /// SUBSCRIBE and UNSUBSCRIBE
    others: u16,
}

/// Memory that is kept when no identifier is in use.
const CAPACITY_KEPT: usize = 256;

impl Requests {
    /// Begins a connection. Messages of an earlier one do not count against the receive maximum,
    /// as the client's quota is full again (4.9).
    pub(super) fn begin(&mut self, received: &[PacketId]) {
        *self = Self::default();
        self.by_id.extend(received.iter().map(|id| (id.get(), Request::Received { counted: false })));
    }

    /// Messages with QoS 1 and 2 that are not answered in full.
    pub(super) const fn messages(&self) -> u16 {
        self.messages
    }

    /// Messages whose next answer is the driver's.
    pub(super) const fn owed(&self) -> u16 {
        self.owed
    }

    /// SUBSCRIBE and UNSUBSCRIBE packets that are not answered.
    pub(super) const fn others(&self) -> u16 {
        self.others
    }

    #[inline]
    pub(super) fn get(&self, id: PacketId) -> Option<Request> {
        self.by_id.get(&id.get()).copied()
    }

    /// What a PUBLISH is.
    #[inline]
    pub(super) fn arrival(&self, id: PacketId, qos: QoS, dup: bool) -> Arrival {
        match (self.get(id), qos) {
            (None, _) => Arrival::New,
            (Some(Request::PublishQoS1), QoS::AtLeastOnce) if dup => Arrival::Pending,
            (Some(Request::PublishQoS2), QoS::ExactlyOnce) => Arrival::Pending,
            (Some(Request::Received { .. }), QoS::ExactlyOnce) => Arrival::Again,
            _ => Arrival::InUse,
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, id: PacketId, request: Request) {
        match request {
            Request::Subscribe(_) | Request::Unsubscribe(_) => self.others += 1,
            _ => self.messages += 1,
        }
        self.owed += u16::from(request.is_owed());
        let former = self.by_id.insert(id.get(), request);
        debug_assert_eq!(former, None);
    }

    /// Changes the use of an identifier that has one.
    pub(super) fn set(&mut self, id: PacketId, request: Request) {
        let former = self.by_id.insert(id.get(), request);
        debug_assert!(former.is_some());
        self.owed = self.owed + u16::from(request.is_owed()) - u16::from(former.is_some_and(Request::is_owed));
    }

    #[inline]
    pub(super) fn remove(&mut self, id: PacketId) {
        let removed = self.by_id.remove(&id.get());
        self.owed -= u16::from(removed.is_some_and(Request::is_owed));
        match removed {
            Some(Request::Subscribe(_) | Request::Unsubscribe(_)) => self.others -= 1,
            Some(Request::Received { counted: false } | Request::Released { counted: false }) => {}
            Some(_) => self.messages -= 1,
            None => debug_assert!(false, "packet identifier {} is not in use", id.get()),
        }
        if self.by_id.is_empty() && self.by_id.capacity() > CAPACITY_KEPT {
            self.by_id = HashMap::default();
        }
    }

    /// QoS 2 messages that were answered and not released.
    pub(super) fn take_received(&mut self) -> Vec<PacketId> {
        let all = std::mem::take(self).by_id;
        let received = all
            .into_iter()
            .filter(|(_, request)| matches!(request, Request::Received { .. } | Request::Released { .. }));
        received.filter_map(|(id, _)| PacketId::new(id)).collect()
    }
}

/// Spreads 16-bit identifiers, of which a table has at most 65,535.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u16(u16::from(*byte));
        }
    }

    fn write_u16(&mut self, id: u16) {
        // 2^64 divided by the golden ratio: upper and lower bits both depend on the identifier.
        let product = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}
