//! macOS: install names and search paths in the load commands of a Mach-O file.

use std::path::{Path, PathBuf};

use object::Endianness;
use object::macho::{self, FatArch32, FatArch64, LcStr, MachHeader32, MachHeader64, RpathCommand};
use object::read::macho::{FatArch, LoadCommandData, MachHeader, MachOFatFile};

use super::{Folders, Format, Links, text};

/// The first bytes of a library for one processor of 32 or 64 bits, in both byte orders.
const THIN: [[u8; 4]; 4] =
    [[0xfe, 0xed, 0xfa, 0xce], [0xce, 0xfa, 0xed, 0xfe], [0xfe, 0xed, 0xfa, 0xcf], [0xcf, 0xfa, 0xed, 0xfe]];

/// The first bytes of a library for several processors, with places of 32 and of 64 bits.
const FAT: [[u8; 4]; 2] = [[0xca, 0xfe, 0xba, 0xbe], [0xca, 0xfe, 0xba, 0xbf]];

/// The first bytes of a library for macOS.
pub(super) const MAGICS: [[u8; 4]; 6] = [THIN[0], THIN[1], THIN[2], THIN[3], FAT[0], FAT[1]];

/// Reads the libraries and search paths of a Mach-O file, for all processors that it has code for.
pub(super) fn read(bytes: &[u8]) -> Result<Links, String> {
    let mut links = Links { format: Format::MachO, ..Links::default() };
    match bytes.first_chunk() {
        Some(magic) if *magic == FAT[0] => slices::<FatArch32>(bytes, &mut links)?,
        Some(magic) if *magic == FAT[1] => slices::<FatArch64>(bytes, &mut links)?,
        _ => thin(bytes, &mut links)?,
    }
    Ok(links)
}

fn slices<F: FatArch>(bytes: &[u8], links: &mut Links) -> Result<(), String> {
    for slice in MachOFatFile::<F>::parse(bytes).map_err(said)?.arches() {
        thin(slice.data(bytes).map_err(said)?, links)?;
    }
    Ok(())
}

fn thin(bytes: &[u8], links: &mut Links) -> Result<(), String> {
    match bytes.first_chunk() {
        Some(magic) if THIN[..2].contains(magic) => commands::<MachHeader32<Endianness>>(bytes, links),
        Some(magic) if THIN[2..].contains(magic) => commands::<MachHeader64<Endianness>>(bytes, links),
        _ => Err("the code for one processor is not of the format Mach-O".to_owned()),
    }
}

fn commands<H: MachHeader<Endian = Endianness>>(bytes: &[u8], links: &mut Links) -> Result<(), String> {
    let header = H::parse(bytes, 0).map_err(said)?;
    let endian = header.endian().map_err(said)?;
    let named = |command: &LoadCommandData<'_, Endianness>, name: LcStr<Endianness>| {
        command.string(endian, name).map_err(said).and_then(text)
    };
    for command in header.load_commands(endian, bytes, 0).map_err(said)? {
        let command = command.map_err(said)?;
        if let Some(library) = command.dylib().map_err(said)? {
            links.names.push(named(&command, library.dylib.name)?);
        } else if command.cmd() == macho::LC_RPATH {
            let path = command.data::<RpathCommand<Endianness>>().map_err(said)?;
            links.rpath.push(named(&command, path.path)?);
        }
    }
    Ok(())
}

fn said(error: object::read::Error) -> String {
    error.to_string()
}

/// The folders of `@rpath`: those of `LC_RPATH`, here and in the files above.
pub(super) fn folders(links: &Links, origin: &Path, above: Vec<PathBuf>) -> Folders {
    let inherited: Vec<PathBuf> = links.rpath.iter().map(|path| expanded(path, origin)).chain(above).collect();
    Folders { searched: inherited.clone(), inherited }
}

/// The places of an install name, which is a path.
pub(super) fn places(name: &str, searched: &[PathBuf], origin: &Path) -> Vec<PathBuf> {
    match name.strip_prefix("@rpath/") {
        Some(rest) => searched.iter().map(|folder| folder.join(rest)).collect(),
        None => vec![expanded(name, origin)],
    }
}

