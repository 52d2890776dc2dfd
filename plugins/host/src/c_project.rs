//! The files that `hearth plugin new` writes for a plugin that is not in Rust: source, header,
//! Makefile.

use std::path::{Path, PathBuf};

use crate::c::{HEADER, PYTHON, PYTHON_SHIM};
use crate::scaffold::{ScaffoldError, library_file, write};
use crate::template::Template;

/// The name of the header.
const HEADER_FILE: &str = "hearth_plugin.h";
/// The name of the Python module.
const PYTHON_FILE: &str = "hearth_plugin.py";

/// The differences between languages. `{{crate}}` is replaced by the plugin's name in file names.
struct Language {
    /// The source that the Makefile compiles.
    source: &'static str,
    /// The default compiler, and its command.
    compiler: &'static str,
    command: &'static str,
    libraries: &'static str,
    /// The files and their texts.
    files: &'static [(&'static str, &'static str)],
    /// The files to put into a folder of plugins.
    installed: &'static str,
    more: &'static str,
}

const C: Language = Language {
    source: "{{crate}}.c",
    compiler: "CC ?= cc",
    command: "$(CC) $(CFLAGS) $(FLAGS)",
    libraries: "",
    files: &[("{{crate}}.c", include_str!("../template/c.c.in"))],
    installed: "{{library}}",
    more: "",
};

const CPP: Language = Language {
    source: "{{crate}}.cpp",
    compiler: "CXX ?= c++",
    command: "$(CXX) $(CXXFLAGS) $(FLAGS)",
    files: &[("{{crate}}.cpp", include_str!("../template/cpp.cpp.in"))],
    ..C
};

const IN_PYTHON: Language = Language {
    libraries: " -ldl",
    files: &[
        ("{{crate}}.py", include_str!("../template/python.py.in")),
        ("{{crate}}.c", PYTHON_SHIM),
        (PYTHON_FILE, PYTHON),
    ],
    installed: "{{library}}, {{crate}}.py and hearth_plugin.py",
    more: "\nThe library is a shim of C that hosts `{{crate}}.py`. It finds libpython when it is loaded; \
           `HEARTH_LIBPYTHON`\nnames another, and packages come from `VIRTUAL_ENV` or `PYTHONPATH`.\n",
    ..C
};

fn language(template: Template) -> Option<&'static Language> {
    match template {
        Template::C => Some(&C),
        Template::Cpp => Some(&CPP),
        Template::Python => Some(&IN_PYTHON),
        _ => None,
    }
}

/// The files of a project, by name; `None` for a template in Rust.
pub fn files(template: Template, name: &str) -> Option<Vec<(String, String)>> {
    let language = language(template)?;
    let fill = |text: &str| {
        text.replace("{{more}}\n", language.more)
            .replace("{{files}}", language.installed)
            .replace("{{source}}", language.source)
            .replace("{{compiler}}", language.compiler)
            .replace("{{command}}", language.command)
            .replace("{{libraries}}", language.libraries)
            .replace("{{name}}", name)
            .replace("{{crate}}", &name.replace('-', "_"))
            .replace("{{library}}", &library_file(name))
            .replace("{{description}}", template.description())
    };
    let own = language.files.iter().map(|(file, text)| (fill(file), fill(text)));
    let mut files: Vec<_> = own.collect();
    files.extend([
        (HEADER_FILE.to_owned(), HEADER.to_owned()),
        ("Makefile".to_owned(), fill(include_str!("../template/Makefile.in"))),
        ("README.md".to_owned(), fill(include_str!("../template/README_c.md.in"))),
        (".gitignore".to_owned(), fill("/{{library}}\n__pycache__\n")),
    ]);
    Some(files)
}

/// Replaces the header, and the Python module, in a folder that has them. `None` if it has none.
pub fn update(dir: &Path) -> Option<Result<Vec<PathBuf>, ScaffoldError>> {
    let known = [(HEADER_FILE, HEADER), (PYTHON_FILE, PYTHON)];
    let found = known.into_iter().filter(|(file, _)| dir.join(file).is_file());
    let files: Vec<_> = found.map(|(file, text)| (file.to_owned(), text.to_owned())).collect();
    (!files.is_empty()).then(|| write(dir, &files))
}
