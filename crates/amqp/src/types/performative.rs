//! Part 2, Transport: the nine performatives.

use super::{DeliveryState, Error, Fields, Source, Symbol, Target};

/// The end of a link that sends a frame (2.8.1): `true` on the wire is the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// the end that sends transfers
    Sender,
    /// the end that receives transfers
    Receiver,
}

/// 2.8.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SenderSettleMode {
    /// 0: all deliveries unsettled at first
    Unsettled,
    /// 1: all deliveries settled
    Settled,
    /// 2: either
    #[default]
    Mixed,
}

/// 2.8.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReceiverSettleMode {
    /// 0: the receiver settles at once
    #[default]
    First,
    /// 1: the receiver settles after the sender did
    Second,
}

/// 2.7.1
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// mandatory
    pub container_id: String,
    /// the virtual host requested
    pub hostname: Option<String>,
    /// bytes; default `u32::MAX`
    pub max_frame_size: u32,
    /// default 65535
    pub channel_max: u16,
    /// milliseconds
    pub idle_time_out: Option<u32>,
    /// locales
    pub outgoing_locales: Vec<Symbol>,
    /// locales
    pub incoming_locales: Vec<Symbol>,
    /// extensions offered
    pub offered_capabilities: Vec<Symbol>,
    /// extensions wanted
    pub desired_capabilities: Vec<Symbol>,
    /// connection properties
    pub properties: Fields,
}

impl Default for Open {
    fn default() -> Self {
        Self {
            container_id: String::new(),
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_time_out: None,
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Fields::new(),
        }
    }
}

/// 2.7.2
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// set in the answer
    pub remote_channel: Option<u16>,
    /// transfer-number of the next transfer
    pub next_outgoing_id: u32,
    /// frames
    pub incoming_window: u32,
    /// frames
    pub outgoing_window: u32,
    /// default `u32::MAX`
    pub handle_max: u32,
    /// extensions offered
    pub offered_capabilities: Vec<Symbol>,
    /// extensions wanted
    pub desired_capabilities: Vec<Symbol>,
    /// session properties
    pub properties: Fields,
}

/// 2.7.3
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    /// link name
    pub name: String,
    /// handle chosen by the sender of this frame
    pub handle: u32,
    /// role of the sender of this frame
    pub role: Role,
    /// default mixed
    pub snd_settle_mode: SenderSettleMode,
    /// default first
    pub rcv_settle_mode: ReceiverSettleMode,
    /// null in a refusal
    pub source: Option<Box<Source>>,
    /// null in a refusal
    pub target: Option<Box<Target>>,
    /// delivery tag to state; `None` is null
    pub unsettled: Option<Vec<(Vec<u8>, Option<DeliveryState>)>>,
    /// default false
    pub incomplete_unsettled: bool,
    /// mandatory if role is sender
    pub initial_delivery_count: Option<u32>,
    /// bytes; `None` or 0: no limit
    pub max_message_size: Option<u64>,
    /// extensions offered
    pub offered_capabilities: Vec<Symbol>,
    /// extensions wanted
    pub desired_capabilities: Vec<Symbol>,
    /// link properties
    pub properties: Fields,
}

/// 2.7.4
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Flow {
    /// `None` until the peer's begin was seen
    pub next_incoming_id: Option<u32>,
    /// frames
    pub incoming_window: u32,
    /// next transfer number
    pub next_outgoing_id: u32,
    /// frames
    pub outgoing_window: u32,
    /// `None`: about the session only
    pub handle: Option<u32>,
    /// sender's count
    pub delivery_count: Option<u32>,
    /// messages
    pub link_credit: Option<u32>,
    /// messages waiting at the sender
    pub available: Option<u32>,
    /// default false
    pub drain: bool,
    /// default false
    pub echo: bool,
    /// link state properties
    pub properties: Fields,
}

/// 2.7.5, without its payload.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Transfer {
    /// link handle
    pub handle: u32,
    /// on the first frame of a delivery
    pub delivery_id: Option<u32>,
    /// on the first frame; at most 32 bytes
    pub delivery_tag: Option<Vec<u8>>,
    /// on the first frame
    pub message_format: Option<u32>,
    /// `None` is false, or the value of earlier frames of the delivery
    pub settled: Option<bool>,
    /// default false
    pub more: bool,
    /// overrides the link's
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// state at the sender
    pub state: Option<DeliveryState>,
    /// default false
    pub resume: bool,
    /// default false
    pub aborted: bool,
    /// default false
    pub batchable: bool,
}

/// 2.7.6
#[derive(Clone, Debug, PartialEq)]
pub struct Disposition {
    /// role of the sender of this frame
    pub role: Role,
    /// first delivery id
    pub first: u32,
    /// `None`: the same as first
    pub last: Option<u32>,
    /// default false
    pub settled: bool,
    /// state at the sender of this frame
    pub state: Option<DeliveryState>,
    /// default false
    pub batchable: bool,
}

/// 2.7.7
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Detach {
    /// link handle
    pub handle: u32,
    /// the terminus is closed too
    pub closed: bool,
    /// why
    pub error: Option<Error>,
}

/// 2.7.8
#[derive(Clone, Debug, PartialEq, Default)]
pub struct End {
    /// why
    pub error: Option<Error>,
}

/// 2.7.9
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Close {
    /// why
    pub error: Option<Error>,
}

/// Any performative; a transfer's payload follows it in the frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Performative {
    /// 2.7.1
    Open(Box<Open>),
    /// 2.7.2
    Begin(Box<Begin>),
    /// 2.7.3
    Attach(Box<Attach>),
    /// 2.7.4
    Flow(Flow),
    /// 2.7.5
    Transfer(Box<Transfer>),
    /// 2.7.6
    Disposition(Disposition),
    /// 2.7.7
    Detach(Detach),
    /// 2.7.8
    End(End),
    /// 2.7.9
    Close(Close),
}
