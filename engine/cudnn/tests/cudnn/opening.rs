//! Finding and opening the library.

use std::fs;
use std::sync::Arc;

use hearth_cudnn::{Error, Library, Search};

use crate::stand_in::{StandIn, build};

#[test]
fn the_first_usable_library_is_opened() {
    let (old, good) = (StandIn::new(), StandIn::new());
    old.tell("version", 91_002);
    assert_eq!(good.open().version().to_string(), "9.28.1");
    assert_eq!(good.open().path(), good.file());
    assert_eq!(good.open().name(), "cuDNN");
    let empty = tempfile::tempdir().expect("a folder");
    let folders = [empty.path(), old.folder(), good.folder()].map(|folder| folder.to_owned()).to_vec();
    let search = Search { named: None, loader: false, folders };
    let opened = Library::open(&search).expect("one is usable");
    assert_eq!(opened.path(), good.file());
    // The variable excludes other places.
    for named in [good.folder().to_owned(), good.file()] {
        let search = Search { named: Some(named), loader: true, folders: vec![] };
        assert_eq!(Library::open(&search).map(|library| library.path().to_owned()), Ok(good.file()));
    }
    let named = Some(empty.path().to_owned());
    let error = Library::open(&Search { named, ..search }).expect_err("nothing is there");
    assert!(matches!(&error, Error::Named { variable: "HEARTH_CUDNN", path, .. } if path == empty.path()), "{error}");
}

#[test]
fn an_old_library_is_refused_with_the_reason() {
    for (version, shown, usable) in [
        (8902, "8.9.2", false),
        (90_800, "9.8.0", false),
        (91_499, "9.14.99", false),
        (91_500, "9.15.0", true),
        (92_801, "9.28.1", true),
    ] {
        let stand_in = StandIn::new();
        stand_in.tell("version", version);
        let opened = Library::open(&stand_in.search());
        match opened {
            Ok(library) => assert_eq!((library.version().to_string().as_str(), usable), (shown, true)),
            Err(error) => {
                assert!(!usable, "{error}");
                let expected = format!(
                    "cuDNN {shown} ({}) is too old: expected 9.15.0 or later, because bf16 3-D convolutions are wrong",
                    stand_in.file().display()
                );
                assert!(error.to_string().starts_with(&expected), "{error}");
                assert!(matches!(error, Error::Old { .. }));
            }
        }
    }
}

#[test]
fn each_other_reason_has_its_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let search = Search { named: None, loader: false, folders: vec![folder.path().to_owned()] };
    let error = Library::open(&search).expect_err("nothing is there");
    let text = "cuDNN was not found: no libcudnn.so.9 in the loader's path and 1 folders; pip install \
                nvidia-cudnn-cu13, or name its folder in HEARTH_CUDNN";
    assert_eq!(error.to_string(), text);
    fs::write(folder.path().join("libcudnn.so.9"), "not a library").expect("a file");
    let error = Library::open(&search).expect_err("not a library");
    assert!(matches!(&error, Error::CannotOpen { path, .. } if path.starts_with(folder.path())), "{error}");
    let lacking = StandIn::from(&build(&["-DWITHOUT_LAST_ERROR"]));
    let error = Library::open(&lacking.search()).expect_err("a function is missing");
    assert!(matches!(error, Error::Lacks { symbol: "cudnnGetLastErrorString", .. }), "{error}");
}

#[test]
fn the_library_outlives_its_owners() {
    let stand_in = StandIn::new();
    let handle = {
        let library = stand_in.open();
        let handle = hearth_cudnn::Handle::create(&library, "the host").expect("a handle");
        assert_eq!(Arc::strong_count(&library), 2);
        handle
    };
    assert_eq!((handle.gpu(), stand_in.count("handles")), ("the host", 1));
    drop(handle);
    stand_in.is_clean();
}
