//! The templates of `hearth plugin new --template`: [`Template`].

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
    pub source: &'static str,
    pub test: &'static str,
    /// Lines at the end of its README.
    pub more: &'static str,
}

macro_rules! texts {
    ($name:literal, $description:literal, $more:literal) => {
        Texts {
            description: $description,
            source: include_str!(concat!("../template/", $name, ".rs.in")),
            test: include_str!(concat!("../template/", $name, "_test.rs.in")),
            more: $more,
        }
    };
}

impl Template {
    /// All templates.
    pub const ALL: [Template; 11] = [
        Template::Handler,
        Template::MetricExporter,
        Template::EarlyStop,
        Template::Webhook,
        Template::Visualiser,
        Template::EnsembleCombiner,
        Template::WeightAverage,
        Template::Component,
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
