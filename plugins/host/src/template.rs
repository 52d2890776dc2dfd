//! The templates of `hearth plugin new --template`: [`Template`].

use std::borrow::Cow;
use std::fmt;

/// A plugin that is useful as it is, and short enough to be modified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Template {
    /// Prints a line at the end of an epoch.
    #[default]
    Handler,
    /// Writes a run's numbers for Prometheus.
    MetricExporter,
    /// Ends a run whose metric does not improve.
    EarlyStop,
    /// Posts a message at the end of a run.
    Webhook,
    /// Draws image, label and prediction.
    Visualiser,
    /// Merges predictions by their median.
    EnsembleCombiner,
    /// Validates with an average of the weights.
    WeightAverage,
    /// A transform and a metric.
    Component,
    /// Searches a learning rate.
    LrFinder,
    /// Measures the noise of the gradients.
    NoiseScale,
    /// Draws the worst cases of a validation.
    WorstCases,
    /// Mixes the images of a batch.
    Mixup,
    /// A loss for borders.
    BoundaryLoss,
    /// A sampler by loss.
    HardCases,
    /// A writer of NRRD.
    NrrdWriter,
    /// Logs a run for MLflow.
    Mlflow,
    /// Logs a run for Weights & Biases.
    Wandb,
    /// [`Template::Handler`] in C.
    C,
    /// [`Template::Handler`] in C++.
    Cpp,
    /// [`Template::Handler`] in Python.
    Python,
}

/// The texts of a template, before names are filled in.
pub(crate) struct Texts {
    pub description: &'static str,
    pub source: Cow<'static, str>,
    pub test: Cow<'static, str>,
    /// Lines at the end of its README.
    pub more: &'static str,
}

macro_rules! texts {
    ($name:literal, $description:literal, $more:literal) => {
        Texts {
            description: $description,
            source: include_str!(concat!("../template/", $name, ".rs.in")).into(),
            test: include_str!(concat!("../template/", $name, "_test.rs.in")).into(),
            more: $more,
        }
    };
    // A module of the gallery, whose source is that of a crate but for its name.
    (gallery $module:literal, $word:literal, $description:literal, $more:literal) => {
        Texts {
            description: $description,
            source: include_str!(concat!("../../gallery/src/", $module, ".rs"))
                .replace(concat!("\"", $word, "\""), "\"{{name}}\"")
                .into(),
            test: include_str!(concat!("../../gallery/tests/rehearsal/", $module, ".rs"))
                .replace(concat!("hearth_gallery::", $module), "{{crate}}")
                .into(),
            more: $more,
        }
    };
}

impl Template {
    /// All templates.
    pub const ALL: [Template; 20] = [
        Template::Handler,
        Template::MetricExporter,
        Template::EarlyStop,
        Template::Webhook,
        Template::Visualiser,
        Template::EnsembleCombiner,
        Template::WeightAverage,
        Template::Component,
        Template::LrFinder,
        Template::NoiseScale,
        Template::WorstCases,
        Template::Mixup,
        Template::BoundaryLoss,
        Template::HardCases,
        Template::NrrdWriter,
        Template::Mlflow,
        Template::Wandb,
        Template::C,
        Template::Cpp,
        Template::Python,
    ];

    /// Whether it is a crate in Rust; otherwise it is a project with a Makefile.
    pub fn is_rust(self) -> bool {
        !matches!(self, Template::C | Template::Cpp | Template::Python)
    }

