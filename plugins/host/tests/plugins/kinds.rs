//! Components with operations, and a handler in the same crate: in Rust and in C.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_engine::Engine;
use hearth_plugin::component::{
    Array, Case, Cases, Draw, Epoch, Inferer, Inversion, Layout, Loss, MapTransform, Mapped, Network, Sampler,
    Schedule, Step, Valued, Writer,
};
use hearth_plugin::{Context, Event, Fault, Handler, HandlerError, Level, NoOptions, When, export_plugin, options};
use hearth_plugin_host::{Info, Plugin, Template, load, load_linked};
use hearth_registry::component::{Answer, Component, ComponentKind, HostArray, IDENTITY};
use serde_json::{Value, json};

use crate::in_c::{compile, make};
use crate::toy::Toy;
use crate::{clients, table};

options! {
    /// Options of `Crop`.
    pub struct CropOptions {
        /// The part of x to keep; 0 draws it.
        share: f64 = 0.5,
    }
}

struct Crop(f64);

impl MapTransform for Crop {
    fn apply(&self, images: Vec<Array<'_>>, keys: &[String], draw: Draw) -> Result<Mapped, HandlerError> {
        assert_eq!(images.len(), keys.len());
        let image = |image: Array<'_>| {
            let (length, plane) = (image.shape[1], image.shape[2] * image.shape[3]);
            let keep = match self.0 {
                0.0 => 1 + (draw.seed() % (length as u64 - 1)) as usize,
                share => (length as f64 * share) as usize,
            };
            let kept = image.values.chunks(length * plane).flat_map(|channel| &channel[..keep * plane]);
            let values: Vec<f32> = kept.copied().collect();
            Array { shape: vec![image.shape[0], keep, image.shape[2], image.shape[3]], values: values.into(), ..image }
        };
        let images = images.into_iter().map(image).map(owned).collect();
        Ok(Mapped { images, state: "cropped".to_owned() })
    }

    fn is_random(&self) -> bool {
        self.0 == 0.0
    }
}

fn owned(array: Array<'_>) -> Array<'static> {
    Array { shape: array.shape, values: array.values.into_owned().into(), affine: array.affine }
}

/// A transform with its own inverse, which fails with the arguments that it received.
#[derive(Clone, Copy)]
struct Turn;

impl MapTransform for Turn {
    fn apply(&self, images: Vec<Array<'_>>, _: &[String], _: Draw) -> Result<Mapped, HandlerError> {
        Ok(images.into_iter().map(owned).collect::<Vec<_>>().into())
    }

    fn is_invertible(&self) -> bool {
        true
    }

    fn invert(&self, _: Array<'_>, from: &Inversion) -> Result<Array<'static>, HandlerError> {
        Err(HandlerError::new(format!("{} {:?} {} {:?}", from.key, from.state, from.nearest, from.shape)))
    }
}

#[derive(Clone, Copy)]
struct Square;

impl Loss for Square {
    fn loss(&self, pred: Array<'_>, label: Array<'_>) -> Result<Valued, HandlerError> {
        if pred.shape != label.shape {
            return Err(HandlerError::new("prediction and label differ"));
        }
        let n = pred.values.len() as f32;
        let differences: Vec<f32> = pred.values.iter().zip(label.values.iter()).map(|(p, l)| p - l).collect();
        let loss = differences.iter().map(|d| f64::from(d * d)).sum::<f64>() / 2.0 / f64::from(n);
        let values: Vec<f32> = differences.iter().map(|d| d / n).collect();
        Ok(Valued { loss, gradient: Array { shape: pred.shape, values: values.into(), affine: pred.affine } })
    }
}

#[derive(Clone, Copy)]
struct Halves;

impl Schedule for Halves {
    fn rate(&self, at: Step) -> Result<f64, HandlerError> {
        Ok(at.base / 2_f64.powi(at.step as i32))
    }
}

#[derive(Clone, Copy)]
struct Once;

impl Inferer for Once {
    fn infer(&self, image: Array<'_>, network: &mut Network<'_>) -> Result<Array<'static>, HandlerError> {
        network(image).map_err(HandlerError::new)
    }
}

#[derive(Clone, Copy)]
struct Backwards;

impl Sampler for Backwards {
    fn order(&self, epoch: &Epoch<'_>, _: Draw) -> Result<Vec<usize>, HandlerError> {
        Ok((0..epoch.cases.len()).rev().collect())
    }
}

#[derive(Clone, Copy)]
struct Hard;

impl Sampler for Hard {
    fn order(&self, epoch: &Epoch<'_>, _: Draw) -> Result<Vec<usize>, HandlerError> {
        let loss = |index: &usize| epoch.losses.get(&epoch.cases[*index]).copied().unwrap_or(f64::INFINITY);
        let mut order: Vec<usize> = (0..epoch.cases.len()).collect();
        order.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
        Ok(order)
    }
}

#[derive(Clone, Copy)]
struct Ward;

impl Layout for Ward {
    fn cases(&self, folder: &Path) -> Result<Cases, HandlerError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let case = Case { name, image: vec!["a.nii".to_owned()], ..Case::default() };
        Ok(Cases { cases: vec![case], ..Cases::default() })
    }
}

