//! The types of the standard, one file per part: values (part 1), performatives (part 2), messages,
//! termini and delivery states (part 3), transactions (part 4), security (part 5). Plain owned structs:
//! only the transfer and disposition of the hot path also have borrowed forms, in `codec::fast`.

mod error;
mod message;
mod performative;
mod security;
mod state;
mod terminus;
mod transaction;
mod value;

pub use error::{Error, condition};
pub use message::{Body, Header, Message, MessageId, Properties};
pub use performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative, ReceiverSettleMode, Role,
    SenderSettleMode, Transfer,
};
pub use security::{SaslCode, SaslFrame, SaslInit, SaslOutcome, SaslResponse};
pub use state::{Declared, DeliveryState, Modified, Outcome, Received, TransactionalState};
pub use terminus::{Lifetime, Source, Target, TerminusDurability, TerminusExpiryPolicy};
pub use transaction::{Coordinator, Declare, Discharge, TransactionControl};
pub use value::{Fields, Symbol, Value};
