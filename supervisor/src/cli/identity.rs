//! Users and groups by name: looked up here, once, before anything is started.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use crate::task::Identity;

/// The account that a task runs as, as far as its environment needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) home: String,
    pub(super) shell: String,
}

/// The user's and the group's ids with all supplementary groups of the user, and the account for the environment. Names go through NSS,
/// so users of LDAP and the like are found.
pub(super) fn look_up(
    user: Option<&str>,
    group: Option<&str>,
) -> Result<(Identity, Option<Account>), String> {
    if user.is_none() && group.is_none() {
        return Ok((Identity::Inherit, account_of(Uid::effective())));
    }
    let found = user.map(find_user).transpose()?;
    let uid = found.as_ref().map_or_else(Uid::effective, |(uid, _)| *uid);
    let record = found.and_then(|(_, record)| record);
    let gid = match (group, &record) {
        (Some(group), _) => find_group(group)?,
        (None, Some(record)) => record.gid,
        (None, None) if user.is_some() => {
            return Err(format!("user {uid} has no entry in the user database: give --group as well"));
        }
        (None, None) => Gid::effective(),
    };
    let groups = match &record {
        Some(record) => {
            let name =
                CString::new(record.name.as_str()).map_err(|_| String::from("a user's name holds a NUL"))?;
            getgrouplist(&name, gid)
                .map_err(|errno| format!("cannot look up the groups of {}: {errno}", record.name))?
        }
        None => vec![gid],
    };
    let groups = groups.into_iter().map(Gid::as_raw).collect();
    let account = record.map(account).or_else(|| account_of(uid));
    Ok((Identity::As { uid: uid.as_raw(), gid: gid.as_raw(), groups }, account))
}

fn find_user(name: &str) -> Result<(Uid, Option<User>), String> {
    if let Some(user) =
        User::from_name(name).map_err(|errno| format!("cannot look up user `{name}`: {errno}"))?
    {
        return Ok((user.uid, Some(user)));
    }
    match name.parse::<u32>() {
        // (uid_t)-1 means "do not change" to the kernel.
        Ok(uid) if uid != u32::MAX => {
            let uid = Uid::from_raw(uid);
            let record =
                User::from_uid(uid).map_err(|errno| format!("cannot look up user {uid}: {errno}"))?;
            Ok((uid, record))
        }
        Ok(_) | Err(_) => {
            Err(format!("there is no user `{name}`: use a name that `getent passwd` knows, or a number"))
        }
    }
}

fn find_group(name: &str) -> Result<Gid, String> {
    if let Some(group) =
        Group::from_name(name).map_err(|errno| format!("cannot look up group `{name}`: {errno}"))?
    {
        return Ok(group.gid);
    }
    match name.parse::<u32>() {
        Ok(gid) if gid != u32::MAX => Ok(Gid::from_raw(gid)),
        Ok(_) | Err(_) => {
            Err(format!("there is no group `{name}`: use a name that `getent group` knows, or a number"))
        }
    }
}

fn account_of(uid: Uid) -> Option<Account> {
    User::from_uid(uid).ok().flatten().map(account)
}

fn account(user: User) -> Account {
    Account {
        name: user.name,
        home: user.dir.to_string_lossy().into_owned(),
        shell: user.shell.to_string_lossy().into_owned(),
    }
}
