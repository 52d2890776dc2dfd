//! Components of plugins, in Rust and in C: use in recipes, and refused ones.

use hearth_plugin::component::{Array, Metric, Reader, Transform};
use hearth_plugin::{Fault, HandlerError, NoOptions, export_components, options};
use hearth_plugin_host::{Info, Plugin, load, load_linked, provide_components};
use hearth_registry::component::{self, Component, ComponentKind, HostArray};
use std::path::Path;
use std::sync::Arc;

use crate::in_c::compile;
use crate::table;

options! {
    /// Options of `Scale`.
    pub struct ScaleOptions {
        /// A factor.
        factor: f64 = 2.0,
    }
}

struct Scale(f32);

impl Transform for Scale {
    fn apply(&self, image: Array<'_>) -> Result<Array<'static>, HandlerError> {
        assert!(self.0 < 100.0, "the factor is absurd");
        let values = image.values.iter().map(|value| value * self.0).collect::<Vec<f32>>();
        Ok(Array { values: values.into(), shape: image.shape, affine: image.affine })
    }
}

struct Voxel;

impl Metric for Voxel {
    fn measure(&self, pred: Array<'_>, label: Array<'_>) -> Result<Vec<f32>, HandlerError> {
        Ok(vec![pred.values[0] - label.values[0], label.affine[0][0] as f32])
    }
}

struct Never;

impl Reader for Never {
    fn read(&self, path: &Path) -> Result<Array<'static>, HandlerError> {
        Err(HandlerError::new(format!("{} is not mine", path.display())))
    }
}

fn scale(options: ScaleOptions) -> Result<Scale, Fault> {
    if options.factor == 0.0 { Err(Fault::at("factor", "`factor` is 0")) } else { Ok(Scale(options.factor as f32)) }
}

export_components!("rusty", needs: [FILES], {
    "Multiplies." transform Scale(ScaleOptions) = scale;
    "Shows a voxel." metric Voxel(NoOptions) = |_| Ok::<_, Fault>(Voxel);
    "Reads nothing." reader Never(NoOptions) = |_| Ok::<_, Fault>(Never);
});

fn made(plugin: &Plugin, kind: ComponentKind, name: &str, options: &str) -> Result<Arc<dyn Component>, Fault> {
    plugin.component(kind, name, table(options))
}

fn image(values: &[f32]) -> HostArray<'_> {
    HostArray::new(vec![1, values.len(), 1, 1], values).expect("an image")
}

#[test]
fn components_in_rust_cross_and_come_back() {
    let plugin = load_linked(&PLUGIN).expect("it lists its components");
    let kinds: Vec<_> = plugin.components().iter().map(|info| (info.kind.as_str(), info.name.as_str())).collect();
    assert_eq!(kinds, [("transform", "Scale"), ("metric", "Voxel"), ("reader", "Never")]);
    let text = Info::of(&plugin).to_string();
    assert!(text.contains("adds      transform     rusty.Scale") && text.contains("factor = 2.0"), "{text}");
    assert!(text.contains("may do    reads or writes files") && !text.contains("listens"), "{text}");

    let scale = made(&plugin, ComponentKind::Transform, "Scale", "factor = 3").expect("valid options");
    let result = scale.run(&[image(&[1.0, 2.0])], "").expect("no error");
    assert_eq!((result.len(), &*result[0].values, &result[0].shape[..]), (1, &[3.0, 6.0][..], &[1, 2, 1, 1][..]));
    assert!(scale.version().starts_with("rusty "));
    let absurd = made(&plugin, ComponentKind::Transform, "Scale", "factor = 1000").expect("valid options");
    let error = absurd.run(&[image(&[1.0])], "").expect_err("it panics");
    assert!(error.contains("panicked at") && error.contains("the factor is absurd"), "{error}");
    assert!(scale.run(&[], "").expect_err("nothing to scale").contains("too few arrays"));

    let voxel = made(&plugin, ComponentKind::Metric, "Voxel", "").expect("no options");
    let row = voxel.run(&[image(&[5.0]), image(&[3.0])], "").expect("no error");
    assert_eq!(*row[0].values, [2.0, 1.0]);
    let never = made(&plugin, ComponentKind::Reader, "Never", "").expect("no options");
    assert_eq!(never.run(&[], "/a/b").expect_err("not its file"), "/a/b is not mine");
    // A plugin of components also has a handler, which subscribes to nothing.
    assert!(plugin.handler(table("")).expect("a handler").subscriptions().is_empty());
}

