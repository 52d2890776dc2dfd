//! Compares the bundled recipes with the published trainings that they follow.
//!
//! `tests/recorded/sources.json` holds the calls of those scripts and notebooks with their arguments,
//! parsed from their texts at the named commits. Steps that a recipe needs no line for (`EnsureTyped`,
//! `ToTensord`, ...) are left out. Where a recipe differs, it says so: `source:` in a comment.

use hearth_data::Transform;
use hearth_registry::{Document, Node, Origin, Registry, described};
use serde_json::Value as Json;

use super::Recipe;
use super::bundled::{self, Bundled};

/// Keys of a transform that say where it runs, which scripts say by their structure.
const OF_RECIPES: [&str; 4] = ["name", "keys", "only", "batch"];

/// What the source has, by the recipe's name.
fn sources() -> serde_json::Map<String, Json> {
    let text = include_str!("../../tests/recorded/sources.json");
    let file: Json = serde_json::from_str(text).expect("JSON");
    file["recipes"].as_object().expect("a table").clone()
}

/// Whether a comment at a node, or directly above it, says what the source has.
fn is_explained(node: &Node) -> bool {
    let Origin::Text(source, range) = &node.origin else { return false };
    let line = |byte: usize| source.text[..byte.min(source.text.len())].matches('\n').count();
    let lines: Vec<&str> = source.text.lines().collect();
    let (first, last) = (line(range.start), line(range.end).min(lines.len() - 1));
    let above = lines[..first].iter().rev().take_while(|line| line.trim_start().starts_with('#'));
    lines[first..=last].iter().chain(above).any(|line| line.contains("source: "))
}

