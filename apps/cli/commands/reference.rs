//! `hearth reference`: prints everything that a recipe can name, generated from the code.

use std::fmt::Write;

use hearth_registry::{
    Described, Foreign, Here, Parameter, Place, base_names, described, explained, last_part, nearest, unknown,
    unknown_name,
};
use serde_json::{Value, json};

use crate::error::{Failure, Outcome};
use crate::out;
use crate::rustdoc;
use crate::table::{self, Lean};
use crate::terminal::{bold, dim};

/// Arguments of `hearth reference`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kind to list: tasks, layouts, readers, caches, samplers, transforms, networks, losses,
    /// metrics, optimizers, schedules, inferers, handlers, ...; or a name that is searched in all kinds,
    /// MONAI's names included
    #[arg(value_name = "KIND|NAME")]
    pub kind: Option<String>,
    /// The entry of the kind to describe: its parameters, an example, its paper
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON, including the JSON Schema of each table
    #[arg(long)]
    pub json: bool,
    /// Print a page of docs/reference in Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// The names of the kinds, in the order of a recipe.
const KINDS: &[(&str, &str)] = &[
    ("tasks", "task"),
    ("layouts", "layout"),
    ("readers", "reader"),
    ("caches", "cache"),
    ("samplers", "sampler"),
    ("transforms", "transform"),
    ("networks", "network"),
    ("losses", "loss"),
    ("optimizers", "optimizer"),
    ("schedules", "schedule"),
    ("inferers", "inferer"),
    ("post", "post-processing step"),
    ("metrics", "metric"),
    ("handlers", "handler"),
    ("noise-schedulers", "noise scheduler"),
];

/// Prints the kinds, the entries of a kind, or one entry.
pub fn run(args: &Args) -> Outcome {
    let Some(kind) = &args.kind else { return kinds(args.json) };
    let Some((plural, word)) = kind_of(kind) else { return anywhere(args, kind) };
    let entries: Vec<Described> = described().into_iter().filter(|entry| entry.kind == word).map(in_prose).collect();
    match &args.name {
        None if args.json => {
            let all: Vec<Value> = entries.iter().map(as_json).collect();
            out!("{}", serde_json::to_string_pretty(&all)?);
        }
        None if args.markdown => out!("{}", page(plural, word, &entries).trim_end()),
        None => {
            list(&entries);
            out!("{}", dim(&format!("hearth reference {plural} NAME describes one of them")));
        }
        Some(name) => print(args, &[find(&entries, word, name)?])?,
    }
    Ok(())
}

/// An entry whose texts are prose.
fn in_prose(mut entry: Described) -> Described {
    entry.doc = rustdoc::prose(&entry.doc);
    entry.parameters.iter_mut().for_each(|parameter| parameter.doc = rustdoc::prose(&parameter.doc));
    entry
}

/// Prints entries in the form that was asked for.
fn print(args: &Args, entries: &[&Described]) -> Outcome {
    if args.json {
        match entries {
            [entry] => out!("{}", serde_json::to_string_pretty(&as_json(entry))?),
            several => {
                let all: Vec<Value> = several.iter().map(|entry| as_json(entry)).collect();
                out!("{}", serde_json::to_string_pretty(&all)?);
            }
        }
        return Ok(());
    }
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out!("");
        }
        match args.markdown {
            true => out!("{}", section(entry).trim_end()),
            false => show(entry),
        }
    }
    Ok(())
}

/// Describes the entries of this name of all kinds, or says what a name of MONAI, PyTorch or ignite is
/// here.
fn anywhere(args: &Args, name: &str) -> Outcome {
    let all = described();
    let known: Vec<&str> = KINDS.iter().map(|(plural, _)| *plural).chain(all.iter().map(|entry| entry.name)).collect();
    if let Some(second) = &args.name {
        // The first word can only be a kind.
        let kinds: Vec<&str> = KINDS.iter().map(|(plural, _)| *plural).collect();
        return Err(Failure::new(format!("{}, before {second:?}", unknown("kind", name, &kinds))));
    }
    let mut found: Vec<Described> = all.iter().filter(|entry| is_called(entry, name)).cloned().collect();
    if found.iter().any(|entry| entry.name == last_part(name)) {
        found.retain(|entry| entry.name == last_part(name));
    }
    if !found.is_empty() {
        let found: Vec<Described> = found.into_iter().map(in_prose).collect();
        return print(args, &found.iter().collect::<Vec<_>>());
    }
    if Foreign::all().any(|row| matches!(row.here, Here::Plugin(known) if known == name)) {
        out!("{name} is a plugin, in [[plugins]]: hearth plugin info {name} describes it");
        return Ok(());
    }
    match explained("", name) {
        Some(meaning) if args.json => out!("{}", serde_json::to_string_pretty(&json!({ "meaning": meaning }))?),
        Some(meaning) => out!("{meaning}"),
        // All names would be a list of 300.
        None => {
            let near = nearest(name, known).map(|near| format!(", did you mean {near:?}?"));
            let list = near.unwrap_or_else(|| "; hearth reference lists the kinds".to_owned());
            return Err(Failure::new(format!("unknown kind or name {name:?}{list}")));
        }
    }
    Ok(())
}

