//! The checks, part by part.

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::thread::available_parallelism;

use hearth_plugin_host::{Search, shown_path};
use hearth_train::device;
use hearth_train::distributed::mpi::{Interface, library_names};

use super::{Finding, Health, libraries, programs};
use crate::cudnn::{Cudnn, Found};
use crate::terminal::bytes;

/// The free memory or disk space below which a bundled recipe may be killed, or fail to write.
const LITTLE: u64 = 2 << 30;
/// The low limit of open files: each case that a loader reads, each cache and each checkpoint opens
/// files.
const FEW_FILES: u64 = 1024;

/// Checks all parts.
pub fn all() -> Vec<Finding> {
    let mut all = vec![processor()];
    all.extend(memory());
    all.push(disk("this folder", &env::current_dir().unwrap_or_default()));
    all.push(temporary(&env::temp_dir()));
    all.extend(devices());
    all.extend(plugins());
    all.extend(mpi());
    all.extend(programs::all());
    all
}

fn processor() -> Finding {
    let cores = available_parallelism().map_or(1, usize::from);
    let paths = hearth::kernels::processor_paths();
    let mut found = format!("{cores} cores for this process, {}", paths[0]);
    let asked = env::var("RAYON_NUM_THREADS").ok();
    match asked.as_deref().map(str::parse::<usize>) {
        None => Finding::good("processor", found),
        Some(Ok(threads)) if threads <= cores => {
            let _ = write!(found, ", RAYON_NUM_THREADS={threads}");
            Finding::good("processor", found)
        }
        Some(Ok(threads)) => {
            let _ = write!(found, ", but RAYON_NUM_THREADS={threads} asks for more threads than cores");
            Finding::new("processor", Health::Poor, found).mended_by("unset RAYON_NUM_THREADS")
        }
        Some(Err(_)) => {
            let _ = write!(found, ", but RAYON_NUM_THREADS={} is not a number", asked.unwrap_or_default());
            Finding::new("processor", Health::Broken, found).mended_by("unset RAYON_NUM_THREADS")
        }
    }
}

fn memory() -> Vec<Finding> {
    let machine = device::parse("cpu").ok().and_then(|device| device::memory(&device));
    let mut all = Vec::new();
    if let Some(memory) = machine {
        let found = format!("{} free of {}", bytes(memory.free), bytes(memory.total));
        let health = if memory.free < LITTLE { Health::Poor } else { Health::Good };
        all.push(Finding::new("memory", health, found));
    }
    for limit in hearth_machine::memory_limits() {
        let found = format!("{} by {}, {} in use", bytes(limit.bytes), limit.by, bytes(limit.used));
        all.push(match limit.bytes < LITTLE {
            true => Finding::new("memory limit", Health::Poor, found).mended_by(limit.raise),
            false => Finding::good("memory limit", found),
        });
    }
    if let Some(files) = hearth_machine::open_files() {
        let finding = format!("{files} at once by `ulimit -n`");
        all.push(match files {
            0..FEW_FILES => Finding::new("open files", Health::Poor, finding).mended_by("ulimit -n 4096"),
            _ => Finding::good("open files", finding),
        });
    }
    all
}

#[cfg(target_os = "linux")]
fn free_space(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free_space(_folder: &Path) -> Option<u64> {
    None
}

fn disk(what: &str, folder: &Path) -> Finding {
    let Some(free) = free_space(folder) else {
        return Finding::good(what, folder.display().to_string());
    };
    let found = format!("{} free in {}", bytes(free), folder.display());
    match free {
        0..LITTLE => Finding::new(what, Health::Poor, found).mended_by(format!("df -h {}", folder.display())),
        _ => Finding::good(what, found),
    }
}

/// Checks that a file can be written to the temporary folder.
fn temporary(folder: &Path) -> Finding {
    let what = "temporary files";
    let written =
        tempfile::Builder::new().prefix("hearth-doctor").tempfile_in(folder).and_then(|mut file| file.write_all(b"1"));
    match written {
        Ok(()) => disk(what, folder),
        Err(error) => {
            let found = format!("none can be written to {}: {error}", folder.display());
            Finding::new(what, Health::Broken, found).mended_by("export TMPDIR=A_FOLDER_THAT_CAN_BE_WRITTEN")
        }
    }
}

/// A vendor's GPUs: how they appear on the PCI bus, their drivers, and the features that use them.
struct Vendor {
    pci: &'static str,
    name: &'static str,
    /// The names of the devices that use it, best first.
    words: &'static [&'static str],
    driver: &'static [&'static str],
    mend: &'static str,
}

const VENDORS: [Vendor; 3] = [
    Vendor {
        pci: "0x10de",
        name: "NVIDIA",
        words: &["cuda", "vulkan", "wgpu"],
        driver: &["libcuda.so.1"],
        mend: "sudo apt install nvidia-driver    (in a container: docker run --gpus all)",
    },
    Vendor {
        pci: "0x1002",
        name: "AMD",
        words: &["rocm", "vulkan", "wgpu"],
        driver: &["libamdhip64.so", "libvulkan.so.1"],
        mend: "sudo apt install mesa-vulkan-drivers libvulkan1    (ROCm: https://rocm.docs.amd.com)",
    },
    Vendor {
        pci: "0x8086",
        name: "Intel",
        words: &["vulkan", "wgpu"],
        driver: &["libvulkan.so.1"],
        mend: "sudo apt install mesa-vulkan-drivers libvulkan1",
    },
];

