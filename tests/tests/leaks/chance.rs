//! Random moments that can be repeated: each test has a fixed seed and prints it when it fails.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use supervisor::sys::pidfd;

/// A small generator (splitmix64): good enough to spread moments.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A time from 0 to `most`.
    pub fn moment(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.next() % (most.as_nanos() as u64 + 1))
    }
}

/// Lets `moment` pass since `begin`, unless our child of this number ends before. Gives whether it is still there.
pub fn lives_until(pid: i32, begin: Instant, moment: Duration) -> bool {
    let Ok(process) = pidfd::open(pid) else { return false };
    loop {
        let left = moment.saturating_sub(begin.elapsed());
        let mut ended = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut ended, Some(TimeSpec::from_duration(left)), None) {
            Ok(0) => return true,
            Ok(_) => return false,
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => panic!("wait for a moment: {error}"),
        }
    }
}
