//! Finds programs on the path, and libraries where the system's loader would, without loading them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders that are searched for libraries: those of the environment, of the loader's
/// configuration, and the usual ones.
pub fn folders() -> Vec<PathBuf> {
    let named = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"].into_iter().filter_map(env::var_os);
    let mut all: Vec<PathBuf> = named.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>()).collect();
    let configured = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = configured.map(|entry| entry.path()).collect();
    files.sort_unstable();
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        all.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from));
    }
    let arch = env::consts::ARCH;
    all.extend([format!("/lib/{arch}-linux-gnu"), format!("/usr/lib/{arch}-linux-gnu")].map(PathBuf::from));
    let usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/usr/lib/wsl/lib", "/opt/rocm/lib"];
    all.extend(usual.map(PathBuf::from));
    all.retain(|folder| folder.is_absolute());
    all
}

/// Finds the first of these libraries in one of the folders.
pub fn find(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.exists()))
}

/// Finds a program on the path, or at the path that it is named by.
pub fn program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| file.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The vendors of the display adapters on the PCI bus: `0x10de` is NVIDIA, `0x1002` AMD, `0x8086`
/// Intel. `devices` is `/sys/bus/pci/devices` outside of tests.
pub fn adapters(devices: &Path) -> Vec<String> {
    let text = |folder: &Path, file: &str| {
        fs::read_to_string(folder.join(file)).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let all = fs::read_dir(devices).into_iter().flatten().flatten().map(|entry| entry.path());
    // Class 0x03: displays; 0x12: accelerators, which includes AMD's Instinct GPUs.
    let mut vendors: Vec<String> = all
        .filter(|folder| ["0x03", "0x12"].iter().any(|class| text(folder, "class").starts_with(class)))
        .map(|folder| text(&folder, "vendor"))
        .collect();
    vendors.sort_unstable();
    vendors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_adapters_are_found_where_they_lie() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("lib");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("libcuda.so.1"), "").unwrap();
        let folders = [root.path().to_owned(), folder.clone()];
        assert_eq!(find(&folders, &["libother.so", "libcuda.so.1"]), Some(folder.join("libcuda.so.1")));
        assert_eq!(find(&folders, &["libother.so"]), None);
        for (device, class, vendor) in
            [("0", "0x030200", "0x10de"), ("1", "0x020000", "0x8086"), ("2", "0x120000", "0x1002")]
        {
            let device = root.path().join("pci").join(device);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("class"), format!("{class}\n")).unwrap();
            fs::write(device.join("vendor"), format!("{vendor}\n")).unwrap();
        }
        assert_eq!(adapters(&root.path().join("pci")), ["0x1002", "0x10de"]);
        assert!(adapters(Path::new("/no/such/bus")).is_empty());
        assert!(super::folders().iter().all(|folder| folder.is_absolute()));
    }
}
