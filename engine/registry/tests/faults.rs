//! Every mistake in a recipe is reported at its key.

use hearth_registry::{Document, Fault, Kind, Named, Node, Place, Registry, entry, read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

trait Shape: std::fmt::Debug {
    fn area(&self) -> f64;
    fn sound(&self) -> Result<(), Fault>;
}

impl Kind for dyn Shape {
    const WORD: &'static str = "shape";

    fn check(&self) -> Result<(), Fault> {
        self.sound()
    }

    fn place(&self) -> Option<Place> {
        Some(if self.area() > 3.5 { Place::Host } else { Place::WithTensor })
    }
}

/// A circle.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Circle {
    radius: f64,
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        3.0 * self.radius * self.radius
    }

    fn sound(&self) -> Result<(), Fault> {
        if self.radius > 0.0 { Ok(()) } else { Err(Fault::at("radius", "must be positive")) }
    }
}

entry!(dyn Shape => Circle, aliases: &["disc"], paper: "Archimedes", example: "radius = 1.0", setters: &[("radius", "Half the diameter.")]);

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Turn {
    #[default]
    Left,
    Right,
}

/// A square.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Square {
    /// Length of a side in mm.
    side: f64,
    /// Which way it is turned.
    #[serde(default)]
    turn: Turn,
    /// Sizes of holes.
    #[serde(default)]
    holes: Vec<u32>,
}

impl Shape for Square {
    fn area(&self) -> f64 {
        self.side * self.side - self.holes.iter().sum::<u32>() as f64 + f64::from(self.turn as u8)
    }

    fn sound(&self) -> Result<(), Fault> {
        Ok(())
    }
}

entry!(dyn Shape => Square, example: "side = 2.0\nturn = \"right\"");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only whether it is read counts")]
struct Page {
    title: String,
    shape: Node,
    #[serde(default)]
    sizes: Vec<u32>,
}

const GOOD: &str = "title = \"t\"\nsizes = [1, 2]\n[shape]\nname = \"Circle\"\nradius = 2\n";

fn build(text: &str) -> Result<Box<dyn Shape>, Fault> {
    let page: Page = Document::parse("page.toml", text)?.read()?;
    Registry::<dyn Shape>::new().build(&page.shape)
}

#[test]
fn a_good_page_builds_and_its_nodes_keep_their_places() {
    assert_eq!(build(GOOD).map(|shape| shape.area()), Ok(12.0));
    assert_eq!(build(&GOOD.replace("Circle", "disc")).map(|shape| shape.area()), Ok(12.0));
}

#[test]
fn every_fault_points_to_its_place() {
    let shape = |rest: &str| format!("title = \"t\"\n[shape]\n{rest}");
    let cases = [
        ("titel = \"t\"\n[shape]\n".to_owned(), "page.toml:1:1: unknown key \"titel\", did you mean \"title\"?"),
        ("title = 3\n[shape]".into(), "page.toml:1:9: expected a text, not 3"),
        (
            "title = \"t\"\nsizes = [1, \"x\"]".into(),
            "page.toml:2:13: expected a whole number without a sign, not the text \"x\"",
        ),
        (shape("name = \"Circel\""), "page.toml:3:8: unknown shape \"Circel\", did you mean \"Circle\"?"),
        (shape("name = \"Elephant\""), "page.toml:3:8: unknown shape \"Elephant\"; known are Circle, Square"),
        (shape("name = 3"), "page.toml:3:8: expected the name of a shape, not a number"),
        (shape("radius = 3"), "page.toml:2:1: the table has no `name`: it says which shape is meant"),
        (shape("name = \"Circle\"\nradios = 1"), "page.toml:4:1: unknown key \"radios\", did you mean \"radius\"?"),
        (shape("name = \"Circle\"\nradius = -1"), "page.toml:4:10: must be positive"),
        (shape("name = \"Square\"\nside = 1\nturn = 3"), "page.toml:5:8: expected one of left, right, not a number"),
        (
            shape("name = \"Square\"\nside = 1\nturn = \"lift\""),
            "page.toml:5:8: unknown word \"lift\", did you mean \"left\"?",
        ),
        (
            shape("name = \"Square\"\nside = 1\nholes = [1, -2]"),
            "page.toml:5:13: expected a whole number without a sign, not -2",
        ),
        (shape("name = \"Circle\""), "page.toml:2:1: the key \"radius\" is missing"),
        ("title = \"t\"\nshape = 3".into(), "page.toml:2:9: expected a table with the `name` of a shape, not a number"),
        ("title = = 3".into(), "page.toml:1:9:"),
        ("title = \"ü\"\n\"é\" = 1979-05-27".into(), "page.toml:2:7: a recipe has no dates"),
    ];
    for (text, expected) in cases {
        let got = build(&text).err().unwrap_or_else(|| panic!("{text:?} builds")).to_string();
        assert!(got.starts_with(expected), "{text:?}\n gives    {got}\n expected {expected}");
    }
    let fault = build("title = \"t\"\nsizs = [1]\n").err().map(|fault| fault.to_string());
    let whole = "page.toml:2:1: unknown key \"sizs\", did you mean \"sizes\"?\n2 | sizs = [1]\n  | ^^^^";
    assert_eq!(fault.as_deref(), Some(whole));
}