#[test]
fn components_in_c_do_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = compile(folder.path(), "parts", include_str!("../fixtures/c/parts.c"));
    let plugin = load(&library).expect("it loads");
    assert!(plugin.identity().adds_components && plugin.components().len() == 4);
    let add = made(&plugin, ComponentKind::Transform, "Add", "amount = 2").expect("valid options");
    let result = add.run(&[image(&[1.0, 2.5])], "").expect("no error");
    assert_eq!((&*result[0].values, &result[0].shape[..]), (&[3.0, 4.5][..], &[1, 2, 1, 1][..]));
    assert_eq!(result[0].affine, component::IDENTITY);
    let same = made(&plugin, ComponentKind::Transform, "Add", "").expect("defaults");
    assert_eq!(*same.run(&[image(&[1.0])], "").expect("no error")[0].values, [2.0]);
    let difference = made(&plugin, ComponentKind::Metric, "Difference", "").expect("no options");
    let row = difference.run(&[image(&[5.0, 3.0]), image(&[1.0, 1.0])], "").expect("no error");
    assert_eq!((&*row[0].values, &row[0].shape[..]), (&[3.0][..], &[1][..]));
    let error = difference.run(&[image(&[5.0, 3.0]), image(&[1.0])], "").expect_err("two sizes");
    assert_eq!(error, "prediction and label differ");
    let reader = made(&plugin, ComponentKind::Reader, "Text", "").expect("no options");
    let file = folder.path().join("numbers.txt");
    std::fs::write(&file, "1 2\n4.5\n").expect("a file");
    let read = reader.run(&[], file.to_str().expect("Unicode")).expect("no error");
    assert_eq!((&*read[0].values, read[0].affine[0][0]), (&[1.0, 2.0, 4.5][..], 2.0));
    assert_eq!(reader.run(&[], "/none").expect_err("no file"), "the file cannot be opened");
}

#[test]
fn what_is_not_there_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = compile(folder.path(), "parts", include_str!("../fixtures/c/parts.c"));
    let plugins = [load(&library).expect("it loads"), load_linked(&PLUGIN).expect("it lists its components")];
    let fault =
        |index: usize, kind, name: &str, options: &str| made(&plugins[index], kind, name, options).err().expect(name);
    let near = fault(0, ComponentKind::Transform, "Ad", "");
    assert_eq!((near.path.as_str(), near.suggestion.as_deref()), ("name", Some("parts.Add")), "{near}");
    assert_eq!(fault(0, ComponentKind::Metric, "Add", "").message, "parts.Add is a transform, not a metric");
    for index in 0..2 {
        let (name, right, wrong) =
            if index == 0 { ("Add", "amount", "amont = 1") } else { ("Scale", "factor", "facto = 1") };
        let option = fault(index, ComponentKind::Transform, name, wrong);
        assert_eq!(option.suggestion.as_deref(), Some(right), "{option}");
    }
    assert_eq!(fault(0, ComponentKind::Transform, "Add", "amount = 2000").path, "amount");
    assert_eq!(fault(0, ComponentKind::Transform, "Add", "amount = 'x'").path, "amount");
    assert_eq!(fault(1, ComponentKind::Transform, "Scale", "factor = 0").path, "factor");

    provide_components(&[library]);
    let options = hearth_registry::Node::empty();
    assert!(component::find(ComponentKind::Transform, "parts.Add", &options).is_ok());
    let missing = component::find(ComponentKind::Transform, "absent.Add", &options).err().expect("no plugin");
    assert!(missing.message.contains("no plugin `absent`"), "{missing}");
    let handler = component::find(ComponentKind::Transform, "stats.Add", &options).err().expect("a handler only");
    assert_eq!(handler.message, "plugin `stats` has no transform");
}