/// A path with the values of the loader's words.
fn expanded(path: &str, origin: &Path) -> PathBuf {
    let (word, rest) = path.split_once('/').unwrap_or((path, ""));
    match word {
        "@loader_path" => origin.join(rest),
        "@executable_path" => {
            let program = std::env::current_exe().ok();
            program.as_deref().and_then(Path::parent).unwrap_or(Path::new("/")).join(rest)
        }
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{linked, names};
    use super::*;

    /// Libraries made by LLVM's linker: see `tests/linked/README.md`.
    const INTEL: &[u8] = include_bytes!("../../tests/linked/mine.x86_64.dylib.gz");
    const APPLE: &[u8] = include_bytes!("../../tests/linked/mine.arm64.dylib.gz");
    const HELPER: &[u8] = include_bytes!("../../tests/linked/helper.x86_64.dylib.gz");

    /// What `llvm-objdump --macho --dylibs-used` prints of both.
    const USED: [&str; 5] = [
        "@rpath/libhelper.dylib",
        "@rpath/libweak.dylib",
        "@rpath/libagain.dylib",
        "@loader_path/libbeside.dylib",
        "/usr/lib/libSystem.B.dylib",
    ];

    fn plain(gzip: &[u8]) -> Vec<u8> {
        let size = u32::from_le_bytes(*gzip.last_chunk().expect("a size"));
        let mut bytes = vec![0; size as usize];
        libdeflater::Decompressor::new().gzip_decompress(gzip, &mut bytes).expect("gzip");
        bytes
    }

    /// A library for two processors, in the layout of `<mach-o/fat.h>`.
    fn fat() -> Vec<u8> {
        const PAGE: usize = 1 << 14;
        let slices = [(0x0100_0007_u32, plain(INTEL)), (0x0100_000c, plain(APPLE))];
        let mut bytes = [FAT[0], 2_u32.to_be_bytes()].concat();
        for (index, (processor, slice)) in slices.iter().enumerate() {
            let numbers = [*processor, 3, ((index * 2 + 1) * PAGE) as u32, slice.len() as u32, 14];
            bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        }
        for (index, (_, slice)) in slices.iter().enumerate() {
            bytes.resize((index * 2 + 1) * PAGE, 0);
            bytes.extend(slice);
        }
        bytes
    }

    #[test]
    fn the_load_commands_name_libraries_and_search_paths() {
        for library in [plain(INTEL), plain(APPLE)] {
            let links = read(&library).expect("understood");
            assert_eq!(
                (links.names, links.rpath),
                (USED.map(str::to_owned).to_vec(), vec!["@loader_path/lib".to_owned()])
            );
        }
        let both = read(&fat()).expect("understood");
        assert_eq!(
            (both.names, both.rpath.len()),
            ([USED, USED].concat().iter().map(|name| (*name).to_owned()).collect(), 2)
        );
    }

    #[test]
    fn libraries_of_a_mach_o_file_are_found_without_loading() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("plugin");
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, bytes).expect("written");
            path
        };
        for (place, bytes) in [("libmine.dylib", plain(INTEL)), ("libfat.dylib", fat())] {
            let library = write(place, &bytes);
            assert_eq!(linked(&library).expect("read"), [], "nothing is there");
            // The search path of the plugin counts for the libraries of its libraries.
            write("lib/libhelper.dylib", &plain(INTEL));
            write("lib/libweak.dylib", &plain(HELPER));
            write("lib/libbeside.dylib", &plain(HELPER));
            write("libagain.dylib", &plain(HELPER));
            let found = linked(&library).expect("read");
            assert_eq!(names(&found), ["libhelper.dylib", "libweak.dylib", "libbeside.dylib"]);
            assert!(found.iter().all(|one| one.beside));
            fs::remove_dir_all(folder.join("lib")).expect("ours");
        }
    }

    #[test]
    fn the_words_of_the_loader_have_their_values() {
        let program = std::env::current_exe().expect("a program").parent().expect("a folder").to_owned();
        let searched = [PathBuf::from("/a"), PathBuf::from("/b")];
        let of = |name: &str| places(name, &searched, Path::new("/p"));
        assert_eq!(of("@rpath/x.dylib"), [Path::new("/a/x.dylib"), Path::new("/b/x.dylib")]);
        assert_eq!(of("@loader_path/../x.dylib"), [Path::new("/p/../x.dylib")]);
        assert_eq!(of("@executable_path/x.dylib"), [program.join("x.dylib")]);
        assert_eq!(of("/opt/x.dylib"), [Path::new("/opt/x.dylib")]);
        let links = Links { rpath: vec!["@loader_path".to_owned()], ..Links::default() };
        assert_eq!(
            folders(&links, Path::new("/p"), vec![PathBuf::from("/above")]).searched,
            [Path::new("/p"), Path::new("/above")]
        );
    }

    #[test]
    fn load_commands_that_cannot_be_understood_are_an_error() {
        let whole = plain(INTEL);
        let commands = 32 + u32::from_le_bytes(whole[20..24].try_into().expect("four bytes")) as usize;
        for length in [4, 31, 32, commands - 1] {
            assert!(read(&whole[..length]).is_err(), "{length} bytes");
        }
        let name = b"@rpath/libhelper.dylib";
        let at = whole.windows(name.len()).position(|window| window == name).expect("the name");
        let mut other = whole.clone();
        other[at] = 0xFF;
        assert_eq!(read(&other).expect_err("no text"), "a name is not UTF-8");
        let both = fat();
        assert!(read(&both[..both.len() / 2]).is_err());
    }
}
