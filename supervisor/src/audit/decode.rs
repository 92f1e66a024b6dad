//! Pure: the bytes of one ring buffer record to what happened. Total: any bytes give an event or an error.

use std::fmt;

use supervisor_ebpf::abi::{Event, ProcessKey, kind};

use crate::cgroup::CgroupId;

/// Why bytes are no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record has another size than the ABI says.
    #[error("an event of the audit has {len} bytes instead of {}", size_of::<Event>())]
    Length {
        /// Bytes that came.
        len: usize,
    },
    /// A kind that this version does not know.
    #[error("an event of the audit has the unknown kind {kind}")]
    Kind {
        /// The number.
        kind: u32,
    },
    /// The event names no process.
    #[error("an event of the audit names process 0")]
    Process,
}

/// The name of a process as the kernel keeps it: up to 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// From the NUL padded array of the ABI.
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes before the padding.
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or_default()
    }
}

impl fmt::Display for Comm {
    /// Bytes that are no UTF-8 or would steer a terminal are escaped: a process chooses its own name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm({self})")
    }
}

/// How a process ended, as `waitpid(2)` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitStatus(u32);

impl WaitStatus {
    /// From the kernel's number.
    pub fn new(status: u32) -> Self {
        Self(status)
    }

    /// The signal that ended it, none when it exited by itself.
    pub fn signal(self) -> Option<u32> {
        // 0x7f marks a stopped process, which has not ended.
        match self.0 & 0x7f {
            0 | 0x7f => None,
            signal => Some(signal),
        }
    }
}

/// Who made something happen: the process that was current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Its process id in the initial pid namespace.
    pub pid: u32,
    /// Its uid in the initial user namespace.
    pub uid: u32,
    /// Its name.
    pub comm: Comm,
}

/// What happened to the subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// An executor entered a task's cgroup.
    ExecutorEntered,
    /// A member left its run.
    Left,
    /// A process of the run came back.
    Returned,
    /// A member moved inside its run.
    MovedInside,
    /// A stranger was moved into the run.
    Stranger,
    /// It was born in the run and its parent belongs neither to the run nor to the executors.
    Foreign {
        /// Process id of the parent.
        parent: u32,
    },
    /// It was born outside the run of its parent.
    Outside {
        /// Process id of the parent.
        parent: u32,
    },
    /// It was born in the run.
    Birth {
        /// Process id of the parent.
        parent: u32,
    },
    /// It exited.
    Exit(WaitStatus),
    /// The OOM killer chose it.
    OomVictim {
        /// Its uid in the initial user namespace.
        uid: u32,
    },
}

impl Movement {
    /// Whether a claim is broken by it.
    pub fn is_anomaly(&self) -> bool {
        match self {
            Self::ExecutorEntered
            | Self::Left
            | Self::Stranger
            | Self::Foreign { .. }
            | Self::Outside { .. } => true,
            Self::Returned
            | Self::MovedInside
            | Self::Birth { .. }
            | Self::Exit(_)
            | Self::OomVictim { .. } => false,
        }
    }
}

/// One event of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// When: `CLOCK_BOOTTIME` in ns.
    pub time: u64,
    /// Whom it happened to.
    pub subject: ProcessKey,
    /// Its name.
    pub comm: Comm,
    /// The cgroup it is in after the event; none when the kernel side could not read it.
    pub cgroup: Option<CgroupId>,
    /// The run concerned; none for what happens to `tasks/` itself.
    pub run: Option<CgroupId>,
    /// The process that was current.
    pub by: Actor,
    /// What happened.
    pub movement: Movement,
}

/// Reads the fields of a record one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(DecodeError::Length { len: self.0.len() })?;
        self.0 = rest;
        Ok(*field)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.take().map(u32::from_ne_bytes)
    }
}

/// The record in the layout of the ABI, checked for its size only.
fn record(bytes: &[u8]) -> Result<Event, DecodeError> {
    if bytes.len() != size_of::<Event>() {
        return Err(DecodeError::Length { len: bytes.len() });
    }
    let mut fields = Fields(bytes);
    // Struct expressions evaluate their fields in the order written, which is the order of the layout.
    Ok(Event {
        time: fields.u64()?,
        start: fields.u64()?,
        cgroup: fields.u64()?,
        run: fields.u64()?,
        value: fields.u64()?,
        kind: fields.u32()?,
        tgid: fields.u32()?,
        other: fields.u32()?,
        by: fields.u32()?,
        by_uid: fields.u32()?,
        pad: fields.u32()?,
        by_comm: fields.take()?,
        comm: fields.take()?,
    })
}

