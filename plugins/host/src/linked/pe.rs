//! Windows: names in the tables of a PE file, which are searched in its folder, that of the program and the
//! current one.

use std::path::{Path, PathBuf};

use object::pe::{ImageNtHeaders32, ImageNtHeaders64};
use object::read::pe::{ExportTarget, ImageNtHeaders, PeFile, optional_header_magic};
use object::{LittleEndian, pe};

use super::{Format, Links, text};

/// Reads the libraries that a PE file imports, at once or at the first call, and those to which it forwards
/// its exports.
pub(super) fn read(bytes: &[u8]) -> Result<Links, String> {
    let names = match optional_header_magic(bytes).map_err(said)? {
        pe::IMAGE_NT_OPTIONAL_HDR32_MAGIC => tables::<ImageNtHeaders32>(bytes),
        _ => tables::<ImageNtHeaders64>(bytes),
    }?;
    Ok(Links { format: Format::Pe, names, ..Links::default() })
}

fn tables<H: ImageNtHeaders>(bytes: &[u8]) -> Result<Vec<String>, String> {
    let file = PeFile::<H>::parse(bytes).map_err(said)?;
    let mut names = Vec::new();
    if let Some(table) = file.import_table().map_err(said)? {
        let mut libraries = table.descriptors().map_err(said)?;
        while let Some(library) = libraries.next().map_err(said)? {
            names.push(text(table.name(library.name.get(LittleEndian)).map_err(said)?)?);
        }
    }
    if let Some(table) = file.delay_load_import_table().map_err(said)? {
        let mut libraries = table.descriptors().map_err(said)?;
        while let Some(library) = libraries.next().map_err(said)? {
            names.push(text(table.name(library.dll_name_rva.get(LittleEndian)).map_err(said)?)?);
        }
    }
    if let Some(table) = file.export_table().map_err(said)? {
        for address in table.addresses() {
            let target = table.target_from_address(address.get(LittleEndian)).map_err(said)?;
            if let ExportTarget::ForwardByName(library, _) | ExportTarget::ForwardByOrdinal(library, _) = target {
                let library = text(library)?;
                if !names.contains(&library) {
                    names.push(library);
                }
            }
        }
    }
    Ok(names)
}

fn said(error: object::read::Error) -> String {
    error.to_string()
}

/// The folders of a library in the folder `origin`. The system's folders and those of `PATH` are not its
/// choice.
pub(super) fn folders(origin: &Path) -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::parent).map(Path::to_owned);
    [Some(origin.to_owned()), program, Some(PathBuf::from("."))].into_iter().flatten().collect()
}

/// The places of a library's name, which may lack its ending.
pub(super) fn places(name: &str, searched: &[PathBuf]) -> Vec<PathBuf> {
    let ended = name.to_ascii_lowercase().ends_with(".dll");
    let names = [Some(name.to_owned()), (!ended).then(|| format!("{name}.dll"))];
    let join = |name: String| searched.iter().map(move |folder| folder.join(&name));
    names.into_iter().flatten().flat_map(join).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{linked, names};
    use super::*;

    /// A library made by LLVM's linker: see `tests/linked/README.md`.
    const MINE: &[u8] = include_bytes!("../../tests/linked/mine.dll.gz");

    fn mine() -> Vec<u8> {
        let size = u32::from_le_bytes(*MINE.last_chunk().expect("a size"));
        let mut bytes = vec![0; size as usize];
        libdeflater::Decompressor::new().gzip_decompress(MINE, &mut bytes).expect("gzip");
        bytes
    }

    #[test]
    fn libraries_of_a_pe_file_are_found_without_loading() {
        // What `llvm-readobj --coff-imports --coff-exports` prints: an import, a delayed one, a forward.
        assert_eq!(read(&mine()).expect("understood").names, ["helper.dll", "later.dll", "elsewhere"]);
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("mine.dll");
        fs::write(&library, mine()).expect("written");
        assert_eq!(linked(&library).expect("read"), [], "nothing is there");
        for name in ["later.dll", "helper.dll", "elsewhere.dll", "other.dll"] {
            fs::write(folder.path().join(name), "no library").expect("written");
        }
        let found = linked(&library).expect("read");
        assert_eq!(names(&found), ["helper.dll", "later.dll", "elsewhere.dll"]);
        assert!(found.iter().all(|one| one.beside));
        // The imports of an import count.
        fs::remove_file(folder.path().join("later.dll")).expect("ours");
        fs::write(folder.path().join("elsewhere.dll"), mine()).expect("written");
        assert_eq!(names(&linked(&library).expect("read")), ["helper.dll", "elsewhere.dll"]);
    }

    #[test]
    fn tables_that_cannot_be_understood_are_an_error() {
        let whole = mine();
        for length in [2, 64, 200, whole.len() / 2] {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
        let at = whole.windows(10).position(|window| window == b"helper.dll").expect("the name");
        let mut other = whole.clone();
        other[at] = 0xFF;
        assert_eq!(read(&other).expect_err("no text"), "a name is not UTF-8");
    }
}
