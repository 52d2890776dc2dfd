//! The limits of this process: of its control groups (v1 and v2, nested), and of `ulimit`.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit in bytes, and who sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub bytes: u64,
    pub by: String,
}

/// From here on a limit is none: v1 says so by the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// The lowest limit of memory that a control group sets on this process. `root` is `/` outside of
/// tests.
pub fn of_groups(root: &Path) -> Option<Limit> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        let (mount, file) = match (number, controllers) {
            ("0", "") => ("sys/fs/cgroup", "memory.max"),
            (_, list) if list.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        lowest(&root.join(mount), group.trim_start_matches('/'), file)
    });
    limits.min_by_key(|limit| limit.bytes)
}

/// The lowest limit from a group up to the mount. In a container the group's own path may not be
/// there; the mount is the group then.
fn lowest(mount: &Path, group: &str, file: &str) -> Option<Limit> {
    let mut folder = mount.join(group);
    let mut found: Option<Limit> = None;
    loop {
        let path = folder.join(file);
        let bytes = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok());
        if let Some(bytes) = bytes.filter(|bytes| *bytes < UNLIMITED)
            && found.as_ref().is_none_or(|limit| bytes < limit.bytes)
        {
            found = Some(Limit { bytes, by: format!("the control group's {}", shown(&path)) });
        }
        if folder == mount || !folder.pop() {
            return found;
        }
    }
}

fn shown(path: &Path) -> String {
    let at = path.components().skip_while(|part| part.as_os_str() != "sys").collect::<PathBuf>();
    format!("/{}", at.display())
}

/// Soft limits from `/proc/self/limits`: address space and data in bytes, open files in number.
pub fn of_process(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_lowest_of_nested_groups_counts() {
        let v2 = machine(&[
            ("proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"),
        ]);
        let by = "the control group's /sys/fs/cgroup/user.slice/memory.max".to_owned();
        assert_eq!(of_groups(v2.path()), Some(Limit { bytes: 2 << 30, by }));
        let v1 = machine(&[
            ("proc/self/cgroup", "3:cpu,cpuacct:/\n7:memory:/slurm/job_7\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(of_groups(v1.path()).map(|limit| limit.bytes), Some(1 << 30));
        // A container sees its own group as the mount.
        let container =
            machine(&[("proc/self/cgroup", "0::/docker/abc\n"), ("sys/fs/cgroup/memory.max", "536870912\n")]);
        assert_eq!(of_groups(container.path()).map(|limit| limit.bytes), Some(512 << 20));
        for text in ["", "0::/\n", "nonsense\n", "7:memory\n"] {
            assert_eq!(of_groups(machine(&[("proc/self/cgroup", text)]).path()), None, "{text:?}");
        }
        assert_eq!(of_groups(Path::new("/no/such/root")), None);
    }

    #[test]
    fn ulimits_are_the_soft_ones() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 524288               files     \n\
                    Max address space         unlimited            unlimited            bytes     \n";
        let root = machine(&[("proc/self/limits", text)]);
        assert_eq!(of_process(root.path(), "Max open files"), Some(1024));
        assert_eq!(of_process(root.path(), "Max address space"), None);
        assert_eq!(of_process(root.path(), "Max data size"), None);
    }
}
