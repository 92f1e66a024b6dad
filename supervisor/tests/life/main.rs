//! The life cycle of a task, driven from outside through its public API alone.
//!
//! | file | what it is |
//! | --- | --- |
//! | `world` | a tiny kernel: processes, their leaf, a pipe with its reader; it carries out effects and gives events back |
//! | `ledger` | what the machine owes, kept in plain figures beside it: every promise is checked here after every event |
//! | `moves` | what can happen next; a failing case is printed as the list of them, which [`replay`] plays again |
//! | `random` | the world in random orders |
//! | `soup` | events that no world would give, in random orders |
//! | `table` | one small test for each arrow, and for each answer that may surprise |
//! | `document` | docs/lifecycle.md says the same as the code |

mod document;
mod ledger;
mod moves;
mod random;
mod soup;
mod table;
mod world;
