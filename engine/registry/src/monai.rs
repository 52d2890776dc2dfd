//! Names of MONAI, PyTorch and ignite: what they are called here, or why they have no counterpart.

use std::fmt;

use crate::component::OTHERS;
#[cfg(feature = "entries")]
use crate::entry::Registration;
use crate::nearest::unknown;

/// All rows: a module, its names, and what they are here. Names that are entries of the same kind
/// have none.
const TABLE: &str = include_str!("monai.txt");

/// The counterpart of a name of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here {
    /// An entry of a kind, by [`Kind::WORD`](crate::Kind::WORD) and name.
    Entry(&'static str, &'static str),
    /// A bundled plugin.
    Plugin(&'static str),
    /// A command of the program.
    Command(&'static str),
    /// A key of a recipe.
    Recipe(&'static str),
    /// An item of the library.
    Library(&'static str),
    /// Nothing, and the reason.
    Nothing(&'static str),
}

/// Names of a module of MONAI, PyTorch or ignite that are one thing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The module: `monai.handlers`.
    pub module: &'static str,
    /// The names; one that ends in `*` is the beginning of names.
    pub names: Vec<&'static str>,
    /// The counterpart.
    pub here: Here,
    /// Whether that is only the nearest, and no counterpart.
    pub is_near: bool,
}

impl Foreign {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Foreign> {
        TABLE.lines().filter_map(Self::of_line)
    }

    /// Reads a row. `None` for comments and empty lines; a test reads all rows.
    fn of_line(line: &'static str) -> Option<Foreign> {
        let (head, tail) = line.split_once(": ").filter(|_| !line.starts_with('#'))?;
        let (module, names) = head.split_once(' ')?;
        let near = tail.strip_prefix("near ");
        let (kind, name) = near.unwrap_or(tail).split_once(' ')?;
        let here = match kind {
            "plugin" => Here::Plugin(name),
            "command" => Here::Command(name),
            "recipe" => Here::Recipe(name),
            "library" => Here::Library(name),
            "none" => Here::Nothing(name),
            "post" => Here::Entry("post-processing step", name),
            "noise-scheduler" => Here::Entry("noise scheduler", name),
            kind => Here::Entry(kind, name),
        };
        Some(Foreign { module, names: names.split(' ').collect(), here, is_near: near.is_some() })
    }

    /// Whether one of the names is this one; case does not matter.
    pub fn is_called(&self, name: &str) -> bool {
        self.names.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start)),
            None => known.eq_ignore_ascii_case(name),
        })
    }

    /// The name of the program that has it, in the genitive.
    fn owner(&self) -> &'static str {
        match self.module.split('.').next() {
            Some("torch") => "PyTorch's",
            Some("ignite") => "ignite's",
            _ => "MONAI's",
        }
    }
}

/// `a plugin, in [[plugins]]`.
impl fmt::Display for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Here::Entry(kind, _) => f.write_str(&of_kind(kind)),
            Here::Plugin(_) => f.write_str(&of_kind("plugin")),
            Here::Command(_) => f.write_str("a command"),
            Here::Recipe(_) => f.write_str("a key of a recipe"),
            Here::Library(_) => f.write_str("an item of the library"),
            Here::Nothing(reason) => f.write_str(reason),
        }
    }
}

impl Here {
    /// The name of the counterpart, if it has one.
    pub fn name(&self) -> Option<String> {
        match self {
            Here::Entry(_, name) | Here::Plugin(name) | Here::Recipe(name) | Here::Library(name) => {
                Some((*name).to_owned())
            }
            Here::Command(name) => Some(format!("hearth {name}")),
            Here::Nothing(_) => None,
        }
    }
}

/// A kind with its article, and where a recipe names one.
fn of_kind(kind: &str) -> String {
    let place = match kind {
        "transform" => "in transforms",
        "post-processing step" => "in [post]",
        "handler" => "in [[handlers]]",
        "plugin" => "in [[plugins]]",
        "metric" => "in [metric.NAME]",
        "cache" => "in [data.cache]",
        "sampler" => "in [data.sampler]",
        "layout" => "in [data.layout]",
        "reader" => "by `reader` of LoadImage",
        "noise scheduler" => "of the library",
        _ => "",
    };
    let article = if kind.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    match place {
        "" => format!("{article} {kind}, in [{kind}]"),
        place => format!("{article} {kind}, {place}"),
    }
}

