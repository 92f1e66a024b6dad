//! The task's environment: what is asked for and a documented minimum, never the caller's secrets.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::identity::Account;

/// `PATH` where the caller has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whose account HOME, USER, LOGNAME and SHELL speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The caller's own: its variables come first, the user database second.
    Callers,
    /// Another user's: the user database alone.
    Anothers,
}

/// How much is there without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Minimum {
    /// PATH, HOME, USER, LOGNAME, SHELL, TERM.
    Kept,
    /// Nothing.
    Cleared,
}

/// Builds the environment. `asked` holds `NAME=value`, or `NAME` for the caller's own value; later ones win.
pub(super) fn build(
    asked: &[OsString],
    minimum: Minimum,
    whose: Whose,
    account: Option<&Account>,
    caller: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<CString>, String> {
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut set = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            variables.insert(name.as_bytes().to_vec(), value.into_vec());
        }
    };
    if minimum == Minimum::Kept {
        set("PATH", Some(caller("PATH").unwrap_or_else(|| DEFAULT_PATH.into())));
        set("TERM", caller("TERM"));
        let own = |name: &str| if whose == Whose::Callers { caller(name) } else { None };
        let known = |field: fn(&Account) -> &str| account.map(|account| OsString::from(field(account)));
        set("HOME", own("HOME").or_else(|| known(|a| &a.home)));
        set("USER", own("USER").or_else(|| known(|a| &a.name)));
        set("LOGNAME", own("LOGNAME").or_else(|| known(|a| &a.name)));
        set("SHELL", own("SHELL").or_else(|| known(|a| &a.shell)));
    }
    for text in asked {
        let bytes = text.as_bytes();
        let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&bytes[..at], Some(bytes[at + 1..].to_vec())),
            None => (bytes, OsStr::from_bytes(bytes).to_str().and_then(&caller).map(OsString::into_vec)),
        };
        if name.is_empty() {
            return Err(format!("`{}` is no variable: write NAME=value", text.display()));
        }
        match value {
            Some(value) => drop(variables.insert(name.to_vec(), value)),
            None => {
                return Err(format!("the variable `{}` is not set here: write NAME=value", text.display()));
            }
        }
    }
    variables
        .into_iter()
        .map(|(name, value)| {
            CString::new([name.as_slice(), b"=", &value].concat())
                .map_err(|_| format!("the variable `{}` holds a NUL byte", String::from_utf8_lossy(&name)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Option<OsString> {
        match name {
            "HOME" => Some("/caller".into()),
            "TERM" => Some("xterm".into()),
            "TOKEN" => Some("secret".into()),
            _ => None,
        }
    }

    fn names(asked: &[&str], minimum: Minimum, whose: Whose) -> Vec<String> {
        let account = Account { name: "u".into(), home: "/srv/u".into(), shell: "/bin/sh".into() };
        let asked: Vec<OsString> = asked.iter().map(OsString::from).collect();
        let built = build(&asked, minimum, whose, Some(&account), caller).unwrap();
        built.into_iter().map(|variable| variable.into_string().unwrap()).collect()
    }

    #[test]
    fn only_what_is_asked_and_the_minimum() {
        assert_eq!(
            names(&["A=1", "A=2=3"], Minimum::Kept, Whose::Callers),
            [
                "A=2=3",
                "HOME=/caller",
                "LOGNAME=u",
                &format!("PATH={DEFAULT_PATH}"),
                "SHELL=/bin/sh",
                "TERM=xterm",
                "USER=u"
            ]
        );
        assert_eq!(names(&["TOKEN"], Minimum::Cleared, Whose::Callers), ["TOKEN=secret"]);
        assert!(names(&[], Minimum::Kept, Whose::Anothers).contains(&"HOME=/srv/u".to_owned()));
    }

    #[test]
    fn what_cannot_be_a_variable_is_refused() {
        for text in ["=x", "", "MISSING"] {
            let asked = [OsString::from(text)];
            assert!(build(&asked, Minimum::Cleared, Whose::Callers, None, caller).is_err(), "{text}");
        }
    }
}