#[derive(Clone, Copy)]
struct Text;

impl Writer for Text {
    fn endings(&self) -> Vec<String> {
        vec![".txt".to_owned()]
    }

    fn write(&self, image: Array<'_>, path: &Path, _: &str) -> Result<Vec<PathBuf>, HandlerError> {
        let lines: String = image.values.iter().map(|value| format!("{value}\n")).collect();
        std::fs::write(path, lines)?;
        Ok(vec![path.to_owned()])
    }
}

struct Counter(u64);

impl Handler for Counter {
    fn name(&self) -> &str {
        "kinds"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::EpochCompleted.into()]
    }

    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0 += 1;
        cx.host.log(Level::Notice, &format!("epochs so far: {}", self.0));
        Ok(())
    }
}

fn made<T: Copy>(component: T) -> impl Fn(NoOptions) -> Result<T, Fault> {
    move |_| Ok(component)
}

export_plugin!("kinds", NoOptions, |_| Counter(0), needs: [FILES], components: {
    "Keeps the start of x, up to a drawn place."
        map_transform Crop(CropOptions) = |options: CropOptions| Ok::<_, Fault>(Crop(options.share));
    "Changes nothing." map_transform Turn(NoOptions) = made(Turn);
    "Half the mean square of the difference." loss Square(NoOptions) = made(Square);
    "Half the rate at each step." schedule Halves(NoOptions) = made(Halves);
    "The whole image as one window." inferer Once(NoOptions) = made(Once);
    "The last case first." sampler Backwards(NoOptions) = made(Backwards);
    "The case with the largest loss first." sampler Hard(NoOptions) = made(Hard);
    "One case." layout Ward(NoOptions) = made(Ward);
    "Numbers in lines." writer Text(NoOptions) = made(Text);
});

fn image(values: &[f32]) -> HostArray<'_> {
    HostArray::new(vec![1, values.len(), 1, 1], values).expect("an image")
}

fn find(plugin: &Plugin, kind: ComponentKind, name: &str, options: &str) -> Arc<dyn Component> {
    plugin.component(kind, name, table(options)).expect(name)
}

