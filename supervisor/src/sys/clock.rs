//! The clocks. Deadlines and durations are monotonic; wall-clock time is for people only.

use std::time::Duration;

/// Time on `CLOCK_MONOTONIC`: never jumps, stands still while the machine is suspended.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// Time on `CLOCK_REALTIME`, since the epoch. It may jump: compare it with nothing.
pub fn wall() -> Duration {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one timespec. The call cannot fail for these two clocks; if it did, `time` stays zero.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}
