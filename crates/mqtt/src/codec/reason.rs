//! Reason codes (5.0, 2.4), and what they are in a CONNACK of 3.x.

/// Defines the enum once, with its numbers.
macro_rules! reason_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// A reason code of MQTT 5.0 (2.4). Codes with several names in the standard have the one of
        /// the packet that carries them most.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ReasonCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ReasonCode {
            /// All codes in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code with that number.
            #[must_use]
            pub const fn from_u8(code: u8) -> Option<Self> {
                Some(match code {
                    $($code => Self::$name,)*
                    _ => return None,
                })
            }
        }
    };
}

reason_codes! {
    /// success, normal disconnection, granted QoS 0
    Success = 0x00,
    /// granted QoS 1
    GrantedQoS1 = 0x01,
    /// granted QoS 2
    GrantedQoS2 = 0x02,
    /// the client disconnects and wants its will published
    DisconnectWithWill = 0x04,
    /// accepted, but there are no subscribers
    NoMatchingSubscribers = 0x10,
    /// nothing to unsubscribe
    NoSubscriptionExisted = 0x11,
    /// continue the authentication
    ContinueAuthentication = 0x18,
    /// the client starts a re-authentication
    ReAuthenticate = 0x19,
    /// no reason is given
    UnspecifiedError = 0x80,
    /// the packet cannot be parsed
    MalformedPacket = 0x81,
    /// the packet or its order contradicts the protocol
    ProtocolError = 0x82,
    /// valid, but not accepted here
    ImplementationSpecificError = 0x83,
    /// the version of the protocol is not supported
    UnsupportedProtocolVersion = 0x84,
    /// the client identifier is not allowed
    ClientIdentifierNotValid = 0x85,
    /// user name or password is wrong
    BadUserNameOrPassword = 0x86,
    /// the right is missing
    NotAuthorized = 0x87,
    /// the server is not available
    ServerUnavailable = 0x88,
    /// try again later
    ServerBusy = 0x89,
    /// banned by administrative action
    Banned = 0x8A,
    /// the server shuts down
    ServerShuttingDown = 0x8B,
    /// the authentication method is not supported or is not that of the connection
    BadAuthenticationMethod = 0x8C,
    /// no packet for 1.5 times the keep-alive
    KeepAliveTimeout = 0x8D,
    /// another connection uses the same client identifier
    SessionTakenOver = 0x8E,
    /// well formed, but not accepted
    TopicFilterInvalid = 0x8F,
    /// well formed, but not accepted
    TopicNameInvalid = 0x90,
    /// the packet identifier is in use
    PacketIdentifierInUse = 0x91,
    /// the packet identifier is not known
    PacketIdentifierNotFound = 0x92,
    /// more unacknowledged messages than the receive maximum
    ReceiveMaximumExceeded = 0x93,
    /// alias 0, or above the maximum
    TopicAliasInvalid = 0x94,
    /// larger than the maximum packet size
    PacketTooLarge = 0x95,
    /// too many messages a second
    MessageRateTooHigh = 0x96,
    /// a limit of the implementation or the operator is reached
    QuotaExceeded = 0x97,
    /// closed by administrative action
    AdministrativeAction = 0x98,
    /// the payload is not of its declared format
    PayloadFormatInvalid = 0x99,
    /// retained messages are not available
    RetainNotSupported = 0x9A,
    /// the QoS is above the maximum
    QoSNotSupported = 0x9B,
    /// use another server for now
    UseAnotherServer = 0x9C,
    /// use another server from now on
    ServerMoved = 0x9D,
    /// shared subscriptions are not available
    SharedSubscriptionsNotSupported = 0x9E,
    /// too many connections a second
    ConnectionRateExceeded = 0x9F,
    /// the connection was open for the longest time allowed
    MaximumConnectTime = 0xA0,
    /// subscription identifiers are not available
    SubscriptionIdentifiersNotSupported = 0xA1,
    /// wildcard subscriptions are not available
    WildcardSubscriptionsNotSupported = 0xA2,
}

impl ReasonCode {
    /// Its number.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self as u8
    }

    /// Whether it reports a failure (0x80 and above).
    #[must_use]
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// The return code of a CONNACK of 3.1 and 3.1.1 (3.2.2.3): the closest of the five refusals.
    #[must_use]
    pub const fn connect_return_code(self) -> u8 {
        match self {
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            Self::NotAuthorized | Self::Banned | Self::BadAuthenticationMethod => 5,
            code if code.is_error() => 3,
            _ => 0,
        }
    }
}

/// The packets whose codes the standard lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// 3.2.2.2
    ConnAck,
    /// 3.4.2.1 and 3.5.2.1: PUBACK, PUBREC
    PublishAnswer,
    /// 3.6.2.1 and 3.7.2.1: PUBREL, PUBCOMP
    Release,
    /// 3.9.3
    SubAck,
    /// 3.11.3
    UnsubAck,
    /// 3.14.2.1, sent by a client
    ClientDisconnect,
    /// 3.14.2.1, sent by a server
    ServerDisconnect,
}

impl ReasonCode {
    /// Whether that packet may carry the code.
    pub(crate) const fn goes_with(self, carrier: Carrier) -> bool {
        use ReasonCode as R;
        match carrier {
            Carrier::ConnAck => matches!(
                self.as_u8(),
                0x00 | 0x80..=0x8a | 0x8c | 0x90 | 0x95 | 0x97 | 0x99..=0x9d | 0x9f
            ),
            Carrier::PublishAnswer => {
                matches!(self.as_u8(), 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
            }
            Carrier::Release => matches!(self, R::Success | R::PacketIdentifierNotFound),
            Carrier::SubAck => {
                matches!(self.as_u8(), 0x00..=0x02 | 0x80 | 0x83 | 0x87 | 0x8f | 0x91 | 0x97 | 0x9e | 0xa1 | 0xa2)
            }
            Carrier::UnsubAck => matches!(self.as_u8(), 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8f | 0x91),
            Carrier::ClientDisconnect => matches!(
                self.as_u8(),
                0x00 | 0x04 | 0x80..=0x83 | 0x90 | 0x93..=0x99
            ),
            // 0x8c is in 2.4 and missing in 3.14.2.1.
            Carrier::ServerDisconnect => matches!(
                self.as_u8(),
                0x00 | 0x80..=0x83 | 0x87 | 0x89 | 0x8b..=0x90 | 0x93..=0xa2
            ),
        }
    }

    /// The code, or Unspecified Error if that packet may not carry it.
    pub(crate) const fn for_carrier(self, carrier: Carrier) -> Self {
        match self.goes_with(carrier) {
            true => self,
            false => Self::UnspecifiedError,
        }
    }
}
