//! The memory limits of this process: those of its control groups (v1 and v2, nested), of `ulimit`
//! and of SLURM.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit in bytes, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit in bytes.
    pub bytes: u64,
    /// Bytes of the limit that are in use: by this process, or by all of its control group.
    pub used: u64,
    /// The origin of the limit, and where it can be read.
    pub by: String,
    /// How to raise the limit.
    pub raise: String,
}

/// Values from here on mean no limit: v1 writes the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// The file names of a version of control groups.
struct Files {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The line in `memory.stat` with the memory that the kernel can reclaim.
    reclaimed: &'static str,
}

const V1: Files = Files {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimed: "total_inactive_file",
};

const V2: Files =
    Files { mount: "sys/fs/cgroup", limit: "memory.max", used: "memory.current", reclaimed: "inactive_file" };

/// The memory limits that control groups set on this process, from its own group up. `root` is `/`
/// except in tests.
pub fn of_groups(root: &Path) -> Vec<Limit> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        let files = match (number, controllers) {
            ("0", "") => V2,
            (_, list) if list.split(',').any(|one| one == "memory") => V1,
            _ => return None,
        };
        Some(upwards(&root.join(files.mount), group.trim_start_matches('/'), &files))
    });
    limits.flatten().collect()
}

/// The limits from a group up to the mount. In a container, the group's own path may be missing;
/// the mount is then used as the group.
fn upwards(mount: &Path, group: &str, files: &Files) -> Vec<Limit> {
    let mut folder = mount.join(group);
    let mut found = Vec::new();
    loop {
        let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        if let Some(bytes) = number(files.limit).filter(|bytes| *bytes < UNLIMITED) {
            let used = number(files.used).unwrap_or(0).saturating_sub(reclaimed(&folder, files));
            let by = format!("the control group's {}", shown(&folder.join(files.limit)));
            let raise = "a larger limit: `docker run --memory`, `sbatch --mem`, `systemd-run -p MemoryMax=`".to_owned();
            found.push(Limit { bytes, used, by, raise });
        }
        if folder == mount || !folder.pop() {
            return found;
        }
    }
}

/// Bytes of cached files that the kernel holds for a group, and drops when it needs the memory.
fn reclaimed(folder: &Path, files: &Files) -> u64 {
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix(files.reclaimed)?.trim().parse().ok());
    line.unwrap_or(0)
}

fn shown(path: &Path) -> String {
    let at = path.components().skip_while(|part| part.as_os_str() != "sys").collect::<PathBuf>();
    format!("/{}", at.display())
}

/// Reads a soft limit from `/proc/self/limits`: address space and data in bytes, open files as a
/// number.
fn of_process(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The maximum number of files that this process may have open at a time; `None` where it is
/// unknown.
pub fn open_files() -> Option<u64> {
    of_process(Path::new("/"), "Max open files")
}

/// The limits set by `ulimit -v` and `ulimit -d`.
pub fn of_ulimit(root: &Path) -> Vec<Limit> {
    let limits = [("Max address space", "VmSize:", "v"), ("Max data size", "VmData:", "d")];
    let of = |(name, used, option): (&str, &str, &str)| {
        let (bytes, used) = (of_process(root, name)?, status(root, used).unwrap_or(0));
        let raise = format!("`ulimit -{option} unlimited`");
        Some(Limit { bytes, used, by: format!("`ulimit -{option}`"), raise })
    };
    limits.into_iter().filter_map(of).collect()
}

/// Reads a line of `/proc/self/status`, in bytes.
fn status(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The memory that a SLURM job may use on this node. SLURM enforces it only where it is configured
/// to; a job that exceeds it takes memory from other jobs, or is killed later.
pub fn of_slurm(root: &Path, variable: impl Fn(&str) -> Option<String>) -> Option<Limit> {
    variable("SLURM_JOB_ID")?;
    let number = |name: &str| variable(name)?.trim().parse::<u64>().ok().filter(|n| *n > 0);
    // Both are in MiB; 0 means all memory of the node.
    let (mib, name) = match number("SLURM_MEM_PER_NODE") {
        Some(mib) => (mib, "SLURM_MEM_PER_NODE"),
        None => {
            let each = number("SLURM_MEM_PER_CPU")?;
            (each.saturating_mul(number("SLURM_CPUS_ON_NODE").unwrap_or(1)), "SLURM_MEM_PER_CPU")
        }
    };
    let used = status(root, "VmRSS:").unwrap_or(0);
    let raise = "a larger limit: `sbatch --mem`".to_owned();
    Some(Limit { bytes: mib.saturating_mul(1 << 20), used, by: format!("SLURM's {name}"), raise })
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

    fn bytes(root: &tempfile::TempDir) -> Vec<u64> {
        of_groups(root.path()).iter().map(|limit| limit.bytes).collect()
    }

    #[test]
    fn limits_of_nested_groups_are_those_of_each() {
        let v2 = machine(&[
            ("proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "1000000000\n"),
            ("sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 400000000\nfile 7\n"),
            ("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n"),
        ]);
        let found = of_groups(v2.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].bytes, found[0].used), (2 << 30, 600_000_000));
        assert_eq!(found[0].by, "the control group's /sys/fs/cgroup/user.slice/memory.max");
        let v1 = machine(&[
            ("proc/self/cgroup", "3:cpu,cpuacct:/\n7:memory:/slurm/job_7\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "4294967296\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(bytes(&v1), [1 << 30, 4 << 30]);
        // A container sees its own group as the mount.
        let container =
            machine(&[("proc/self/cgroup", "0::/docker/abc\n"), ("sys/fs/cgroup/memory.max", "536870912\n")]);
        assert_eq!(bytes(&container), [512 << 20]);
        for text in ["", "0::/\n", "nonsense\n", "7:memory\n"] {
            assert_eq!(of_groups(machine(&[("proc/self/cgroup", text)]).path()), [], "{text:?}");
        }
        assert_eq!(of_groups(Path::new("/no/such/root")), []);
    }

    #[test]
    fn slurm_limits_its_jobs_and_nobody_else() {
        let root = machine(&[("proc/self/status", "VmRSS:\t    2048 kB\n")]);
        let of = |variables: &[(&str, &str)]| {
            let value =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            of_slurm(root.path(), value).map(|limit| (limit.bytes, limit.used))
        };
        let job = ("SLURM_JOB_ID", "7");
        assert_eq!(of(&[("SLURM_MEM_PER_NODE", "4096")]), None, "not in a job");
        assert_eq!(of(&[job]), None);
        assert_eq!(of(&[job, ("SLURM_MEM_PER_NODE", "0")]), None, "all memory of the node");
        assert_eq!(of(&[job, ("SLURM_MEM_PER_NODE", "4096")]), Some((4 << 30, 2 << 20)));
        let per_cpu = [job, ("SLURM_MEM_PER_CPU", "1024"), ("SLURM_CPUS_ON_NODE", "8")];
        assert_eq!(of(&per_cpu), Some((8 << 30, 2 << 20)));
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
        assert_eq!(of_ulimit(root.path()), []);
        let limits = text.replace("unlimited            unlimited            bytes", "1000000 unlimited bytes");
        let root = machine(&[("proc/self/limits", &limits), ("proc/self/status", "VmSize:\t  100 kB\n")]);
        let found = of_ulimit(root.path());
        assert_eq!((found.len(), found[0].bytes, found[0].used), (1, 1_000_000, 102_400));
    }
}
