//! The messages between the daemon (or `proctor run`), the keeper and the executors.
//!
//! Each is one `SOCK_SEQPACKET` message: a version byte, a kind byte, then fields in fixed order, integers little-endian, byte strings
//! with a 32-bit length. A field is only ever added at the end, and a reader ignores what follows the fields it knows, so a newer
//! sender is understood by an older reader and the other way round: a missing field at the end has a default. Descriptors travel beside
//! the message in the order that the message's documentation gives.

mod codec;
mod executor;
mod keeper;
mod spec;

pub use codec::WireError;
pub use executor::{
    FromExecutor, RunReport, STUCK_MAX, Stream, StreamReport, StuckProcess, Timings, ToExecutor,
};
pub use keeper::{FromKeeper, KeeperSetup, OutputPlan, ToKeeper};
pub use spec::{SPEC_MAX, decode_spec, encode_spec};

/// Version of all messages.
const VERSION: u8 = 1;
