//! A layout of a plugin: `[data] layout = { name = "mine.Ward" }`.

use std::path::{Path, PathBuf};

use hearth_io::Parts;
use hearth_registry::component::texts::{FieldValue, LayoutAnswer, LayoutCall, LayoutCase};
use hearth_registry::component::{self, ComponentKind, Late};
use hearth_registry::{Fault, Node};

use super::{CaseList, Layout, Target, Wants, channels, title, with_image, wrong};
use crate::dataset::make_unique;
use crate::{DataError, Field, Item};

/// The layout. The plugin is loaded when a data set is read.
#[derive(Debug)]
struct OfPlugin(Late);

/// Builds the layout for a name with a dot, from its table without the name.
pub(super) fn build(name: &str, options: &Node) -> Result<Box<dyn Layout>, Fault> {
    Ok(Box::new(OfPlugin(Late::new(ComponentKind::Layout, name, options.clone()))))
}

impl OfPlugin {
    fn listed(&self, path: &Path) -> Result<LayoutAnswer, String> {
        let folder = path.to_str().ok_or("a path that is not Unicode cannot be passed to a plugin")?;
        let component = self.0.get().map_err(|fault| fault.to_string())?;
        let text = serde_json::to_string(&LayoutCall { folder: folder.to_owned() }).map_err(|e| e.to_string())?;
        let answer = component.call("cases", &[], &text, None).map_err(|why| component::reports(&why))?;
        serde_json::from_str(&answer.text)
            .map_err(|error| format!("the plugin's answer is not a list of cases: {error}"))
    }
}

impl Layout for OfPlugin {
    /// It is never recognized: a recipe names it.
    fn fits(&self, _: &Path) -> bool {
        false
    }

    fn read(&self, path: &Path, wants: &Wants) -> Result<CaseList, DataError> {
        let refused = |what: String| wrong(path, format!("{}: {what}", self.0.name()));
        if let Target::Image { name: Some(name) } = &wants.target
            && name != "label"
        {
            return Err(refused(format!("a plugin's layout has one target, \"label\", and not {name:?}")));
        }
        let LayoutAnswer { cases, labels, modalities, validation } = self.listed(path).map_err(refused)?;
        let chosen = channels(&modalities, &wants.images).map_err(refused)?;
        let root = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let (mut items, mut lacking) = (Vec::new(), Vec::new());
        for case in cases {
            let name = case.name.clone();
            match item(root, case, &modalities, chosen.as_deref(), wants) {
                Ok(item) => items.push(item),
                Err(what) => lacking.push((name, what)),
            }
        }
        make_unique(&mut items);
        let mut list = CaseList { name: title(path), labels, validation, ..CaseList::default() };
        list.modalities = if wants.images.is_empty() { modalities } else { wants.images.clone() };
        list.sort(items, wants);
        list.lack(lacking, wants, |cases| refused(format!("cases cannot be used:{cases}")))?;
        if list.labelled.is_empty() && list.unlabelled.is_empty() && list.lacking.is_empty() {
            return Err(refused("the plugin found no case".to_owned()));
        }
        Ok(list)
    }
}

/// A case with the files that are wanted of it.
fn item(
    root: &Path,
    case: LayoutCase,
    modalities: &[String],
    chosen: Option<&[usize]>,
    wants: &Wants,
) -> Result<Item, String> {
    let LayoutCase { name, image, label, fields } = case;
    if name.is_empty() {
        return Err("a case has no name".to_owned());
    }
    let file = |path: &String| {
        let path = root.join(path);
        if path.exists() { Ok(path) } else { Err(format!("{} does not exist", path.display())) }
    };
    let files = image.iter().map(file).collect::<Result<Vec<PathBuf>, String>>()?;
    let parts = match (chosen, files.len()) {
        (_, 0) => return Err("it has no image".to_owned()),
        (Some(chosen), many) if many == modalities.len() => {
            Parts::new(chosen.iter().map(|index| files[*index].clone()).collect::<Vec<_>>())
        }
        (Some(chosen), 1) => Parts { channels: Some(chosen.to_vec()), ..Parts::new(files) },
        (Some(_), many) => return Err(format!("it has {many} files for {} channels", modalities.len())),
        (None, _) => Parts::new(files),
    };
    let mut item = with_image(Item::new(name), "image", parts);
    if let (Some(label), Target::Image { .. }) = (label, &wants.target) {
        item = item.with("label", file(&label)?);
    }
    item.fields = fields.into_iter().map(|(key, value)| (key, field(value))).collect();
    Ok(item)
}

fn field(value: FieldValue) -> Field {
    match value {
        FieldValue::Number(number) => Field::Number(number),
        FieldValue::Numbers(numbers) => Field::Numbers(numbers),
        FieldValue::Text(text) => Field::Text(text),
    }
}