#[test]
fn paths_lead_from_the_value_that_was_read() {
    let page = Document::parse("page.toml", "a = { b = [{ c = 1 }, { c = \"x\" }] }").expect("a page");
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only whether it is read counts")]
    struct C {
        c: u8,
    }
    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only whether it is read counts")]
    struct B {
        b: Vec<C>,
    }
    let fault = read::<B>(page.find("a")).expect_err("a text is not a number");
    assert_eq!(fault.path, "b.1.c");
    let located = page.located("a", Fault::at("b.0.c", "too small"));
    assert_eq!(
        (located.path.as_str(), located.to_string().lines().next()),
        ("a.b.0.c", Some("page.toml:1:18: too small"))
    );
}

#[test]
fn sets_are_typed_and_say_what_they_do_not_find() {
    let mut page = Document::parse("page.toml", GOOD).expect("a page");
    let mut set = |text: &str| page.set(text).map_err(|fault| fault.to_string());
    assert_eq!(set("shape.radius=0.5"), Ok(()));
    assert_eq!(set("title=plain words"), Ok(()));
    assert_eq!(set("sizes=[7, 8]"), Ok(()));
    assert!(set("nothing").is_err_and(|e| e.contains("expected key=value")));
    assert!(set("sizes.9=1").is_err_and(|e| e.contains("the list has 2")));
    assert!(set("title.x=1").is_err_and(|e| e.contains("cannot be inside")));
    let read: Page = page.read().expect("a page");
    assert_eq!((read.title.as_str(), read.sizes.as_slice()), ("plain words", [7, 8].as_slice()));
    assert_eq!(Registry::<dyn Shape>::new().build(&read.shape).map(|shape| shape.area()), Ok(0.75));
    page.set("shape.radius=wide").expect("a table");
    let fault = page.read::<Page>().and_then(|page| Registry::<dyn Shape>::new().build(&page.shape)).expect_err("wide");
    assert_eq!(fault.to_string(), "--set shape.radius=wide: expected a number, not the text \"wide\"");
}

#[test]
fn nodes_are_written_as_they_were_read() {
    let page = Document::parse("page.toml", GOOD).expect("a page");
    let text = toml::to_string(page.root()).expect("TOML");
    assert_eq!(text, GOOD.replace("[shape]", "\n[shape]"));
    let again: Node = toml::from_str(&text).expect("a node");
    assert_eq!(&again, page.root());
}

#[test]
fn the_reference_is_read_off_the_types() {
    let registry = Registry::<dyn Shape>::new();
    for entry in registry.entries() {
        Named::example(entry).unwrap_or_else(|fault| panic!("{}: {fault}", entry.name));
    }
    let square = registry.find("Square").expect("an entry").describe();
    assert_eq!((square.kind, square.doc.as_str(), square.paper), ("shape", "A square.", ""));
    let lines: Vec<String> = square
        .parameters
        .iter()
        .map(|p| format!("{}: {} = {:?} {} {}", p.name, p.kind, p.default, p.required, p.doc))
        .collect();
    assert_eq!(
        lines,
        [
            "side: number = None true Length of a side in mm.",
            "turn: \"left\" or \"right\" = Some(\"\\\"left\\\"\") false Which way it is turned.",
            "holes: list of whole numbers = Some(\"[]\") false Sizes of holes.",
        ]
    );
    let circle = registry.find("disc").expect("an alias").describe();
    // The place comes from the component that the example builds.
    assert_eq!((circle.place, square.place), (Some(Place::WithTensor), Some(Place::Host)));
    assert_eq!(Place::ThroughHost.to_string(), "goes through the host on a GPU");
    assert_eq!((circle.paper, circle.parameters[0].doc.as_str()), ("Archimedes", "Half the diameter."));
}

#[test]
fn defaults_are_written_out_and_what_was_written_stays() {
    let registry = Registry::<dyn Shape>::new();
    let node = Node::named("Square").with("side", 2.5).with("turn", "right");
    let whole = registry.complete(&node).expect("a square");
    let expected = Node::named("Square").with("side", 2.5).with("turn", "right").with("holes", Vec::<i64>::new());
    assert_eq!(whole, expected);
    assert_eq!(registry.complete(&Node::named("disc")).expect("a circle"), Node::named("Circle"));
}

#[derive(Debug, Deserialize, Serialize)]
struct Typed {
    shapes: Vec<Named<dyn Shape>>,
}

#[test]
fn a_named_thing_is_read_written_and_used_as_what_it_names() {
    let text = "shapes = [{ name = \"Square\", side = 2 }, { name = \"disc\", radius = 1 }]";
    let page: Typed = Document::parse("page.toml", text).and_then(|page| page.read()).expect("a page");
    assert_eq!(page.shapes.iter().map(|shape| shape.area()).collect::<Vec<_>>(), [4.0, 3.0]);
    assert_eq!(page.shapes[1].name(), "Circle");
    assert_eq!(page.shapes[0].with("side", 3).map(|shape| shape.area()), Ok(9.0));
    let back: Typed = toml::from_str(&toml::to_string(&page).expect("TOML")).expect("a page");
    assert_eq!(back.shapes, page.shapes);
    for (from, to, expected) in [
        ("side", "sied", "page.toml:1:30: unknown key \"sied\", did you mean \"side\"?"),
        ("radius = 1", "radius = -1", "page.toml:1:68: must be positive"),
    ] {
        let fault = Document::parse("page.toml", text.replace(from, to)).and_then(|page| page.read::<Typed>());
        let fault = fault.expect_err("a mistake").to_string();
        assert!(fault.starts_with(expected), "{fault}");
    }
    let error = toml::from_str::<Typed>(&text.replace("side", "sied")).expect_err("a mistake").to_string();
    assert!(error.contains("did you mean \"side\"?"), "{error}");
}
