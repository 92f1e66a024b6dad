//! A task's spec as bytes: what the keeper hands to an executor in a sealed memory file.

use std::ffi::CString;

use super::WireError;
use super::codec::{Reader, Writer};
use crate::task::restart::{Delays, RestartPolicy};
use crate::task::{Identity, ResourceLimit, Signal, StopPolicy, TaskId, TaskSpec, Until};

/// The largest spec, in bytes: more than the 6 MiB that Linux allows for arguments and environment at the most.
pub const SPEC_MAX: usize = 8 << 20;

const KIND: u8 = b'S';

/// As bytes.
pub fn encode_spec(spec: &TaskSpec) -> Vec<u8> {
    // Without `..`: a new field that is forgotten here does not compile.
    let TaskSpec {
        id,
        arguments,
        environment,
        directory,
        umask,
        limits,
        oom_score_adj,
        identity,
        stop,
        until,
        timeout,
        restart,
    } = spec;
    let writer = Writer::new(KIND)
        .bytes(id.as_str().as_bytes())
        .list(arguments, |w, text: &CString| w.bytes(text.as_bytes()))
        .list(environment, |w, text: &CString| w.bytes(text.as_bytes()))
        .bytes(directory.as_bytes())
        .u32(*umask)
        .list(limits, |w, limit| w.u32(limit.resource).u64(limit.soft).u64(limit.hard))
        .i32(oom_score_adj.unwrap_or(i32::MIN));
    let writer = match identity {
        Identity::Inherit => writer.u8(0),
        Identity::As { uid, gid, groups } => {
            writer.u8(1).u32(*uid).u32(*gid).list(groups, |w, group| w.u32(*group))
        }
    };
    let writer = writer
        .u8(stop.signal.number())
        .duration(stop.grace)
        .u8(match until {
            Until::Main => 0,
            Until::All => 1,
        })
        .maybe_duration(*timeout);
    let delays =
        |w: Writer, delays: &Delays| w.u32(delays.attempts.unwrap_or(u32::MAX)).duration(delays.delay);
    match restart {
        RestartPolicy::Never => writer.u8(0),
        RestartPolicy::OnFailure(d) => delays(writer.u8(1), d),
        RestartPolicy::Always(d) => delays(writer.u8(2), d),
    }
    .finish()
}

/// From bytes.
pub fn decode_spec(bytes: &[u8]) -> Result<TaskSpec, WireError> {
    let (kind, mut r) = Reader::new(bytes)?;
    if kind != KIND {
        return Err(WireError::Kind(kind));
    }
    let id = TaskId::new(r.text("id")?).map_err(|_| WireError::Field("id"))?;
    let arguments = r.list(|r| r.c_string("arguments"))?;
    if arguments.is_empty() {
        return Err(WireError::Field("arguments"));
    }
    let environment = r.list(|r| r.c_string("environment"))?;
    let directory = r.c_string("directory")?;
    let umask = r.u32()?;
    let limits = r.list(|r| Ok(ResourceLimit { resource: r.u32()?, soft: r.u64()?, hard: r.u64()? }))?;
    let oom_score_adj = Some(r.i32()?).filter(|score| *score != i32::MIN);
    let identity = match r.u8()? {
        0 => Identity::Inherit,
        1 => Identity::As { uid: r.u32()?, gid: r.u32()?, groups: r.list(Reader::u32)? },
        _ => return Err(WireError::Field("identity")),
    };
    let signal = Signal::from_number(r.u8()?).ok_or(WireError::Field("stop signal"))?;
    let stop = StopPolicy { signal, grace: r.duration()? };
    let until = match r.u8()? {
        0 => Until::Main,
        1 => Until::All,
        _ => return Err(WireError::Field("until")),
    };
    let timeout = r.maybe_duration()?;
    let delays = |r: &mut Reader<'_>| -> Result<Delays, WireError> {
        let attempts = r.u32()?;
        Ok(Delays { attempts: (attempts != u32::MAX).then_some(attempts), delay: r.duration()? })
    };
    let restart = match r.u8()? {
        0 => RestartPolicy::Never,
        1 => RestartPolicy::OnFailure(delays(&mut r)?),
        2 => RestartPolicy::Always(delays(&mut r)?),
        _ => return Err(WireError::Field("restart")),
    };
    Ok(TaskSpec {
        id,
        arguments,
        environment,
        directory,
        umask,
        limits,
        oom_score_adj,
        identity,
        stop,
        until,
        timeout,
        restart,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn spec() -> impl Strategy<Value = TaskSpec> {
        let strings = || proptest::collection::vec("[^\0]{0,20}", 1..5);
        let identity = prop_oneof![
            Just(Identity::Inherit),
            (any::<u32>(), any::<u32>(), proptest::collection::vec(any::<u32>(), 0..4))
                .prop_map(|(uid, gid, groups)| Identity::As { uid, gid, groups }),
        ];
        let restart = prop_oneof![
            Just(RestartPolicy::Never),
            (0u32..9, 0u64..99).prop_map(|(n, s)| {
                RestartPolicy::Always(Delays { attempts: Some(n), delay: Duration::from_secs(s) })
            }),
            Just(RestartPolicy::OnFailure(Delays { attempts: None, delay: Duration::ZERO })),
        ];
        let limit = (0u32..16, any::<u64>(), any::<u64>()).prop_map(|(resource, soft, hard)| ResourceLimit {
            resource,
            soft,
            hard,
        });
        (
            ("[a-z]{1,9}", strings(), strings(), any::<u32>(), proptest::collection::vec(limit, 0..4)),
            (
                proptest::option::of(-1000i32..1000),
                identity,
                1u8..=64,
                0u64..1 << 40,
                any::<bool>(),
                proptest::option::of(0u64..1 << 40),
                restart,
            ),
        )
            .prop_map(
                |(
                    (id, arguments, environment, umask, limits),
                    (oom, identity, signal, grace, all, timeout, restart),
                )| {
                    let c = |texts: Vec<String>| {
                        texts.into_iter().map(|t| CString::new(t).unwrap()).collect::<Vec<_>>()
                    };
                    TaskSpec {
                        id: TaskId::new(id).unwrap(),
                        arguments: c(arguments),
                        environment: c(environment),
                        directory: c"/".to_owned(),
                        umask,
                        limits,
                        oom_score_adj: oom,
                        identity,
                        stop: StopPolicy {
                            signal: Signal::from_number(signal).unwrap(),
                            grace: Duration::from_nanos(grace),
                        },
                        until: if all { Until::All } else { Until::Main },
                        timeout: timeout.map(Duration::from_nanos),
                        restart,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(spec in spec()) {
            prop_assert_eq!(decode_spec(&encode_spec(&spec)).unwrap(), spec);
        }

        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_spec(&bytes);
        }

        #[test]
        fn torn_specs_give_an_error(spec in spec(), at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = encode_spec(&spec);
            let at = at.index(bytes.len());
            prop_assert!(decode_spec(&bytes[..at]).is_err());
            bytes[at] = byte;
            let _ = decode_spec(&bytes);
        }
    }
}