/// Whether a name means an entry: its own, an alias, in another case, or in MONAI's dictionary form.
fn is_called(entry: &Described, name: &str) -> bool {
    let alike = |base: &&str| {
        entry.name.eq_ignore_ascii_case(base) || entry.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(base))
    };
    base_names(last_part(name)).iter().any(alike)
}

fn kinds(as_json: bool) -> Outcome {
    let all = described();
    let count = |word: &str| all.iter().filter(|entry| entry.kind == word).count();
    if as_json {
        let counts: Vec<Value> =
            KINDS.iter().map(|(plural, word)| json!({ "kind": plural, "entries": count(word) })).collect();
        out!("{}", serde_json::to_string_pretty(&counts)?);
        return Ok(());
    }
    for (plural, word) in KINDS {
        out!("{plural:12} {:4}", count(word));
    }
    out!("{}", dim("hearth reference KIND lists them, hearth reference KIND NAME describes one"));
    Ok(())
}

/// Finds the kind with this name, in singular or plural.
fn kind_of(word: &str) -> Option<(&'static str, &'static str)> {
    let lower = word.to_lowercase();
    KINDS.iter().find(|(plural, singular)| *plural == lower || *singular == lower).copied()
}

fn find<'a>(entries: &'a [Described], word: &str, name: &str) -> Outcome<&'a Described> {
    let exact = |entry: &&Described| entry.name == name || entry.aliases.contains(&name);
    let alike = |entry: &&Described| is_called(entry, name);
    entries.iter().find(exact).or_else(|| entries.iter().find(alike)).ok_or_else(|| {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
        Failure::new(unknown_name(word, name, &names))
    })
}

/// Prints a line for each entry, with the devices it runs on if these differ among the entries.
fn list(entries: &[Described]) {
    let differ = entries.windows(2).any(|pair| pair[0].place != pair[1].place);
    let row = |entry: &Described| {
        let place = differ.then(|| entry.place.map_or("", Place::word).to_owned());
        std::iter::once(entry.name.to_owned()).chain(place).chain([first_sentence(&entry.doc)]).collect()
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let place = differ.then_some(("runs on", Lean::Left));
    let columns: Vec<_> =
        std::iter::once(("name", Lean::Left)).chain(place).chain([("what it does", Lean::Left)]).collect();
    table::lines(&columns, &rows).iter().for_each(|line| out!("{line}"));
}

/// The first sentence of a text that may span several lines.
fn first_sentence(text: &str) -> String {
    let line = text.split("\n\n").next().unwrap_or("").replace('\n', " ");
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line,
    }
}

fn show(entry: &Described) {
    out!("{}  {}", bold(entry.name), dim(entry.kind));
    out!("{}", entry.doc);
    if let Some(place) = entry.place {
        out!("{}", dim(&place.to_string()));
    }
    if !entry.aliases.is_empty() {
        out!("{} {}", dim("also called"), entry.aliases.join(", "));
    }
    if !entry.paper.is_empty() {
        out!("{} {}", dim("paper"), entry.paper);
    }
    if !entry.parameters.is_empty() {
        out!("\n{}", bold("parameters"));
        for parameter in &entry.parameters {
            let given = match (&parameter.default, parameter.required) {
                (_, true) => "  required".to_owned(),
                (Some(default), _) => format!(" = {default}"),
                (None, false) => String::new(),
            };
            out!("  {}{given}  {}", bold(&parameter.name), dim(&parameter.kind));
            parameter.doc.lines().for_each(|line| out!("      {line}"));
        }
    }
    out!("\n{}", bold("example"));
    out!("{}", example(entry));
}

