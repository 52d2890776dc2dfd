//! The stand-in: `stand_in.c`, built once, and opened from a copy for each test, so that each has
//! its own counts.

use std::ffi::{CString, c_char, c_long};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use hearth_cudnn::{Error, Handle, Library, Search, Target};

/// Builds the stand-in with more arguments for the compiler.
pub fn build(more: &[&str]) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder"));
    let built = tempfile::NamedTempFile::new_in(folder.path()).expect("a file").into_temp_path();
    let built = built.keep().expect("a file");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cudnn/stand_in.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread"]).args(more).arg("-o").arg(&built).arg(source);
    let output = cc.arg("-lm").output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built
}

/// A copy of the stand-in in its own folder.
pub struct StandIn {
    folder: tempfile::TempDir,
    library: libloading::Library,
}

impl StandIn {
    pub fn new() -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        Self::from(BUILT.get_or_init(|| build(&[])))
    }

    pub fn from(built: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("libcudnn.so.9");
        fs::copy(built, &file).expect("a copy");
        // SAFETY: the library has no initializers.
        let library = unsafe { libloading::Library::new(&file) }.expect("the stand-in");
        StandIn { folder, library }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self) -> PathBuf {
        self.folder().join("libcudnn.so.9")
    }

    pub fn search(&self) -> Search {
        Search { named: None, loader: false, folders: vec![self.folder().to_owned()] }
    }

    pub fn open(&self) -> Arc<Library> {
        Library::open(&self.search()).expect("the stand-in")
    }

    /// A target with a handle.
    pub fn target(&self) -> Result<Target, Error> {
        Ok(Target::Gpu(Handle::create(&self.open(), "the host")?))
    }

    /// Changes its behaviour.
    pub fn tell(&self, name: &str, value: i64) {
        let name = CString::new(name).expect("a name");
        // SAFETY: this is the function's type in `stand_in.c`.
        unsafe {
            let tell: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char, c_long)> =
                self.library.get("stand_in_tell").expect("a function");
            tell(name.as_ptr(), value);
        }
    }

    pub fn count(&self, name: &str) -> i64 {
        let name = CString::new(name).expect("a name");
        // SAFETY: this is the function's type in `stand_in.c`.
        unsafe {
            let count: libloading::Symbol<'_, unsafe extern "C" fn(*const c_char) -> c_long> =
                self.library.get("stand_in_count").expect("a function");
            count(name.as_ptr())
        }
    }

    /// Nothing that was made is left.
    pub fn is_clean(&self) {
        assert_eq!(self.count("created"), self.count("destroyed"));
        assert_eq!(self.count("handles"), 0);
    }
}