/// Turns a record of the ring buffer into an event.
///
/// # Errors
/// [`DecodeError`] for a record of another size, of an unknown kind or without a process.
pub fn decode(bytes: &[u8]) -> Result<AuditEvent, DecodeError> {
    let Event {
        time,
        start,
        cgroup,
        run,
        value,
        kind: number,
        tgid,
        other,
        by,
        by_uid,
        pad: _,
        by_comm,
        comm,
    } = record(bytes)?;
    if tgid == 0 {
        return Err(DecodeError::Process);
    }
    let movement = match number {
        kind::EXECUTOR_ENTERED => Movement::ExecutorEntered,
        kind::LEFT => Movement::Left,
        kind::RETURNED => Movement::Returned,
        kind::MOVED_INSIDE => Movement::MovedInside,
        kind::STRANGER => Movement::Stranger,
        kind::FOREIGN => Movement::Foreign { parent: other },
        kind::OUTSIDE => Movement::Outside { parent: other },
        kind::BIRTH => Movement::Birth { parent: other },
        kind::EXIT => Movement::Exit(WaitStatus::new(value as u32)),
        kind::OOM_VICTIM => Movement::OomVictim { uid: value as u32 },
        kind => return Err(DecodeError::Kind { kind }),
    };
    Ok(AuditEvent {
        time,
        subject: ProcessKey { start, tgid, pad: 0 },
        comm: Comm::new(comm),
        cgroup: CgroupId::new(cgroup),
        run: CgroupId::new(run),
        by: Actor { pid: by, uid: by_uid, comm: Comm::new(by_comm) },
        movement,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::mem::offset_of;

    /// The same bytes as the kernel side writes: each field at the place that the compiler gives it.
    fn bytes(event: &Event) -> Vec<u8> {
        let mut out = vec![0; size_of::<Event>()];
        let mut put = |at: usize, value: &[u8]| out[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(Event, time), &event.time.to_ne_bytes());
        put(offset_of!(Event, start), &event.start.to_ne_bytes());
        put(offset_of!(Event, cgroup), &event.cgroup.to_ne_bytes());
        put(offset_of!(Event, run), &event.run.to_ne_bytes());
        put(offset_of!(Event, value), &event.value.to_ne_bytes());
        put(offset_of!(Event, kind), &event.kind.to_ne_bytes());
        put(offset_of!(Event, tgid), &event.tgid.to_ne_bytes());
        put(offset_of!(Event, other), &event.other.to_ne_bytes());
        put(offset_of!(Event, by), &event.by.to_ne_bytes());
        put(offset_of!(Event, by_uid), &event.by_uid.to_ne_bytes());
        put(offset_of!(Event, pad), &event.pad.to_ne_bytes());
        put(offset_of!(Event, by_comm), &event.by_comm);
        put(offset_of!(Event, comm), &event.comm);
        out
    }

    fn event() -> Event {
        Event {
            time: 1,
            start: 2,
            cgroup: 3,
            run: 4,
            value: 0x0700,
            kind: kind::EXIT,
            tgid: 6,
            other: 7,
            by: 8,
            by_uid: 9,
            pad: 0,
            by_comm: *b"writer\0\0\0\0\0\0\0\0\0\0",
            comm: *b"sixteen bytes ok",
        }
    }

    #[test]
    fn each_field_lands_in_its_place() {
        let decoded = decode(&bytes(&event())).unwrap();
        let expected = AuditEvent {
            time: 1,
            subject: ProcessKey { start: 2, tgid: 6, pad: 0 },
            comm: Comm::new(*b"sixteen bytes ok"),
            cgroup: CgroupId::new(3),
            run: CgroupId::new(4),
            by: Actor { pid: 8, uid: 9, comm: Comm::new(*b"writer\0\0\0\0\0\0\0\0\0\0") },
            movement: Movement::Exit(WaitStatus::new(0x0700)),
        };
        assert_eq!(decoded, expected);
    }

    #[test]
    fn each_kind_has_its_movement() {
        let decode_kind = |kind| decode(&bytes(&Event { kind, ..event() })).map(|event| event.movement);
        let expected = [
            Movement::ExecutorEntered,
            Movement::Left,
            Movement::Returned,
            Movement::MovedInside,
            Movement::Stranger,
            Movement::Foreign { parent: 7 },
            Movement::Outside { parent: 7 },
            Movement::Birth { parent: 7 },
            Movement::Exit(WaitStatus::new(0x0700)),
            Movement::OomVictim { uid: 0x0700 },
        ];
        for (number, movement) in (1..).zip(expected) {
            assert_eq!(decode_kind(number), Ok(movement));
        }
        assert_eq!(decode_kind(0), Err(DecodeError::Kind { kind: 0 }));
        assert_eq!(decode_kind(11), Err(DecodeError::Kind { kind: 11 }));
    }

    #[test]
    fn an_event_about_nobody_is_refused() {
        assert_eq!(decode(&bytes(&Event { tgid: 0, ..event() })), Err(DecodeError::Process));
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        let comm = Comm::new(*b"a\x1b[31m\xffz\0hidden\0");
        assert_eq!(comm.to_string(), "a\\u{1b}[31m\\xffz");
    }

    #[test]
    fn only_a_fatal_signal_counts() {
        assert_eq!(WaitStatus::new(0x0f00).signal(), None);
        assert_eq!(WaitStatus::new(9).signal(), Some(9));
        assert_eq!(WaitStatus::new(0x8b).signal(), Some(11), "with a core dump");
        assert_eq!(WaitStatus::new(0x137f).signal(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let answer = decode(&bytes);
            prop_assert!(answer.is_err() || bytes.len() == size_of::<Event>());
        }

        #[test]
        fn records_of_the_right_size_give_an_answer(mut bytes in prop::collection::vec(any::<u8>(), 96), kind in 0u32..13) {
            bytes[offset_of!(Event, kind)..][..4].copy_from_slice(&kind.to_ne_bytes());
            if let Ok(event) = decode(&bytes) {
                prop_assert!((1..=10).contains(&kind));
                let _ = event.comm.to_string();
            }
        }
    }
}