fn devices() -> Vec<Finding> {
    let folders = libraries::folders();
    let known = device::list();
    let adapters = libraries::adapters(Path::new("/sys/bus/pci/devices"));
    let mut all = Vec::new();
    for info in known.iter().filter(|info| info.is_here() && info.word != "cpu") {
        let memory = info.memory.map_or_else(String::new, |memory| format!(", {}", bytes(memory)));
        all.push(Finding::good(format!("device {}", info.word), format!("{}{memory}", info.name)));
    }
    if known.iter().any(|info| info.is_here() && info.feature == "cuda") {
        all.push(match device::libdevice() {
            Ok(file) => Finding::good("CUDA's libdevice", file.display().to_string()),
            Err(missing) => Finding::new("CUDA's libdevice", Health::Broken, missing)
                .mended_by("sudo apt install cuda-nvvm-12-8    (from NVIDIA's repository)"),
        });
    }
    all.extend(Found::for_devices(&known).map(cudnn));
    for Vendor { pci, name, words, driver, mend } in VENDORS {
        let cards = adapters.iter().filter(|vendor| *vendor == pci).count();
        let answers = known.iter().any(|info| info.is_here() && words.contains(&info.feature));
        if cards == 0 || answers {
            continue;
        }
        let what = format!("{name} GPUs");
        let built = known.iter().any(|info| info.compiled_in && words.contains(&info.feature));
        all.push(if !built {
            let found = format!("{cards} in this machine; this program is built without {}", words.join(", "));
            let feature = words[0];
            let mend = format!("the archive hearth-{feature}, or cargo install --path apps --features {feature}");
            Finding::new(what, Health::Poor, found).mended_by(mend)
        } else {
            let found = match libraries::find(&folders, driver) {
                Some(library) => format!("{cards} in this machine, and {}, but no device answers", library.display()),
                None => format!("{cards} in this machine, but none of {} is installed", driver.join(", ")),
            };
            Finding::new(what, Health::Broken, found).mended_by(mend)
        });
    }
    let any = known.iter().any(|info| info.is_here() && info.word != "cpu");
    if !any && adapters.iter().all(|vendor| VENDORS.iter().all(|known| known.pci != vendor)) {
        all.push(Finding::new("GPU", Health::Absent, "none in this machine; everything runs on the CPU"));
    }
    all
}

fn cudnn(found: Found) -> Finding {
    let health = match found.state {
        Cudnn::Usable => Health::Good,
        Cudnn::Missing => Health::Absent,
        Cudnn::Unusable => Health::Poor,
        Cudnn::Misnamed => Health::Broken,
    };
    Finding { mend: found.mend(), ..Finding::new("cuDNN", health, found.line) }
}

fn plugins() -> Vec<Finding> {
    let search = Search::standard(&[], &[]);
    let list = search.list();
    let mut all = Vec::new();
    for entry in list.entries.iter().filter(|entry| entry.problem.is_none() && entry.hidden_by.is_none()) {
        let Some(identity) = &entry.identity else { continue };
        let place = entry.path.as_ref().map_or_else(|| "built in".to_owned(), |path| shown_path(path));
        let what = format!("plugin {}", identity.name);
        all.push(Finding::good(what, format!("{}, {place}", identity.version)));
    }
    for entry in &list.entries {
        let Some(problem) = &entry.problem else { continue };
        let path = shown_path(entry.path.as_ref().unwrap_or(&entry.place.path));
        let what = entry.name().map_or_else(|| "plugin".to_owned(), |name| format!("plugin {name}"));
        let problem = problem.lines().next().unwrap_or_default();
        let found = if problem.contains(&path) { problem.to_owned() } else { format!("{path}: {problem}") };
        // A file with a bundled plugin's name takes precedence over the built-in copy.
        let mend = format!("hearth plugin check {path}, then build it again or remove it");
        all.push(Finding::new(what, Health::Broken, found).mended_by(mend));
    }
    for why in search.idle() {
        let mend = "export HEARTH_PLUGIN_PATH=A_FOLDER_OF_PLUGINS, or unset it";
        all.push(Finding::new("plugins", Health::Broken, why).mended_by(mend));
    }
    all
}

fn mpi() -> Vec<Finding> {
    if let Some(named) = env::var_os("HEARTH_MPI").filter(|name| !name.is_empty()) {
        let name = named.to_string_lossy().into_owned();
        let there = Path::new(&named).exists() || libraries::find(&libraries::folders(), &[&name]).is_some();
        let found = format!("HEARTH_MPI={name}");
        return vec![if there {
            Finding::good("MPI", found)
        } else {
            Finding::new("MPI", Health::Broken, format!("{found}, which does not exist")).mended_by("unset HEARTH_MPI")
        }];
    }
    let folders = libraries::folders();
    let mut all = Vec::new();
    for (interface, name) in library_names() {
        let Some(library) = libraries::find(&folders, &[name]) else { continue };
        let kind = match interface {
            Interface::OpenMpi => "Open MPI",
            Interface::Mpich => "MPICH's interface",
            Interface::Standard => "the standard interface",
        };
        all.push(Finding::good("MPI", format!("{kind}, {}", library.display())));
    }
    if all.is_empty() {
        let found = "no library; `--ranks` and `--hosts` work without one, launchers do not";
        all.push(Finding::new("MPI", Health::Absent, found).mended_by("sudo apt install openmpi-bin"));
    }
    all
}
