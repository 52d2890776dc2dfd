//! Restricts an isolated plugin's process to the capabilities that the plugin declares.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

use crate::needs::Need;

/// The version of Landlock whose rights are requested; older kernels use the subset that they
/// support.
const RIGHTS: ABI = ABI::V3;

/// The folders of libraries and settings of a system, which any plugin may read.
const SYSTEM: [&str; 11] =
    ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc", "/opt", "/nix", "/proc", "/sys", "/dev"];

/// Devices that any plugin may write to.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Variables with files or folders of libraries and of Python, from which the plugin's code is
/// read.
const CODE: [&str; 6] =
    ["LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "HEARTH_LIBPYTHON"];

/// Permanently restricts this process to the list: without the capability, files other than those
/// of the system and of the plugin (Landlock), network sockets, and starting programs (seccomp) are
/// blocked. Without a declaration nothing is blocked. Returns the capabilities that this system
/// cannot block.
///
/// # Errors
/// If the system refuses a restriction that it supports.
pub fn confine(needs: Option<&[Need]>, library: Option<&Path>) -> Result<Vec<Need>, String> {
    let Some(needs) = needs else { return Ok(Vec::new()) };
    let lacks = |need: Need| !needs.contains(&need);
    let mut open = Vec::new();
    if lacks(Need::Files) && !take_files(library)? {
        open.push(Need::Files);
    }
    let (network, programs) = (lacks(Need::Network), lacks(Need::Programs));
    if (network || programs) && !take_calls(network, programs)? {
        open.extend([Need::Network, Need::Programs].into_iter().filter(|need| lacks(*need)));
    }
    Ok(open)
}

/// Blocks access to files; returns whether that was possible.
fn take_files(library: Option<&Path>) -> Result<bool, String> {
    let said = |error: landlock::RulesetError| format!("its files cannot be restricted: {error}");
    let folder = library.and_then(Path::parent).map(Path::to_owned);
    let program = env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
    let code = CODE.iter().filter_map(env::var_os);
    let code = code.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>());
    // libpython is in `lib` of the folder that contains all of Python.
    let code = code.map(|path| match path.is_file() {
        true => path.ancestors().nth(2).map_or_else(|| path.clone(), Path::to_owned),
        false => path,
    });
    let code = code.filter(|path| path.is_absolute() && path.parent().is_some());
    let readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).chain(folder).chain(program).chain(code).collect();
    let rules = Ruleset::default().handle_access(AccessFs::from_all(RIGHTS)).and_then(|rules| rules.create());
    let rules = rules
        .and_then(|rules| rules.add_rules(path_beneath_rules(&readable, AccessFs::from_read(RIGHTS))))
        .and_then(|rules| rules.add_rules(path_beneath_rules(DEVICES, AccessFs::from_file(RIGHTS))));
    let status = rules.and_then(|rules| rules.restrict_self()).map_err(said)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Blocks network sockets and starting programs; returns whether that was possible.
fn take_calls(network: bool, programs: bool) -> Result<bool, String> {
    // System-call numbers of other CPU architectures are unknown.
    let Ok(processor) = env::consts::ARCH.try_into() else { return Ok(false) };
    let said = |error: &dyn std::fmt::Display| format!("its calls of the system cannot be restricted: {error}");
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    if network {
        let other = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, libc::AF_UNIX as u64);
        let other = other.and_then(|condition| SeccompRule::new(vec![condition])).map_err(|error| said(&error))?;
        rules.insert(libc::SYS_socket, vec![other]);
        // It can open sockets too.
        rules.insert(libc::SYS_io_uring_setup, Vec::new());
    }
    if programs {
        rules.insert(libc::SYS_execve, Vec::new());
        rules.insert(libc::SYS_execveat, Vec::new());
    }
    let refused = SeccompAction::Errno(libc::EACCES as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, processor);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(|error| said(&error))?;
    apply_filter_all_threads(&program).map_err(|error| said(&error))?;
    Ok(true)
}
