//! The name of a task.

use std::fmt;

/// A task's id: what the driver or the user calls it. 1 to 128 bytes of text without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(String);

/// Why a text is no task id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskIdError {
    /// It is empty.
    Empty,
    /// It has this many bytes, escaped for use as a file name; there is room for [`TaskId::MAX`] (255 once escaped).
    TooLong(usize),
    /// It holds this control character.
    Control(char),
}

impl TaskId {
    /// The longest id, in bytes.
    pub const MAX: usize = 128;

    /// Checks a text.
    pub fn new(text: impl Into<String>) -> Result<Self, TaskIdError> {
        let text = text.into();
        if text.is_empty() {
            return Err(TaskIdError::Empty);
        }
        if text.len() > Self::MAX {
            return Err(TaskIdError::TooLong(text.len()));
        }
        if let Some(c) = text.chars().find(|c| c.is_control()) {
            return Err(TaskIdError::Control(c));
        }
        let id = Self(text);
        match id.directory_name().len() {
            // NAME_MAX of every Linux file system that we make directories on.
            length if length > 255 => Err(TaskIdError::TooLong(length)),
            _ => Ok(id),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as one path component, different for different ids: `/`, `%` and whatever could be taken for something else are written
    /// as `%` and two hexadecimal digits. A first dot is escaped (`.`, `..`, hidden files), and so is the dot of a name that begins like
    /// one of the interface files that a cgroup directory holds (`cgroup.procs`, `memory.max`).
    pub fn directory_name(&self) -> String {
        use fmt::Write;
        let first_dot = self.0.find('.');
        let prefix = first_dot.map(|at| &self.0[..at]);
        let escaped_dot = match prefix {
            Some(
                "" | "cgroup" | "cpu" | "cpuset" | "io" | "memory" | "pids" | "hugetlb" | "rdma" | "misc"
                | "dmem" | "irq",
            ) => first_dot,
            Some(_) | None => None,
        };
        let mut name = String::with_capacity(self.0.len());
        for (at, c) in self.0.char_indices() {
            match c {
                '/' | '%' | ' ' => {
                    // Writing to a String cannot fail.
                    let _ = write!(name, "%{:02x}", c as u32);
                }
                '.' if Some(at) == escaped_dot => name.push_str("%2e"),
                other => name.push(other),
            }
        }
        name
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TaskIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a task id must not be empty"),
            Self::TooLong(bytes) => {
                write!(
                    f,
                    "a task id of {bytes} bytes is too long: at most {} (255 once escaped)",
                    TaskId::MAX
                )
            }
            Self::Control(c) => write!(f, "a task id must not hold the control character {c:?}"),
        }
    }
}

impl std::error::Error for TaskIdError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_could_be_mistaken_are_escaped() {
        let name = |id: &str| TaskId::new(id).expect("a good id").directory_name();
        assert_eq!(name("web-1.example"), "web-1.example");
        assert_eq!(name(".."), "%2e.");
        assert_eq!(name("a/b c%"), "a%2fb%20c%25");
        assert_eq!(name("cgroup.procs"), "cgroup%2eprocs");
        assert_eq!(name("memory.max"), "memory%2emax");
        assert_eq!(name("Größe"), "Größe");
    }

    #[test]
    fn bad_ids_say_what_is_wrong() {
        assert_eq!(TaskId::new(""), Err(TaskIdError::Empty));
        assert_eq!(TaskId::new("a\nb"), Err(TaskIdError::Control('\n')));
        assert_eq!(TaskId::new("x".repeat(129)), Err(TaskIdError::TooLong(129)));
        assert_eq!(TaskId::new("/".repeat(100)), Err(TaskIdError::TooLong(300)));
    }

    proptest! {
        #[test]
        fn a_directory_name_is_one_safe_component_and_tells_ids_apart(a in "\\PC{1,40}", b in "\\PC{1,40}") {
            let (a, b) = (TaskId::new(a), TaskId::new(b));
            prop_assume!(a.is_ok() && b.is_ok());
            let (a, b) = (a.unwrap(), b.unwrap());
            let name = a.directory_name();
            prop_assert!(!name.contains('/') && !name.starts_with('.') && name.len() <= 255 && !name.is_empty());
            prop_assert_eq!(a == b, name == b.directory_name());
        }
    }
}