fn row(parameter: &Parameter) -> Vec<String> {
    let default = match (&parameter.default, parameter.required) {
        (_, true) => "required".to_owned(),
        (Some(default), _) => default.clone(),
        (None, false) => "-".to_owned(),
    };
    vec![parameter.name.clone(), parameter.kind.clone(), default, parameter.doc.replace('\n', " ")]
}

/// An example in the form of recipe lines.
fn example(entry: &Described) -> String {
    let tag = if entry.kind == "cache" { "kind" } else { "name" };
    let head = match entry.kind {
        // A reader has no parameters; a loading transform names it.
        "reader" => {
            return format!("[[transforms]]\nname = \"LoadImage\"\nkeys = [\"image\"]\nreader = {:?}", entry.name);
        }
        "cache" => "[data.cache]",
        "sampler" => "[data.sampler]",
        "transform" => "[[transforms]]",
        "handler" => "[[handlers]]",
        "metric" => "[metric.NAME]",
        "post-processing step" => "[[post.prediction]]",
        "network" => "[network]",
        "loss" => "[loss]",
        "optimizer" => "[optimizer]",
        "schedule" => "[schedule]",
        "task" => "[task]",
        "layout" => "[data.layout]",
        // A recipe cannot name one: it is a table of the library.
        "noise scheduler" => "# NoiseSchedulerConfig",
        _ => "[inferer]",
    };
    format!("{head}\n{tag} = {:?}\n{}", entry.name, entry.example).trim_end().to_owned()
}

fn as_json(entry: &Described) -> Value {
    let parameters: Vec<Value> = entry
        .parameters
        .iter()
        .map(|parameter| {
            let Parameter { name, kind, default, required, doc } = parameter;
            json!({ "name": name, "type": kind, "default": default, "required": required, "doc": doc })
        })
        .collect();
    let facts: serde_json::Map<String, Value> =
        entry.facts.iter().map(|(column, cell)| (column.replace('`', ""), json!(cell))).collect();
    json!({
        "kind": entry.kind, "name": entry.name, "aliases": entry.aliases, "doc": entry.doc, "paper": entry.paper,
        "place": entry.place.map(Place::word), "facts": facts, "example": entry.example, "parameters": parameters, "schema": entry.schema,
    })
}

/// Builds a page of `docs/reference`.
fn page(plural: &str, word: &str, entries: &[Described]) -> String {
    let title = format!("{}{}", plural[..1].to_uppercase(), &plural[1..]);
    let mut page = format!(
        "# {title}\n\nMade by `hearth reference {plural} --markdown`; a test keeps it equal to the code. \
         Each {word} below can be named in a recipe.\n\n"
    );
    for entry in entries {
        let _ = writeln!(page, "- [{}](#{}): {}", entry.name, entry.name.to_lowercase(), first_sentence(&entry.doc));
    }
    page.push_str(&facts(word, entries));
    for entry in entries {
        page.push('\n');
        page.push_str(&section(entry));
    }
    page
}

/// A table of all entries, for kinds that have facts about them.
fn facts(word: &str, entries: &[Described]) -> String {
    let columns: Vec<&str> = entries.first().iter().flat_map(|entry| &entry.facts).map(|(column, _)| *column).collect();
    if columns.is_empty() {
        return String::new();
    }
    let head = columns.join(" | ");
    let mut text = format!(
        "\nWith the parameters of the examples:\n\n| {word} | {head} |\n|---{}|\n",
        "|---".repeat(columns.len())
    );
    for entry in entries {
        let cells: Vec<&str> = entry.facts.iter().map(|(_, cell)| *cell).collect();
        let _ = writeln!(text, "| [{}](#{}) | {} |", entry.name, entry.name.to_lowercase(), cells.join(" | "));
    }
    text
}

fn section(entry: &Described) -> String {
    let mut text = format!("## {}\n\n{}\n", entry.name, entry.doc);
    if let Some(place) = entry.place {
        let place = place.to_string();
        let _ = writeln!(text, "\n{}{}.", place[..1].to_uppercase(), &place[1..]);
    }
    if !entry.aliases.is_empty() {
        let _ = writeln!(text, "\nAlso called {}.", entry.aliases.join(", "));
    }
    if !entry.paper.is_empty() {
        let _ = writeln!(text, "\nPaper: {}.", entry.paper);
    }
    if !entry.parameters.is_empty() {
        text.push_str("\n| key | type | default | what it means |\n|---|---|---|---|\n");
        for parameter in &entry.parameters {
            let cells: Vec<String> = row(parameter).iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    let _ = write!(text, "\n```toml\n{}\n```\n", example(entry));
    text
}
