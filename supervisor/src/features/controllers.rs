//! Where the controllers are that limits need. Pure.

use super::observed::HierarchySeen;
use crate::cgroup::Layout;

/// Controllers that limits of tasks need, with their names in v1.
const WANTED: [(&str, &str); 5] =
    [("cpu", "cpu"), ("memory", "memory"), ("pids", "pids"), ("io", "blkio"), ("cpuset", "cpuset")];

/// Where a controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In our own cgroup: tasks can have it.
    Usable,
    /// Bound to a v1 hierarchy.
    OnV1,
    /// In v2, but an ancestor of our cgroup does not hand it down.
    NotDelegated,
    /// Switched off at boot.
    SwitchedOff,
    /// This kernel does not have it.
    Absent,
}

impl Place {
    /// For the report.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Usable => "usable",
            Self::OnV1 => "on v1",
            Self::NotDelegated => "not delegated to our cgroup",
            Self::SwitchedOff => "switched off at boot",
            Self::Absent => "not in this kernel",
        }
    }

    /// What to do about it.
    pub(super) const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Usable => None,
            Self::OnV1 => Some("boot with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all"),
            Self::NotDelegated => {
                Some("enable them in cgroup.subtree_control of the ancestors (systemd: Delegate=yes)")
            }
            Self::SwitchedOff => Some("take cgroup_disable= off the kernel's command line"),
            Self::Absent => Some("use a kernel that is built with them"),
        }
    }
}

/// Where each wanted controller is, by place.
pub(super) fn places(seen: &HierarchySeen) -> Vec<(Place, Vec<&'static str>)> {
    let mut places: Vec<(Place, Vec<&'static str>)> = Vec::new();
    for (name, v1_name) in WANTED {
        let place = place(seen, name, v1_name);
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, names)) => names.push(name),
            None => places.push((place, vec![name])),
        }
    }
    places.sort_by_key(|(place, _)| *place);
    places
}

fn place(seen: &HierarchySeen, name: &str, v1_name: &str) -> Place {
    let has = |list: Option<&Vec<crate::cgroup::parse::Controller>>| {
        list.is_some_and(|list| list.iter().any(|controller| controller.as_str() == name))
    };
    if has(seen.own_controllers.worked()) {
        return Place::Usable;
    }
    if let Layout::Hybrid { v1_controllers } = &seen.layout
        && v1_controllers.iter().any(|controller| controller.as_str() == v1_name)
    {
        return Place::OnV1;
    }
    let compiled = seen.compiled.iter().find(|compiled| compiled.name.as_str() == v1_name);
    match compiled {
        _ if has(seen.top_controllers.worked()) => Place::NotDelegated,
        Some(compiled) if !compiled.enabled => Place::SwitchedOff,
        // The mount shows only a part of the hierarchy, whose top was not given it.
        Some(_) => Place::NotDelegated,
        None => Place::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{compiled, controllers, hierarchy};
    use super::super::observed::Tried;
    use super::*;

    #[test]
    fn each_place_is_told() {
        let mut seen = hierarchy();
        seen.own_controllers = Tried::Worked(controllers(&["cpu"]));
        seen.top_controllers = Tried::Worked(controllers(&["cpu", "memory"]));
        seen.layout = Layout::Hybrid { v1_controllers: controllers(&["blkio"]) };
        seen.compiled = vec![compiled("cpu", true), compiled("pids", false), compiled("blkio", true)];
        assert_eq!(
            places(&seen),
            [
                (Place::Usable, vec!["cpu"]),
                (Place::OnV1, vec!["io"]),
                (Place::NotDelegated, vec!["memory"]),
                (Place::SwitchedOff, vec!["pids"]),
                (Place::Absent, vec!["cpuset"]),
            ]
        );
    }

    #[test]
    fn in_a_part_of_the_hierarchy_what_the_kernel_has_is_not_delegated() {
        let mut seen = hierarchy();
        seen.own_controllers = Tried::Worked(vec![]);
        seen.top_controllers = Tried::Worked(vec![]);
        seen.compiled =
            ["cpu", "memory", "pids", "blkio", "cpuset"].map(|name| compiled(name, true)).to_vec();
        assert_eq!(places(&seen), [(Place::NotDelegated, vec!["cpu", "memory", "pids", "io", "cpuset"])]);
    }
}
