//! Waiting for something that must happen.

use std::time::{Duration, Instant};

/// How long anything in a test may take before it is taken for broken. Generous: it bounds a failure and measures nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until there is something, or panics with what was waited for.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for: {what}");
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place in the tests that looks again and again"
        )]
        std::thread::sleep(Duration::from_millis(2));
    }
}