fn ask(component: &dyn Component, operation: &str, inputs: &[HostArray<'_>], text: Value) -> Result<Answer, String> {
    component.call(operation, inputs, &text.to_string(), None)
}

fn said(answer: Result<Answer, String>) -> Value {
    serde_json::from_str(&answer.expect("no error").text).expect("JSON")
}

/// The same components in Python, without a handler.
const PYTHON: &str = r#"
import os
import hearth_plugin as hearth


class Crop(hearth.Component):
    """Keeps the start of x."""

    KIND = "map_transform"
    OPTIONS = [hearth.option("share", "number", 0.5, "The part to keep; 0 draws it.")]

    def __init__(self, options):
        self.share = options["share"]
        self.RANDOM = self.share == 0

    def apply(self, images, keys, draw):
        def crop(image):
            channels, length, height, depth = image.shape
            keep = int(length * self.share) or 1 + draw % (length - 1)
            values, plane = image.values(), height * depth
            kept = [v for c in range(channels) for v in values[c * length * plane:(c * length + keep) * plane]]
            return hearth.Array([channels, keep, height, depth], kept, image.affine)
        return [crop(image) for image in images], "cropped"


class Square(hearth.Component):
    """Half the mean square of the difference."""

    KIND = "loss"

    def loss(self, pred, label):
        if pred.shape != label.shape:
            raise ValueError("prediction and label differ")
        differences = [p - l for p, l in zip(pred.values(), label.values())]
        count = len(differences)
        return sum(d * d for d in differences) / 2 / count, hearth.Array(pred.shape, [d / count for d in differences])


class Halves(hearth.Component):
    KIND = "schedule"

    def rate(self, step, steps, base):
        return base / 2 ** step


class Once(hearth.Component):
    KIND = "inferer"

    def infer(self, image, network):
        return network(image)


class Backwards(hearth.Component):
    KIND = "sampler"

    def order(self, cases, epoch, draw, losses):
        return reversed(range(len(cases)))


class Text(hearth.Component):
    KIND = "writer"
    ENDINGS = [".txt"]

    def write(self, image, path, case):
        with open(path, "w") as file:
            file.writelines(f"{value:g}\n" for value in image.values())
"#;

/// The plugin in Rust that is linked into this test, and the one in C, which do the same.
fn both(folder: &Path) -> [Plugin; 2] {
    let library = compile(folder, "kinds", include_str!("../fixtures/c/kinds.c"));
    [load_linked(&PLUGIN).expect("it lists its components"), load(&library).expect("it loads")]
}

/// Checks the operations of each component against closed forms.
pub fn does_all(plugin: &Plugin, folder: &Path) {
    let crop = find(plugin, ComponentKind::MapTransform, "Crop", "");
    let abilities = said(crop.call("abilities", &[], "", None));
    assert_ne!(abilities["random"], true, "{abilities}");
    let text = json!({"keys": ["image", "label"], "draw": null});
    let cropped =
        ask(&*crop, "apply", &[image(&[1.0, 2.0, 3.0, 4.0]), image(&[0.0, 1.0, 0.0, 1.0])], text).expect("no error");
    let shapes: Vec<_> = cropped.arrays.iter().map(|array| (&array.shape[..], &*array.values)).collect();
    assert_eq!(shapes, [(&[1, 2, 1, 1][..], &[1.0, 2.0][..]), (&[1, 2, 1, 1][..], &[0.0, 1.0][..])]);
    assert_eq!((cropped.arrays[0].affine, cropped.text.contains("cropped")), (IDENTITY, true));

    let random = find(plugin, ComponentKind::MapTransform, "Crop", "share = 0.0");
    assert_eq!(said(random.call("abilities", &[], "", None))["random"], true);
    // 18446744073709551557 is a number above those that a float holds exactly; modulo 7 it is 4.
    let text = json!({"keys": ["image"], "draw": 18_446_744_073_709_551_557_u64});
    let drawn = ask(&*random, "apply", &[image(&[0.0; 8])], text).expect("no error");
    assert_eq!(drawn.arrays[0].shape, [1, 1 + (18_446_744_073_709_551_557_u64 % 7) as usize, 1, 1]);

    let loss = find(plugin, ComponentKind::Loss, "Square", "");
    let valued = loss.call("loss", &[image(&[3.0, 1.0]), image(&[1.0, 1.0])], "{}", None).expect("no error");
    let text: Value = serde_json::from_str(&valued.text).expect("JSON");
    assert_eq!((text["loss"].as_f64(), &*valued.arrays[0].values), (Some(1.0), &[1.0, 0.0][..]));
    let why = loss.call("loss", &[image(&[3.0, 1.0]), image(&[1.0])], "{}", None).expect_err("two sizes");
    assert!(why.contains("prediction and label differ"), "{why}");

    let schedule = find(plugin, ComponentKind::Schedule, "Halves", "");
    let text = json!({"step": 3, "steps": null, "base": 0.5});
    assert_eq!(said(ask(&*schedule, "rate", &[], text))["rate"], 0.0625);

    let sampler = find(plugin, ComponentKind::Sampler, "Backwards", "");
    let text = json!({"cases": ["a", "b", "c"], "epoch": 0, "draw": 1, "losses": {}});
    assert_eq!(said(ask(&*sampler, "order", &[], text))["order"], json!([2, 1, 0]));

    let writer = find(plugin, ComponentKind::Writer, "Text", "");
    assert_eq!(said(writer.call("abilities", &[], "", None))["endings"], json!([".txt"]));
    let path = folder.join("out.txt");
    let text = json!({"path": path.to_str().expect("Unicode"), "case": "a"});
    ask(&*writer, "write", &[image(&[1.5, 2.0])], text).expect("no error");
    assert_eq!(std::fs::read_to_string(&path).expect("it was written"), "1.5\n2\n");
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn operations_do_the_same_in_rust_and_in_c() {
    let folder = tempfile::tempdir().expect("a folder");
    both(folder.path()).iter().for_each(|plugin| does_all(plugin, folder.path()));
}

#[test]
fn live_operations_do_the_same_in_python() {
    if clients::find(&["ctypes"], "operations_do_the_same_in_rust_and_in_c").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    drop(make(folder.path(), Template::Python));
    let dir = folder.path().join("my-python");
    std::fs::copy(dir.join("libmy_python.so"), dir.join("libparts.so")).expect("a library");
    std::fs::write(dir.join("my_python.py"), PYTHON).expect("a source");
    let plugin = load(&dir.join("libparts.so")).expect("it loads");
    does_all(&plugin, folder.path());
    runs_the_network(&plugin);
    let loss = find(&plugin, ComponentKind::Loss, "Square", "");
    let why = loss.call("loss", &[image(&[1.0]), image(&[1.0, 2.0])], "{}", None).expect_err("two sizes");
    assert!(why.starts_with("ValueError: ") && why.contains("(my_python.py:"), "{why}");
}

pub fn runs_the_network(plugin: &Plugin) {
    let inferer = find(plugin, ComponentKind::Inferer, "Once", "");
    let mut windows = Vec::new();
    let mut double = |window: HostArray<'_>| {
        windows.push(window.shape.clone());
        let values: Vec<f32> = window.values.iter().map(|value| value * 2.0).collect();
        HostArray::new(window.shape, values)
    };
    let answer = inferer.call("infer", &[image(&[1.0, 4.0])], "", Some(&mut double)).expect("no error");
    assert_eq!((&*answer.arrays[0].values, windows), (&[2.0, 8.0][..], vec![vec![1, 2, 1, 1]]));
    let mut fails = |_: HostArray<'_>| Err::<HostArray<'static>, _>("out of memory".to_owned());
    let why = inferer.call("infer", &[image(&[1.0])], "", Some(&mut fails)).expect_err("it fails");
    assert_eq!(why, "out of memory");
    assert!(inferer.call("infer", &[image(&[1.0])], "", None).is_err(), "there is no network");
    assert!(inferer.call("fly", &[], "", None).expect_err("no such operation").contains("unknown"));
}

#[test]
fn the_network_is_called_from_a_plugin_and_its_error_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    both(folder.path()).iter().for_each(runs_the_network);
}

