//! The types of the standard, one file per part: values (part 1), performatives (part 2), messages,
//! termini and outcomes (part 3), transactions (part 4), security (part 5). Plain owned structs:
//! only the transfer and disposition of the hot path also have borrowed forms, in `codec::fast`.

mod message;
mod performative;
mod security;
mod terminus;
mod transaction;
mod value;

pub use message::{Body, DeliveryState, Header, Message, MessageId, Modified, Outcome, Properties, Received};
pub use performative::{
    Attach, Begin, Close, Detach, Disposition, End, Error, Flow, Open, Performative, ReceiverSettleMode, Role,
    SenderSettleMode, Transfer, condition,
};
pub use security::{SaslCode, SaslFrame, SaslInit, SaslOutcome, SaslResponse};
pub use terminus::{Lifetime, Source, Target, TerminusDurability, TerminusExpiryPolicy};
pub use transaction::{Coordinator, Declare, Declared, Discharge, TransactionControl, TransactionalState};
pub use value::{Fields, Symbol, Value};