    /// The name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Template::Handler => "handler",
            Template::MetricExporter => "metric-exporter",
            Template::EarlyStop => "early-stop",
            Template::Webhook => "webhook",
            Template::Visualiser => "visualiser",
            Template::EnsembleCombiner => "ensemble-combiner",
            Template::WeightAverage => "weight-average",
            Template::Component => "component",
            Template::LrFinder => "lr-finder",
            Template::NoiseScale => "noise-scale",
            Template::WorstCases => "worst-cases",
            Template::Mixup => "mixup",
            Template::BoundaryLoss => "boundary-loss",
            Template::HardCases => "hard-cases",
            Template::NrrdWriter => "nrrd-writer",
            Template::Mlflow => "mlflow",
            Template::Wandb => "wandb",
            Template::C => "c",
            Template::Cpp => "cpp",
            Template::Python => "python",
        }
    }

    /// The purpose of a plugin made from it, in one line.
    pub fn description(self) -> &'static str {
        match self {
            Template::C => "prints a line at the end of an epoch, in C",
            Template::Cpp => "prints a line at the end of an epoch, in C++",
            Template::Python => "prints a line at the end of an epoch, in Python",
            _ => self.texts().description,
        }
    }

    pub(crate) fn texts(self) -> Texts {
        match self {
            // The others are not crates: see `c_project`.
            Template::Handler | Template::C | Template::Cpp | Template::Python => {
                texts!("handler", "prints a line at the end of an epoch", "")
            }
            Template::MetricExporter => texts!(
                "metric_exporter",
                "writes the numbers of a run for Prometheus",
                "\nPoint `node_exporter --collector.textfile.directory` at the folder of the option `file`.\n"
            ),
            Template::EarlyStop => texts!(
                "early_stop",
                "ends a run whose metric does not improve",
                "\nIt comes after `validation` in the recipe, and its count is part of checkpoints.\n"
            ),
            Template::Webhook => texts!(
                "webhook",
                "posts a message when a run is done or has failed",
                "\nIt posts with `curl`; the address is an option, and the list of processes does not show it.\n"
            ),
            Template::Visualiser => texts!(
                "visualiser",
                "draws image, label and prediction side by side",
                "\nPGM files open in most viewers; `convert NAME.pgm NAME.png` converts them.\n"
            ),
            Template::WeightAverage => texts!(
                "weight_average",
                "validates with an average of the weights",
                "\nThe recipe needs no plugin `validation`, whose metrics would be those of the weights in training.\n"
            ),
            Template::Component => texts!(
                "component",
                "adds a transform and a metric to recipes",
                "\nIn a recipe: `{ name = \"{{name}}.Smooth\", keys = [\"image\"] }` among the transforms, \
                 `name = \"{{name}}.Volume\"` as a metric.\n"
            ),
            Template::LrFinder => texts!(
                gallery "lr_finder",
                "lr-finder",
                "searches a learning rate, and ends the run",
                "\nAdd it to a short run: `hearth train RECIPE --plugin LIBRARY ...`. The curve is in its `attachments`.\n"
            ),
            Template::NoiseScale => texts!(
                gallery "noise_scale",
                "noise-scale",
                "measures the noise of the gradients",
                "\nTensorBoard shows the curve `noise/scale`, in images per step.\n"
            ),
            Template::WorstCases => texts!(
                gallery "worst_cases",
                "worst-cases",
                "draws the worst cases of each validation",
                "\nIn a recipe its entry has `engine = \"validation\"`; the pictures are in `validation/attachments`.\n"
            ),
            Template::Mixup => texts!(
                gallery "mixup",
                "mixup",
                "mixes each image of a batch with another one",
                "\nLabels need a channel for each class, or one channel of 0 and 1 with a loss of a sigmoid.\n"
            ),
            Template::BoundaryLoss => texts!(
                gallery "boundary_loss",
                "boundary-loss",
                "adds a loss for borders to recipes",
                "\nIn a recipe: `[loss]`, `name = \"{{name}}.Boundary\"`, `weight = 0.01`.\n"
            ),
            Template::HardCases => texts!(
                gallery "hard_cases",
                "hard-cases",
                "adds a sampler that draws cases with a high loss more often",
                "\nIn a recipe: `[data]`, `sampler = { name = \"{{name}}.ByLoss\" }`.\n"
            ),
            Template::NrrdWriter => texts!(
                gallery "nrrd_writer",
                "nrrd-writer",
                "adds a writer of NRRD with a separate header",
                "\n`hearth data convert --writer {{name}}.Nhdr`, and `writer = \"{{name}}.Nhdr\"` of `SaveImage`.\n"
            ),
            Template::Mlflow => texts!(
                gallery "mlflow",
                "mlflow",
                "logs a run in the files of MLflow",
                "\nSince MLflow 3: `MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri mlruns`.\n"
            ),
            Template::Wandb => texts!(
                gallery "wandb",
                "wandb",
                "writes an offline run of Weights & Biases",
                "\n`wandb sync RUN/attachments/{{name}}/offline-run-ID` uploads it.\n"
            ),
            Template::EnsembleCombiner => texts!(
                "ensemble_combiner",
                "merges predictions of several networks by their median",
                "\n`hearth ensemble` and `hearth evaluate` of several runs use the first plugin called `ensemble` that they \
                 find:\n`hearth plugin new ensemble --template ensemble-combiner` takes the place of the bundled one.\n"
            ),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