/// Whether two values mean the same: a number is a list of it, and the case of words does not matter.
fn is_same(ours: &toml::Value, theirs: &Json) -> bool {
    let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    match (ours, theirs) {
        (toml::Value::Array(ours), Json::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (toml::Value::Array(ours), theirs) => ours.iter().all(|one| is_same(one, theirs)),
        (ours, Json::Array(theirs)) => theirs.iter().all(|one| is_same(ours, one)),
        (toml::Value::Table(ours), Json::Object(theirs)) => {
            theirs.iter().all(|(key, theirs)| ours.get(key).is_some_and(|ours| is_same(ours, theirs)))
        }
        (toml::Value::String(ours), Json::String(theirs)) => ours.eq_ignore_ascii_case(theirs),
        (toml::Value::Boolean(ours), Json::Bool(theirs)) => ours == theirs,
        (ours, Json::Number(theirs)) => {
            number(ours).zip(theirs.as_f64()).is_some_and(|(ours, theirs)| (ours - theirs).abs() <= 1e-6 * theirs.abs())
        }
        _ => false,
    }
}

/// The differences of a table: `whole` has every default, `written` is what the recipe has. A key that
/// only the recipe has must be its default.
fn differences(place: &str, written: &Node, whole: &toml::Value, theirs: &Json, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let theirs = theirs.as_object().expect("a table");
    // A step of several lines has one comment.
    let is_explained = |node: &Node| is_explained(node) || kind == "transform" && is_explained(written);
    for (key, value) in theirs {
        let node = written.get(key).unwrap_or(written);
        let ours = whole.get(key);
        if !ours.is_some_and(|ours| is_same(ours, value)) && !is_explained(node) {
            let ours = ours.map_or("nothing".to_owned(), ToString::to_string);
            found.push(format!("{place}.{key} is {ours}, in the source {value}"));
        }
    }
    let name = whole.get("name").and_then(toml::Value::as_str).unwrap_or_default();
    let Some(entry) = described().into_iter().find(|entry| entry.kind == kind && entry.name == name) else {
        return found;
    };
    for field in written.fields().iter().filter(|field| !OF_RECIPES.contains(&field.key.as_str())) {
        let parameter = entry.parameters.iter().find(|parameter| parameter.name == field.key);
        let default = parameter.and_then(|parameter| parameter.default.clone());
        let default = default.and_then(|text| toml::from_str::<toml::Table>(&format!("value = {text}")).ok());
        let default = default.and_then(|mut table| serde_json::to_value(table.remove("value")?).ok());
        let is_default = default.is_some_and(|default| is_same(&field.node.to_toml(), &default));
        if !theirs.contains_key(&field.key) && !is_default && !is_explained(&field.node) {
            found.push(format!("{place}.{} is {}, and nothing in the source", field.key, field.node.to_toml()));
        }
    }
    found
}

/// The differences of the chain: the source's steps are searched in their order.
fn chain(written: &[Node], theirs: &[Json]) -> Vec<String> {
    let registry = Registry::<dyn Transform>::new();
    let whole: Vec<Node> = written.iter().map(|step| registry.complete(step).expect("a transform")).collect();
    let (mut found, mut free, mut next) = (Vec::new(), vec![true; written.len()], 0);
    for step in theirs {
        let is_it = |index: &usize| free[*index] && whole[*index].text("name") == step["name"].as_str();
        let Some(index) = (next..written.len()).find(is_it).or_else(|| (0..next).find(is_it)) else {
            found.push(format!("{step} is missing"));
            continue;
        };
        if index < next && !is_explained(&written[index]) {
            found.push(format!("transforms.{index} is later in the source"));
        }
        (free[index], next) = (false, next.max(index + 1));
        let place = format!("transforms.{index}");
        found.extend(differences(&place, &written[index], &whole[index].to_toml(), step, "transform"));
    }
    let own = (0..written.len()).filter(|index| free[*index] && !is_explained(&written[*index]));
    found.extend(own.map(|index| format!("transforms.{index} is not in the source")));
    found
}

/// All unexplained differences of a recipe.
fn compared(document: &Document, source: &Json) -> Vec<String> {
    let recipe = Recipe::read(document).expect("sound");
    let whole: toml::Value = toml::from_str(&recipe.to_toml().expect("TOML")).expect("TOML");
    let root = document.root();
    let mut found =
        chain(root.get("transforms").map_or(&[][..], Node::items), source["transforms"].as_array().expect("steps"));
    for (section, theirs) in source.as_object().expect("sections") {
        let kind = match section.as_str() {
            "discriminator" => "network",
            section => section,
        };
        match section.as_str() {
            "file" | "transforms" => {}
            "metric" => {
                let ours = recipe.metric.list()[0].1.includes_background();
                if theirs["include_background"] != ours {
                    found.push(format!("the metric includes the background: {ours}"));
                }
            }
            // By default all checkpoints and the best are written, of which the last three are kept.
            "checkpoint" => {
                let plugins = document.find("plugins").items();
                let checkpoint = plugins.iter().find(|plugin| plugin.text("name") == Some("checkpoint"));
                if !checkpoint.and_then(|plugin| plugin.get("options")).is_some_and(is_explained) {
                    found.push("plugins.checkpoint does not say which checkpoints the source keeps".to_owned());
                }
            }
            _ => {
                let written = root.get(section).cloned().unwrap_or_else(Node::empty);
                found.extend(differences(section, &written, &whole[section], theirs, kind));
            }
        }
    }
    found
}

#[test]
fn bundled_recipes_are_those_of_their_sources_or_say_what_differs() {
    let sources = sources();
    let mut found = Vec::new();
    for recipe in bundled::ALL {
        let header = recipe.text.lines().nth(1).unwrap_or_default();
        let file = header.strip_prefix("# Source: ").unwrap_or_else(|| panic!("{}: no source", recipe.name));
        let Some(source) = sources.get(recipe.name) else {
            assert!(file.starts_with("none."), "{}: {file} is not recorded", recipe.name);
            continue;
        };
        let named = file.split([',', ' ']).next().unwrap_or_default();
        assert!(source["file"].as_str().is_some_and(|known| known.starts_with(named)), "{}: {file}", recipe.name);
        let differences = compared(&recipe.document().expect("sound"), source).into_iter();
        found.extend(differences.map(|difference| format!("{}: {difference}", recipe.name)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(sources.keys().all(|name| bundled::find(name).is_ok()));
}

#[test]
fn a_value_that_differs_without_a_word_is_found() {
    let source = &sources()["spleen"];
    let of = |from: &str, to: &str| {
        let text = bundled::SPLEEN.text;
        assert!(text.contains(from), "{from}");
        compared(&Document::parse("spleen.toml", text.replacen(from, to, 1)).expect("TOML"), source)
    };
    assert_eq!(of("lambda_ce = 0.5", "lambda_ce = 1.0"), ["loss.lambda_ce is 1.0, in the source 0.5"]);
    assert_eq!(of("lambda_ce = 0.5", ""), ["loss.lambda_ce is 1.0, in the source 0.5"]);
    assert_eq!(of("lambda_ce = 0.5", "lambda_ce = 1.0 # source: 0.5"), Vec::<String>::new());
    assert_eq!(of("momentum = 0.9", "momentum = 0.9\nnesterov = true").len(), 1);
    assert_eq!(of("pixdim = [1.5, 1.5, 2.0]", "pixdim = [1.0, 1.0, 2.0]").len(), 1);
    let flip = "{ name = \"RandFlip\", keys = [\"image\", \"label\"], prob = 0.5 },\n    { name = \"RandCrop";
    assert_eq!(of("{ name = \"RandCrop", flip), ["transforms.7 is not in the source"]);
}

/// As its head says.
#[test]
fn the_adversarial_recipe_has_data_and_network_of_the_regular_one() {
    let [ours, regular] = [bundled::ADVERSARIAL, bundled::SPLEEN_REGULAR].map(|recipe: Bundled| {
        let document = recipe.document().expect("sound");
        Recipe::read(&document).expect("sound")
    });
    assert_eq!(ours.transforms, regular.transforms);
    assert_eq!((&ours.data.validation, &ours.data.modalities), (&regular.data.validation, &regular.data.modalities));
    assert_eq!((ours.network, ours.inferer, ours.optimizer), (regular.network, regular.inferer, regular.optimizer));
}