#[test]
fn a_plugin_has_a_handler_and_components() {
    let folder = tempfile::tempdir().expect("a folder");
    for plugin in both(folder.path()) {
        assert!(plugin.identity().adds_components);
        let mut engine = Engine::new("trainer");
        engine.add_boxed(plugin.handler(table("")).expect("no options")).expect("a valid handler");
        let mut toy = Toy::trainer(1);
        engine.run(&mut toy, 2).expect("no error");
        let notes: Vec<&String> = toy.notes.iter().filter(|note| note.contains("epochs so far")).collect();
        assert!(notes.len() == 2 && notes[1].contains("epochs so far: 2"), "{notes:?}");
        let info = Info::of(&plugin).to_string();
        assert!(info.contains("epoch_completed"), "{info}");
        for line in ["map_transform kinds.Crop", "loss          kinds.Square", "writer        kinds.Text"] {
            assert!(info.contains(line), "{line}: {info}");
        }
        let fault = plugin.component(ComponentKind::Loss, "Crop", table("")).err().expect("another kind");
        assert_eq!(fault.message, "kinds.Crop is a map_transform, not a loss");
    }
}

#[test]
fn operations_get_all_that_they_need() {
    let plugin = load_linked(&PLUGIN).expect("it lists its components");
    let hard = find(&plugin, ComponentKind::Sampler, "Hard", "");
    let text = json!({"cases": ["a", "b", "c"], "epoch": 1, "draw": 1, "losses": {"a": 0.5, "b": 2.0}});
    assert_eq!(said(ask(&*hard, "order", &[], text))["order"], json!([2, 1, 0]));
    let turn = find(&plugin, ComponentKind::MapTransform, "Turn", "");
    assert_eq!(said(turn.call("abilities", &[], "", None))["invertible"], true);
    let text = json!({"key": "label", "state": "s", "nearest": true, "shape": [1, 2, 3], "affine": IDENTITY});
    let why = ask(&*turn, "invert", &[image(&[1.0])], text).expect_err("it names its arguments");
    assert_eq!(why, "label \"s\" true [1, 2, 3]");
    let ward = find(&plugin, ComponentKind::Layout, "Ward", "");
    let cases = said(ask(&*ward, "cases", &[], json!({"folder": "/data/ward 7"})));
    assert_eq!((&cases["cases"][0]["name"], &cases["cases"][0]["image"][0]), (&json!("ward 7"), &json!("a.nii")));
    assert!(ward.call("cases", &[], "no JSON", None).expect_err("no JSON").contains("no JSON"));
}
