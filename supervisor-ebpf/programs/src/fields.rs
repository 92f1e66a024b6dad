//! Where the kernel keeps what we read: offsets as frozen globals, and the readers that use them.
//!
//! There is no CO-RE for Rust, so user space looks every offset up in the running kernel's BTF and writes it into a global of the same
//! name before the object is loaded (all are `u64`). The globals lie in a read-only map that is frozen before the verifier runs, so the
//! verifier sees constants and checks each read as an access to the named field of a trusted pointer; a wrong offset is refused at load
//! in all but unlucky cases. A read through a stale pointer gives 0 and cannot fault.
//!
//! | global                 | what user space writes                                                                       |
//! |------------------------|----------------------------------------------------------------------------------------------|
//! | `OFF_TASK_PID`         | byte offset of `task_struct.pid`                                                             |
//! | `OFF_TASK_TGID`        | `task_struct.tgid`                                                                           |
//! | `OFF_TASK_LEADER`      | `task_struct.group_leader`                                                                   |
//! | `OFF_TASK_PARENT`      | `task_struct.real_parent`                                                                    |
//! | `OFF_TASK_START`       | `task_struct.start_boottime`                                                                 |
//! | `OFF_TASK_CGROUPS`     | `task_struct.cgroups`                                                                        |
//! | `OFF_TASK_SIGNAL`      | `task_struct.signal`                                                                         |
//! | `OFF_TASK_STATE`       | `task_struct.__state`, and where that is missing (before Linux 5.14) `task_struct.state`     |
//! | `OFF_TASK_EXIT_CODE`   | `task_struct.exit_code`                                                                      |
//! | `OFF_TASK_COMM`        | `task_struct.comm`                                                                           |
//! | `OFF_SIGNAL_LIVE`      | `signal_struct.live`                                                                         |
//! | `OFF_SIGNAL_THREADS`   | `signal_struct.nr_threads`                                                                   |
//! | `OFF_SIGNAL_FLAGS`     | `signal_struct.flags`                                                                        |
//! | `OFF_SIGNAL_CODE`      | `signal_struct.group_exit_code`                                                              |
//! | `OFF_CSET_CGRP`        | `css_set.dfl_cgrp`                                                                           |
//! | `OFF_CGRP_KN`          | `cgroup.kn`                                                                                  |
//! | `OFF_CGRP_ROOT`        | `cgroup.root`                                                                                |
//! | `OFF_CGRP_PARENT_CSS`  | `cgroup.self.parent` (`self` is a nested struct: the sum of both offsets)                    |
//! | `OFF_CSS_CGROUP`       | `cgroup_subsys_state.cgroup`                                                                 |
//! | `OFF_KN_ID`            | `kernfs_node.id`                                                                             |
//! | `OFF_ROOT_HID`         | `cgroup_root.hierarchy_id`                                                                   |
//! | `OFF_INFO_CODE`        | `kernel_siginfo.si_code` (a member of an anonymous struct)                                   |
//! | `VICTIM_IS_TASK`       | 1 when the first parameter of `btf_trace_mark_victim`, the `void *` not counted, points to a `task_struct`; 0 when it is an `int` |
//! | `EVENT_LEVEL`          | no offset: one of `abi::level`                                                               |