/// The last part of a dotted name of MONAI, PyTorch or ignite; other names as they are.
pub fn last_part(name: &str) -> &str {
    let dotted = OTHERS.iter().any(|program| name.starts_with(program));
    name.rsplit('.').next().filter(|_| dotted).unwrap_or(name)
}

/// The possible names without MONAI's suffix of the dictionary form: `LoadImaged`, `LoadImageD`,
/// `LoadImageDict`.
pub fn base_names(name: &str) -> Vec<&str> {
    let endings = ["Dict", "D", "d"].iter().filter_map(|ending| name.strip_suffix(ending));
    std::iter::once(name).chain(endings.filter(|name| !name.is_empty())).collect()
}

/// What a name means that is not one of this kind: an entry of another kind, or a name of MONAI, PyTorch
/// or ignite. `None` for other names.
///
/// ```
/// # use hearth_registry::explained;
/// let said = explained("handler", "StatsHandler").unwrap();
/// assert_eq!(said, "MONAI's StatsHandler is called stats here: a plugin, in [[plugins]]");
/// assert!(explained("handler", "Sttats").is_none());
/// ```
pub fn explained(kind: &str, name: &str) -> Option<String> {
    let last = last_part(name);
    let bases = base_names(last);
    if let Some((other, name)) = of_another_kind(kind, &bases) {
        return Some(format!("{name} is {}", of_kind(other)));
    }
    let row = Foreign::all().find(|row| bases.iter().any(|base| row.is_called(base)) && !row.names.contains(&"*"))?;
    let owner = row.owner();
    Some(match (row.here.name(), row.is_near) {
        (Some(here), false) => format!("{owner} {last} is called {here} here: {}", row.here),
        (Some(here), true) => {
            format!("{owner} {last} has no counterpart here; the nearest is {here}: {}", row.here)
        }
        (None, _) => format!("{owner} {last} has no counterpart here: {}", row.here),
    })
}

/// The kind and the name of an entry with one of these names that is of another kind.
#[cfg(feature = "entries")]
fn of_another_kind(kind: &str, names: &[&str]) -> Option<(&'static str, &'static str)> {
    let all = inventory::iter::<Registration>();
    let others = all.filter(|other| other.word != kind && other.is_called(names));
    // The linker's order is arbitrary.
    others.map(|other| (other.word, other.name)).min()
}

/// Without entries there is none.
#[cfg(not(feature = "entries"))]
fn of_another_kind(_: &str, _: &[&str]) -> Option<(&'static str, &'static str)> {
    None
}

/// An error text for a name that is not one of a kind: what it means elsewhere, or the nearest of the
/// known names, or their list.
pub fn unknown_name(kind: &str, name: &str, known: &[&str]) -> String {
    match explained(kind, name) {
        Some(meaning) => format!("unknown {kind} {name:?}: {meaning}"),
        None => unknown(kind, name, known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_row() {
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let row = Foreign::of_line(line).unwrap_or_else(|| panic!("{line}"));
            assert!(OTHERS.iter().any(|program| row.module.starts_with(program)), "{line}");
            assert!(row.names.iter().all(|name| !name.is_empty() && !name.contains('.')), "{line}");
        }
    }

    #[test]
    fn names_of_monai_are_explained_in_each_of_their_forms() {
        for name in ["Lambda", "Lambdad", "LambdaD", "LambdaDict", "monai.transforms.Lambdad"] {
            let said = explained("transform", name).expect(name);
            assert!(said.starts_with("MONAI's Lambda") && said.contains("has no counterpart here: "), "{said}");
        }
        let said = explained("optimizer", "torch.optim.NAdam").expect("a row");
        assert!(said.starts_with("PyTorch's NAdam has no counterpart here"), "{said}");
        let said = explained("handler", "SignalFillEmpty").expect("a row of beginnings");
        assert!(said.contains("signals"), "{said}");
        let said = explained("transform", "RandCoarseTransformd").expect("a row");
        assert!(said.contains("the nearest is RandCoarseDropout: a transform, in transforms"), "{said}");
        assert_eq!(explained("transform", "Elephant"), None, "`networks.blocks *` is no name");
    }

    #[test]
    fn dotted_names_of_others_mean_their_last_part() {
        assert_eq!(last_part("monai.losses.DiceLoss"), "DiceLoss");
        assert_eq!(last_part("torch.optim.lr_scheduler.StepLR"), "StepLR");
        assert_eq!(last_part("mine.Blur"), "mine.Blur", "it is of a plugin");
        assert_eq!(base_names("d"), ["d"]);
    }
}
