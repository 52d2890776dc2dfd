//! Linux: names with a search path in the dynamic table of an ELF file.

use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::{Folders, Links, text};

/// The folders in a searched folder in which the system's loader looks first, for some processors.
const VARIANTS: [&str; 8] =
    ["glibc-hwcaps", "tls", "x86_64", "haswell", "avx512_1", "x86-64-v2", "x86-64-v3", "x86-64-v4"];

/// The folders of `DT_RUNPATH`, or those of `DT_RPATH`, here and in the files above.
pub(super) fn folders(links: &Links, origin: &Path, above: Vec<PathBuf>) -> Folders {
    let own = |list: &[String]| list.iter().flat_map(|paths| folders_in(paths, origin)).collect::<Vec<_>>();
    if links.runpath.is_empty() {
        let inherited: Vec<PathBuf> = own(&links.rpath).into_iter().chain(above).collect();
        return Folders { searched: inherited.clone(), inherited };
    }
    Folders { searched: own(&links.runpath), inherited: above }
}

/// Reads the libraries and search paths of an ELF file.
pub(super) fn read(bytes: &[u8]) -> Result<Links, String> {
    match bytes.get(4) {
        Some(1) => table::<elf::FileHeader32<Endianness>>(bytes),
        _ => table::<elf::FileHeader64<Endianness>>(bytes),
    }
}

/// Reads the dynamic table, as the system's loader finds it: by segments.
fn table<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Links, String> {
    let said = |error: object::read::Error| error.to_string();
    let header = H::parse(bytes).map_err(said)?;
    let endian = header.endian().map_err(said)?;
    let segments = header.program_headers(endian, bytes).map_err(said)?;
    // The place in the file of an address in memory.
    let place = |address: u64| {
        segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
            let (start, size): (u64, u64) = (segment.p_vaddr(endian).into(), segment.p_filesz(endian).into());
            let within = address.checked_sub(start).filter(|within| *within < size)?;
            usize::try_from(segment.p_offset(endian).into().checked_add(within)?).ok()
        })
    };
    let mut links = Links::default();
    for segment in segments {
        let Some(table) = segment.dynamic(endian, bytes).map_err(said)? else { continue };
        let table = || table.iter().take_while(|entry| entry.tag(endian) != elf::DT_NULL);
        let strings = table().find(|entry| entry.tag(endian) == elf::DT_STRTAB);
        let strings = strings.and_then(|entry| place(entry.val(endian)));
        for entry in table() {
            let list = match entry.tag(endian) {
                elf::DT_NEEDED | elf::DT_AUXILIARY | elf::DT_FILTER => &mut links.names,
                elf::DT_RPATH => &mut links.rpath,
                elf::DT_RUNPATH => &mut links.runpath,
                _ => continue,
            };
            let at = strings.zip(usize::try_from(entry.val(endian)).ok());
            let name = at.and_then(|(strings, at)| bytes_at(bytes, strings.checked_add(at)?));
            list.push(text(name.ok_or("a name lies outside of the file")?)?);
        }
    }
    Ok(links)
}

/// The bytes up to the next zero.
fn bytes_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
}

/// The folders of a search path. An empty one is the current folder.
fn folders_in(paths: &str, origin: &Path) -> Vec<PathBuf> {
    let each = paths.split(':').flat_map(|path| expanded(path, origin));
    each.map(|path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }).collect()
}

/// A path with the values of the loader's words; `$LIB` has several, of which the system takes one.
fn expanded(path: &str, origin: &Path) -> Vec<PathBuf> {
    let arch = std::env::consts::ARCH;
    let origin = origin.to_string_lossy();
    let path = path.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
    let path = path.replace("${PLATFORM}", arch).replace("$PLATFORM", arch).replace("${LIB}", "$LIB");
    if !path.contains("$LIB") {
        return vec![PathBuf::from(path)];
    }
    let libs = ["lib".to_owned(), "lib64".to_owned(), format!("lib/{arch}-linux-gnu")];
    libs.iter().map(|lib| PathBuf::from(path.replace("$LIB", lib))).collect()
}

/// The places of a library's name. A name with a slash is a path.
pub(super) fn places(name: &str, searched: &[PathBuf], origin: &Path) -> Vec<PathBuf> {
    if name.contains('/') {
        return expanded(name, origin);
    }
    let mut found = Vec::new();
    for folder in searched {
        let mut folders = vec![(folder.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            found.push(folder.join(name));
            if depth < 3 {
                let below = VARIANTS.iter().map(|variant| folder.join(variant)).filter(|folder| folder.is_dir());
                folders.extend(below.map(|folder| (folder, depth + 1)));
            }
        }
    }
    found
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::super::{linked, names};
    use super::*;

    /// Links a library without code by the machine's compiler, which building Hearth needs, too.
    fn link(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let (source, library) = (folder.join("empty.c"), folder.join(format!("lib{name}.so")));
        fs::create_dir_all(folder).expect("a folder");
        fs::write(&source, "int empty_of_all;\n").expect("a source");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).arg(&library).arg(&source).args(flags);
        let output = command.output().expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        library
    }

    #[test]
    fn libraries_whose_place_the_file_decides_are_found_without_loading() {
        let outer = tempfile::tempdir().expect("a folder");
        let (folder, lib) = (outer.path().join("plugin"), outer.path().join("plugin/lib"));
        let (below, other) = (lib.display().to_string(), outer.path().join("other"));
        link(&lib, "third", &[]);
        let second = ["-L", &below, "-lthird", "-Wl,-rpath,$ORIGIN", "-Wl,--enable-new-dtags"];
        link(&lib, "second", &second);
        let far = link(&other, "far", &[]).display().to_string();
        // The loader would take the first of two places; both count.
        link(&lib.join("glibc-hwcaps/x86-64-v3"), "second", &[]);
        let first = ["-L", &below, "-lsecond", "-lm", &far, "-Wl,-rpath,${ORIGIN}/lib"];
        let library = link(&folder, "mine", &first);
        let found = linked(&library).expect("read");
        assert_eq!(names(&found), ["libsecond.so", "libsecond.so", "libfar.so", "libthird.so"]);
        assert_eq!(found.iter().map(|one| one.beside).collect::<Vec<_>>(), [true, true, false, true]);
        // Without a search path the system decides, which is not the file's choice.
        let plain = link(&folder, "plain", &["-L", &below, "-lthird"]);
        assert_eq!(linked(&plain).expect("read"), []);
        // The older search path also counts for the libraries of libraries.
        let old = ["-L", &below, "-lold", "-Wl,-rpath,$ORIGIN/lib", "-Wl,--disable-new-dtags"];
        link(&lib, "old", &["-L", &below, "-lthird"]);
        assert_eq!(names(&linked(&link(&folder, "older", &old)).expect("read")), ["libold.so", "libthird.so"]);
    }

    #[test]
    fn a_table_that_cannot_be_understood_is_an_error_and_other_files_link_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        link(folder.path(), "helper", &[]);
        let place = folder.path().display().to_string();
        let library = link(folder.path(), "mine", &["-L", &place, "-lhelper", "-Wl,-rpath,$ORIGIN"]);
        let mut bytes = fs::read(&library).expect("bytes");
        let name = b"libhelper.so\0";
        let at = bytes.windows(name.len()).position(|window| window == name).expect("the name");
        bytes[at] = 0xFF;
        fs::write(&library, &bytes).expect("written");
        assert!(linked(&library).expect_err("no name").to_string().contains("cannot be read"));
        fs::write(&library, "no library").expect("written");
        assert_eq!(linked(&library).expect("no library"), []);
    }
}
