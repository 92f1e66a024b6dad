//! What a task is and how it lives: pure. No I/O, no clock, no threads; time and facts come in as events, wishes go out as effects.

mod id;
pub mod life;
pub mod restart;
mod result;
mod signal;
mod spec;

pub use id::{TaskId, TaskIdError};
pub use result::{Outcome, RunNumber, StartFailure, StopCause, WaitStatus};
pub use signal::{Signal, SignalError};
pub use spec::{Identity, ResourceLimit, StopPolicy, TaskSpec, Until};
