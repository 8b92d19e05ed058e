//! Work that earlier packets have begun.

use enmasse_amqp::connection::LinkId;
use enmasse_mqtt::codec::PacketId;

/// The next step of work that an earlier packet has begun.
pub(in crate::shard) enum Step {
    /// the SASL exchange continues with this response
    Respond(Vec<u8>),
    /// the client is authenticated: find its space
    Open,
    /// it has a space: take its client id
    Register,
    /// look for its session
    Recall,
    /// read the record of the session
    ReadRecord,
    /// continue the session that was found, or discard it
    Resume,
    /// the subscriptions of a discarded session are attached: end them
    Discard,
    /// make the subscription with the record of a new session
    CreateRecord,
    /// store the record of the session
    StoreRecord,
    /// answer CONNECT
    Accept,
    /// keep the packet identifier of an answered publication in the session, or (`false`) forget it
    NotePacketId(PacketId, bool),
    /// pass a publication to its address again
    Publish(u32),
    /// store the record with the subscriptions of a SUBSCRIBE
    StoreSubscriptions,
    /// handle the next filter of a SUBSCRIBE
    Filter,
    /// answer the will of an AMQP client: it is stored, or (`false`) refused
    AnswerWill(bool),
    /// answer the request of an AMQP client whose subscription it has
    AnswerRequest,
    /// send the values of `$SYS`
    PublishSystem,
    /// attach this link
    Attach(LinkId),
    /// let deliveries come to this link
    Grant(LinkId),
    /// attach the link that reads retained messages
    BeginRetained,
    /// let retained messages come
    ReadRetained,
    /// detach that link
    EndRetained,
}
