//! What the tests share: a private place, proctor, and waiting for events.
