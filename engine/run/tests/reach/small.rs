//! A small run: a few generated volumes and a recipe that trains on two of them and validates on
//! two.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hearth_data::{Image, NiftiOptions, affine, host_device, write_nifti};
use hearth_engine::Event;
use hearth_recipe::recipe::Document;
use hearth_registry::Entry;
use hearth_run::{Plan, Session};
use hearth_train::Train;
use safetensors::SafeTensors;
use toml::{Table, Value, toml};

/// The task that a recipe learns from the volumes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Learns {
    /// Two classes.
    Segmentation,
    /// One region.
    Regions,
    /// Two classes of images.
    Classification,
    /// This number of numbers per image, at most eight.
    Regression(usize),
    /// The image itself, with this number of channels and this size.
    Reconstruction([usize; 4]),
}

impl Learns {
    /// The recipe without the network, the loss and the changes of a test: images of `channels`
    /// channels and `dims` axes.
    pub fn recipe(self, channels: usize, dims: usize) -> Table {
        let both = matches!(self, Learns::Segmentation | Learns::Regions);
        let keys = if both { vec!["image", "label"] } else { vec!["image"] };
        let mut steps = vec![step("LoadImage", &keys), step("EnsureChannelFirst", &keys)];
        if channels != 1 {
            steps.push(step("CheckCase", &["image"]));
        }
        if let Learns::Reconstruction([out, size @ ..]) = self {
            steps.push(with(step("CopyItems", &["image"]), "names", vec!["label"]));
            let size: Vec<i64> = size[..dims].iter().map(|length| *length as i64).collect();
            steps.push(with(step("Resize", &["label"]), "spatial_size", size));
            if out > 1 {
                steps.push(with(step("RepeatChannel", &["label"]), "repeats", out as i64));
            }
        }
        if channels != 1 {
            steps.push(with(step("RepeatChannel", &["image"]), "repeats", channels as i64));
        }
        let (task, labels): (&str, Vec<&str>) = match self {
            Learns::Segmentation => ("Segmentation", vec!["background", "block"]),
            Learns::Regions => ("Regions", vec!["block"]),
            Learns::Classification => ("Classification", vec!["dark", "bright"]),
            Learns::Regression(count) => ("Regression", NUMBERS[..count].to_vec()),
            Learns::Reconstruction(_) => ("Reconstruction", Vec::new()),
        };
        let mut recipe = toml! {
            plugins = []
            handlers = [{ name = "Validation" }]
            [data]
            validation = { last = 2 }
            workers = 0
            [optimizer]
            name = "SGD"
            lr = 0.1
            [training]
            epochs = 1
            batch_size = 2
            device = "cpu"
        };
        recipe.insert("labels".into(), labels.into());
        recipe.insert("transforms".into(), steps.into());
        let mut named = Table::from_iter([("name".to_owned(), Value::from(task))]);
        if self == Learns::Classification {
            named.insert("label".into(), "class".into());
        }
        recipe.insert("task".into(), named.into());
        recipe.insert("loss".into(), self.loss().into());
        recipe.insert("network".into(), self.network().into());
        recipe
    }

    /// A loss for it.
    fn loss(self) -> Table {
        match self {
            Learns::Segmentation => toml! {
                name = "DiceCELoss"
                to_onehot_y = true
                softmax = true
            },
            Learns::Regions => toml! {
                name = "DiceLoss"
                sigmoid = true
            },
            Learns::Classification => toml! { name = "CrossEntropyLoss" },
            Learns::Regression(_) | Learns::Reconstruction(_) => toml! { name = "MSELoss" },
        }
    }

    /// A small 3-D network for it.
    fn network(self) -> Table {
        match self {
            Learns::Classification => dense(2),
            Learns::Regression(count) => dense(count),
            Learns::Segmentation => unet(2),
            Learns::Regions | Learns::Reconstruction(_) => unet(1),
        }
    }
}

const NUMBERS: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];

fn unet(out_channels: i64) -> Table {
    let mut unet = toml! {
        name = "UNet"
        spatial_dims = 3
        in_channels = 1
        channels = [4, 8]
        strides = [2]
    };
    unet.insert("out_channels".into(), out_channels.into());
    unet
}

fn dense(out_channels: usize) -> Table {
    let mut dense = toml! {
        name = "DenseNet"
        spatial_dims = 3
        in_channels = 1
        init_features = 8
        growth_rate = 4
        block_config = [2, 2]
    };
    dense.insert("out_channels".into(), (out_channels as i64).into());
    dense
}

/// A transform of `[[transforms]]`.
pub fn step(name: &str, keys: &[&str]) -> Table {
    Table::from_iter([("name".to_owned(), Value::from(name)), ("keys".to_owned(), keys.to_vec().into())])
}

/// The table with another parameter.
pub fn with(mut table: Table, key: &str, value: impl Into<Value>) -> Table {
    table.insert(key.into(), value.into());
    table
}

/// The table of an entry's example.
pub fn example<T: ?Sized>(entry: &Entry<T>) -> Table {
    let table: Table = toml::from_str(entry.example).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    with(table, "name", entry.name)
}

