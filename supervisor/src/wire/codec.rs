//! Fields of messages. Reading is total: any bytes give a value or an error, and nothing is allocated before its size was checked.

use std::ffi::CString;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};

use super::VERSION;

/// Bytes that are no message of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end too early.
    #[error("the message ends in the middle of a field")]
    Short,
    /// A version that we do not speak.
    #[error(
        "the message has version {0}, which this proctor does not speak: use programs of one version together"
    )]
    Version(u8),
    /// A kind that we do not know.
    #[error("the message has the unknown kind {0}")]
    Kind(u8),
    /// A field holds what it cannot.
    #[error("the message's field `{0}` is out of range")]
    Field(&'static str),
}

/// The longest path that the kernel takes, in bytes; whoever reads one of that length in a message reads all of it.
pub(super) const PATH_MAX: usize = 4096;

/// The longest sentence, in bytes.
pub(super) const TEXT_MAX: usize = 2048;

/// The longest name, in bytes. The kernel's own are shorter.
pub(super) const NAME_MAX: usize = 128;

/// Stands for what was cut off.
const CUT: &str = "…";

/// Writes one message.
pub(super) struct Writer(BytesMut);

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        let mut bytes = BytesMut::with_capacity(256);
        bytes.put_u8(VERSION);
        bytes.put_u8(kind);
        Self(bytes)
    }

    pub(super) fn u8(mut self, value: u8) -> Self {
        self.0.put_u8(value);
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.put_u32_le(value);
        self
    }

    pub(super) fn i32(mut self, value: i32) -> Self {
        self.0.put_i32_le(value);
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.put_u64_le(value);
        self
    }

    pub(super) fn duration(self, value: Duration) -> Self {
        self.u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    /// None is `u64::MAX`, which is no time that anybody measures.
    pub(super) fn maybe_duration(self, value: Option<Duration>) -> Self {
        match value {
            Some(value) => self.u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX - 1)),
            None => self.u64(u64::MAX),
        }
    }

    pub(super) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.put_u32_le(value.len() as u32);
        self.0.put_slice(value);
        self
    }

    /// A text that only people read, cut where it is longer than `most` bytes: with a path or a name of any length in it the message
    /// still has to fit.
    pub(super) fn text(self, value: &str, most: usize) -> Self {
        if value.len() <= most {
            return self.bytes(value.as_bytes());
        }
        let end = (0..=most - CUT.len()).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
        self.bytes([&value[..end], CUT].concat().as_bytes())
    }

    /// A count and then each item.
    pub(super) fn list<T>(mut self, items: &[T], write: impl Fn(Self, &T) -> Self) -> Self {
        self = self.u32(items.len() as u32);
        for item in items {
            self = write(self, item);
        }
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Reads one message.
pub(super) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// Checks the version and gives the kind.
    pub(super) fn new(bytes: &'b [u8]) -> Result<(u8, Self), WireError> {
        match bytes {
            [VERSION, kind, rest @ ..] => Ok((*kind, Self(rest))),
            [version, _, ..] => Err(WireError::Version(*version)),
            _ => Err(WireError::Short),
        }
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        self.0.try_get_u8().map_err(|_| WireError::Short)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.0.try_get_u32_le().map_err(|_| WireError::Short)
    }

    pub(super) fn i32(&mut self) -> Result<i32, WireError> {
        self.0.try_get_i32_le().map_err(|_| WireError::Short)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        self.0.try_get_u64_le().map_err(|_| WireError::Short)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, WireError> {
        self.u64().map(Duration::from_nanos)
    }

    pub(super) fn maybe_duration(&mut self) -> Result<Option<Duration>, WireError> {
        self.u64().map(|nanos| (nanos != u64::MAX).then(|| Duration::from_nanos(nanos)))
    }

    pub(super) fn bytes(&mut self) -> Result<&'b [u8], WireError> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<String, WireError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| WireError::Field(field))
    }

    pub(super) fn c_string(&mut self, field: &'static str) -> Result<CString, WireError> {
        CString::new(self.bytes()?).map_err(|_| WireError::Field(field))
    }

    /// A count and then each item, which has at least one byte: a count that the rest cannot hold is an error before anything is
    /// allocated (INV-8).
    pub(super) fn list<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.u32()? as usize;
        if count > self.0.len() {
            return Err(WireError::Short);
        }
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<'b, T>(
        bytes: &'b [u8],
        read: impl Fn(&mut Reader<'b>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let (_, mut reader) = Reader::new(bytes)?;
        read(&mut reader)
    }

    /// INV-8: a length or a count is held against what is there before memory is taken for it.
    #[test]
    fn inv_8_a_length_that_the_message_cannot_hold_is_an_error() {
        for length in [6, 1 << 20, u32::MAX] {
            let bytes = Writer::new(1).u32(length).u8(0).finish();
            assert_eq!(read(&bytes, |r| r.bytes().map(<[u8]>::len)), Err(WireError::Short), "{length}");
            assert_eq!(read(&bytes, |r| r.list(Reader::u64)), Err(WireError::Short), "{length}");
            assert_eq!(read(&bytes, |r| r.c_string("x")), Err(WireError::Short), "{length}");
        }
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        let bytes = Writer::new(1).bytes(b"a\xff").finish();
        assert_eq!(read(&bytes, |r| r.text("name")), Err(WireError::Field("name")));
        let bytes = Writer::new(1).bytes(b"a\0b").finish();
        assert_eq!(read(&bytes, |r| r.c_string("name")), Err(WireError::Field("name")));
    }

    #[test]
    fn a_time_that_is_too_long_is_the_longest_and_none_stays_none() {
        for time in [None, Some(Duration::ZERO), Some(Duration::from_nanos(u64::MAX - 1))] {
            let bytes = Writer::new(1).maybe_duration(time).finish();
            assert_eq!(read(&bytes, Reader::maybe_duration), Ok(time));
        }
        let bytes = Writer::new(1).maybe_duration(Some(Duration::MAX)).duration(Duration::MAX).finish();
        let both = read(&bytes, |r| Ok((r.maybe_duration()?, r.duration()?)));
        assert_eq!(both, Ok((Some(Duration::from_nanos(u64::MAX - 1)), Duration::from_nanos(u64::MAX))));
    }

    proptest! {
        #[test]
        fn a_text_is_whole_or_cut_between_letters(text in "[aä€😀]{0,80}", most in 3usize..100) {
            let got = read(&Writer::new(1).text(&text, most).finish(), |r| r.text("text")).unwrap();
            prop_assert!(got.len() <= most);
            match got.strip_suffix(CUT) {
                Some(start) => prop_assert!(text.starts_with(start) && text.len() > most),
                None => prop_assert_eq!(got, text),
            }
        }
    }
}
