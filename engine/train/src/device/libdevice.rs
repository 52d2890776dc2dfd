//! The CUDA toolkit's file for kernels with exponentials, logarithms and the like. The driver does
//! not contain it, and without it a training fails at the first such kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The path below the toolkit's folder.
const FILE: &str = "nvvm/libdevice/libdevice.10.bc";
/// The usual folders of the toolkit, as CubeCL searches them.
const ROOTS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Finds CUDA's `libdevice.10.bc`, in the folder that `CUDA_PATH` names, or the usual ones.
///
/// # Errors
/// The searched folders, and the packages that contain the file.
pub fn libdevice() -> Result<PathBuf, String> {
    find(std::env::var_os("CUDA_PATH"), &ROOTS.map(Path::new))
}

fn find(named: Option<OsString>, roots: &[&Path]) -> Result<PathBuf, String> {
    let named = named.map(PathBuf::from);
    let looked: Vec<&Path> = named.as_deref().map_or_else(|| roots.to_vec(), |named| vec![named]);
    let file = looked.iter().map(|root| root.join(FILE)).find(|file| file.is_file());
    file.ok_or_else(|| {
        let looked: Vec<_> = looked.iter().map(|root| root.display().to_string()).collect();
        let by = if named.is_some() { " (CUDA_PATH)" } else { "" };
        format!(
            "CUDA's {FILE} is not in {}{by}. NVIDIA's packages have it (cuda-nvvm-12-8, or the whole toolkit), and so has `pip install nvidia-cuda-nvcc`; set CUDA_PATH to the folder that `nvvm` is in",
            looked.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_where_it_is_and_missed_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (full, bare) = (folder.path().join("full"), folder.path().join("bare"));
        let file = full.join(FILE);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("folders");
        std::fs::create_dir_all(&bare).expect("a folder");
        std::fs::write(&file, "BC").expect("a file");
        assert_eq!(find(None, &[&bare, &full]), Ok(file.clone()));
        assert_eq!(find(Some(full.clone().into()), &[&bare]), Ok(file));
        // The variable is used as it is, as CubeCL does.
        let error = find(Some(bare.clone().into()), &[&full]).expect_err("not there");
        assert!(error.contains(&format!("is not in {} (CUDA_PATH)", bare.display())), "{error}");
        let error = find(None, &[&bare]).expect_err("not there");
        assert!(error.contains(&bare.display().to_string()) && error.contains("set CUDA_PATH"), "{error}");
    }
}