/// The results of a run.
#[derive(Debug)]
pub struct Done {
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// The learning rate of each step.
    pub rates: Vec<f64>,
    /// Whether a weight has changed.
    pub changed: bool,
    /// The metrics of the last validation.
    pub metrics: BTreeMap<String, f64>,
}

impl Done {
    /// Fails unless all losses are finite and the weights have changed.
    pub fn is_sound(&self) -> Result<(), String> {
        if self.losses.is_empty() || self.losses.iter().any(|loss| !loss.is_finite()) {
            return Err(format!("the losses are {:?}", self.losses));
        }
        if self.changed { Ok(()) } else { Err("no weight has changed".to_owned()) }
    }
}

/// Four volumes with a visible block, its label maps, classes and numbers.
pub struct Volumes {
    folder: tempfile::TempDir,
}

impl Volumes {
    /// Volumes of this size; 2-D images have a last axis of 1.
    pub fn new(size: [usize; 3]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut table = format!("image,label,class,{}\n", NUMBERS.join(","));
        let mut images = "image\n".to_owned();
        for case in 0..4 {
            let [x, y, z] = size;
            let inside = |i: usize| {
                let (x0, y0) = (case * x / 8, y / 4);
                (x0..x0 + x / 2).contains(&(i / (y * z))) && (y0..y0 + y / 2).contains(&(i / z % y))
            };
            let label = |i: usize| f32::from(u8::from(inside(i)));
            // Numbers without a pattern, the same in every run.
            let noise = |i: usize| ((i * 31 + case * 17) as f32 * 0.7).sin() * 0.25 + 0.25;
            write(&folder.path().join(format!("i{case}.nii")), size, |i| 0.5 * label(i) + noise(i));
            write(&folder.path().join(format!("l{case}.nii")), size, label);
            let numbers: Vec<String> = (0..8).map(|n| format!("{}", (n + case) as f32 / 12.0)).collect();
            table += &format!("i{case}.nii,l{case}.nii,{},{}\n", case % 2, numbers.join(","));
            images += &format!("i{case}.nii\n");
        }
        fs::write(folder.path().join("cases.csv"), table).expect("written");
        fs::write(folder.path().join("images.csv"), images).expect("written");
        Self { folder }
    }

    /// The list of cases; without labels if the label is made from the image.
    fn list(&self, recipe: &Table) -> PathBuf {
        let made = recipe["task"]["name"].as_str() == Some("Reconstruction");
        self.folder.path().join(if made { "images.csv" } else { "cases.csv" })
    }

    /// Runs a recipe on them.
    ///
    /// # Errors
    /// The error of the recipe's reader, the session or its run.
    pub fn run(&self, recipe: &Table) -> Result<Done, String> {
        let text = toml::to_string(recipe).map_err(|error| error.to_string())?;
        let at = |error: &dyn std::error::Error| {
            let causes = std::iter::successors(error.source(), |cause| cause.source());
            let causes: Vec<String> = causes.map(|cause| format!(": {cause}")).collect();
            format!("{error}{}\n{text}", causes.concat())
        };
        let document = Document::parse("small.toml", text.clone()).map_err(|error| at(&error))?;
        let plan = Plan::new(document).map_err(|error| at(&error))?;
        let mut session = Session::new(plan, &self.list(recipe), &[]).map_err(|error| at(&error))?;
        let out = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        session.start(&out.path().join("run")).map_err(|error| at(&error))?;
        let seen = Arc::new(Mutex::new((Vec::new(), Vec::new())));
        let noted = seen.clone();
        let trainer = session.trainer_mut();
        let before = trained(trainer, &out.path().join("before"));
        let note = move |cx: &mut hearth_engine::Context<'_>| {
            let (loss, rate) = (cx.host.output("loss")?, cx.host.learning_rate().unwrap_or(f64::NAN));
            let mut seen = noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            seen.0.push(loss);
            seen.1.push(rate);
            Ok(())
        };
        trainer.engine_mut().on(Event::LossCompleted, note).map_err(|error| at(&error))?;
        session.run().map_err(|error| at(&error))?;
        let trainer = session.trainer_mut();
        let changed = trained(trainer, &out.path().join("after")) != before;
        let metrics = trainer.engine().state().metrics.clone();
        let (losses, rates) = seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        Ok(Done { losses, rates, changed, metrics })
    }
}

fn write(path: &Path, [x, y, z]: [usize; 3], value: impl Fn(usize) -> f32) {
    let values = (0..x * y * z).map(value).collect();
    let image = Image::from_values(values, [1, x, y, z], affine::IDENTITY, &host_device());
    let image = image.with_spatial_dims(if z == 1 { 2 } else { 3 });
    write_nifti(path, &image, NiftiOptions::default()).expect("written");
}

/// The trained weights, in the order of their file; running statistics change without training.
fn trained(trainer: &mut dyn Train, folder: &Path) -> Vec<u8> {
    let checkpoint = trainer.save(folder, "step", None).expect("a checkpoint");
    let file = fs::read(checkpoint.join("network.safetensors")).expect("weights");
    let tensors = SafeTensors::deserialize(&file).expect("safetensors");
    let trains = |(name, _): &(String, _)| !name.contains("running_") && !name.contains("num_batches");
    tensors.tensors().into_iter().filter(trains).flat_map(|(_, tensor)| tensor.data().to_vec()).collect()
}
