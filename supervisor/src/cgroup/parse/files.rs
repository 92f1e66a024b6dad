//! Interface files of a cgroup.

use super::{ParseError, lines, number};

/// Name of a controller, e.g. `memory`. Lower-case ASCII letters, digits and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Controller(Box<str>);

impl Controller {
    /// The controller of this name; none when no controller could be called so.
    pub fn new(name: &[u8]) -> Option<Self> {
        let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        if name.is_empty() || !name.iter().all(fits) {
            return None;
        }
        std::str::from_utf8(name).ok().map(|name| Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// `cgroup.events`: what poll(2) on it tells about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// The cgroup or one below it has a live process. A zombie does not count.
    pub populated: bool,
    /// Every process in it has stopped (Linux 5.2). It lags behind the write to `cgroup.freeze`.
    pub frozen: bool,
}

/// Parses `cgroup.events`. Keys of newer kernels are passed over.
///
/// # Errors
/// A line is no key and number, `populated` or `frozen` is missing or no 0 or 1.
pub fn events(text: &[u8]) -> Result<Events, ParseError> {
    let error = |expected| ParseError::new("cgroup.events", expected, text);
    let (mut populated, mut frozen) = (None, None);
    for entry in flat_keyed("cgroup.events", text) {
        match entry? {
            (b"populated", value) => populated = flag(value),
            (b"frozen", value) => frozen = flag(value),
            _ => {}
        }
    }
    Ok(Events {
        populated: populated.ok_or_else(|| error("`populated` with 0 or 1"))?,
        frozen: frozen.ok_or_else(|| error("`frozen` with 0 or 1"))?,
    })
}

fn flag(value: u64) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The entries of a flat keyed file (`cgroup.events`, `memory.events`, `cpu.stat`, ...): a key, one space and a number per line. `file` is for
/// the error.
pub fn flat_keyed<'text>(
    file: &'static str,
    text: &'text [u8],
) -> impl Iterator<Item = Result<(&'text [u8], u64), ParseError>> {
    lines(text).map(move |line| {
        let error = || ParseError::new(file, "a key, a space and a number", line);
        let space = line.iter().position(|&byte| byte == b' ').ok_or_else(error)?;
        let (key, value) = (&line[..space], &line[space + 1..]);
        if key.is_empty() {
            return Err(error());
        }
        Ok((key, number(value).ok_or_else(error)?))
    })
}

/// `cgroup.procs`: who is in a cgroup, at the moment of reading. Neither sorted nor free of doubles, as the kernel says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Procs {
    /// Process ids in the reader's pid namespace, each above 0.
    pub pids: Vec<i32>,
    /// Processes that have no number in the reader's pid namespace: the kernel writes 0 for each.
    pub unseen: usize,
}

/// Parses `cgroup.procs` or `cgroup.threads`.
///
/// # Errors
/// A line is no process id.
pub fn procs(text: &[u8]) -> Result<Procs, ParseError> {
    let mut procs = Procs::default();
    for line in lines(text) {
        match number(line).and_then(|pid| i32::try_from(pid).ok()) {
            Some(0) => procs.unseen += 1,
            Some(pid) => procs.pids.push(pid),
            None => return Err(ParseError::new("cgroup.procs", "a process id a line", line)),
        }
    }
    Ok(procs)
}

/// Parses `cgroup.controllers` or `cgroup.subtree_control`: names between spaces, on one line; empty when there are none.
///
/// # Errors
/// A word is no name of a controller.
pub fn controllers(text: &[u8]) -> Result<Vec<Controller>, ParseError> {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    line.split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty())
        .map(|word| {
            Controller::new(word)
                .ok_or_else(|| ParseError::new("cgroup.controllers", "names of controllers", word))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_of_a_live_and_of_a_frozen_cgroup() {
        assert_eq!(events(b"populated 1\nfrozen 0\n"), Ok(Events { populated: true, frozen: false }));
        assert_eq!(events(b"populated 0\nfrozen 1\n"), Ok(Events { populated: false, frozen: true }));
        assert_eq!(
            events(b"populated 0\nnew_thing 17\nfrozen 0\n"),
            Ok(Events { populated: false, frozen: false })
        );
    }

    #[test]
    fn events_that_do_not_say_are_no_answer() {
        for wrong in
            [&b""[..], b"frozen 0\n", b"populated 1\n", b"populated 2\nfrozen 0\n", b"populated\nfrozen 0\n"]
        {
            assert!(events(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn a_member_of_another_pid_namespace_is_counted_and_not_named() {
        assert_eq!(procs(b"12\n0\n7\n0\n"), Ok(Procs { pids: vec![12, 7], unseen: 2 }));
        assert_eq!(procs(b""), Ok(Procs::default()));
        assert!(procs(b"12\nx\n").is_err());
        assert!(procs(b"-1\n").is_err());
        assert!(procs(b"2147483648\n").is_err());
    }

    #[test]
    fn controllers_may_be_none_or_many() {
        let names = |text: &[u8]| {
            controllers(text).map(|list| list.iter().map(|c| c.as_str().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names(b"\n"), Ok(vec![]));
        assert_eq!(names(b""), Ok(vec![]));
        assert_eq!(names(b"hugetlb\n"), Ok(vec!["hugetlb".to_owned()]));
        assert_eq!(names(b"cpu net_cls\n"), Ok(vec!["cpu".to_owned(), "net_cls".to_owned()]));
        assert!(names(b"cpu\nmemory\n").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = events(&text);
            let _ = procs(&text);
            let _ = controllers(&text);
            for entry in flat_keyed("any", &text) {
                let _ = entry;
            }
        }

        #[test]
        fn what_the_kernel_would_write_comes_back(
            populated: bool, frozen: bool, pids in proptest::collection::vec(1..=i32::MAX, 0..40), unseen in 0_usize..4,
        ) {
            let text = format!("populated {}\nfrozen {}\n", u8::from(populated), u8::from(frozen));
            prop_assert_eq!(events(text.as_bytes()), Ok(Events { populated, frozen }));
            let mut text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
            text.push_str(&"0\n".repeat(unseen));
            prop_assert_eq!(procs(text.as_bytes()), Ok(Procs { pids, unseen }));
        }

        #[test]
        fn every_name_comes_back(names in proptest::collection::vec("[a-z][a-z0-9_]{0,9}", 0..12)) {
            let parsed = controllers(format!("{}\n", names.join(" ")).as_bytes());
            prop_assert_eq!(parsed.map(|list| list.iter().map(|c| c.as_str().to_owned()).collect::<Vec<_>>()), Ok(names));
        }
    }
}
