//! The plugin `ensemble`: when all networks of an ensemble evaluator have predicted, it combines
//! their predictions on the device, like MONAI's `MeanEnsemble` and `VoteEnsemble`.

#![forbid(unsafe_code)]

use hearth_plugin::{Combine, Context, Event, Fault, Handler, HandlerError, When, export_plugin, nearest, options};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// The predictions: `pred_0`, `pred_1`, ...
        pred_keys: Vec<String>,
        /// `mean` or `vote`.
        method: String = "mean".into(),
        /// For `mean`: one weight for each prediction, or for each prediction and channel,
        /// prediction by prediction; they need not sum to 1.
        weights: Option<Vec<f64>> = None,
        /// For `vote`: the number of classes of single-channel class maps; without it the mean is
        /// rounded.
        num_classes: Option<usize> = None,
        /// The name of the combined prediction.
        output: String = "pred".into(),
    }
}

/// Combines predictions.
#[derive(Clone, Debug)]
pub struct Ensemble {
    inputs: Vec<String>,
    how: Combine,
    output: String,
}

impl Ensemble {
    /// The handler with these options.
    ///
    /// # Errors
    /// If there is no prediction, the method is unknown, or an option belongs to another method.
    pub fn new(options: Options) -> Result<Self, Fault> {
        let Options { pred_keys: inputs, method, weights, num_classes, output } = options;
        if inputs.is_empty() {
            let what = "`pred_keys` is empty; name the predictions, as in [\"pred_0\", \"pred_1\"]";
            return Err(Fault::at("pred_keys", what));
        }
        let how = match (method.as_str(), &weights, num_classes) {
            ("mean", None, None) => Combine::Mean { weights: None },
            ("mean", Some(list), None) => {
                let channels = list.len() / inputs.len();
                if channels == 0 || list.len() != channels * inputs.len() {
                    let (weights, keys) = (list.len(), inputs.len());
                    let advice = "give one for each, or one for each channel of each";
                    return Err(Fault::at("weights", format!("{weights} `weights` for {keys} `pred_keys`; {advice}")));
                }
                let sum = |channel: usize| list.iter().skip(channel).step_by(channels).sum::<f64>();
                if list.iter().any(|weight| !weight.is_finite()) || (0..channels).any(|channel| sum(channel) == 0.0) {
                    let what = format!("`weights` {list:?} must be finite, and must not sum to 0");
                    return Err(Fault::at("weights", what));
                }
                Combine::Mean { weights }
            }
            ("mean", _, Some(_)) => return Err(Fault::at("num_classes", "`num_classes` is for method = \"vote\"")),
            ("vote", None, Some(0 | 1)) => return Err(Fault::at("num_classes", "`num_classes` must be 2 or more")),
            ("vote", None, _) => Combine::Vote { num_classes },
            ("vote", Some(_), _) => return Err(Fault::at("weights", "`weights` are for method = \"mean\"")),
            (other, ..) => {
                let what = format!("unknown method `{other}`; use \"mean\" or \"vote\"");
                return Err(Fault::at("method", what).meaning(nearest(other, ["mean", "vote"])));
            }
        };
        Ok(Self { inputs, how, output })
    }
}

impl Handler for Ensemble {
    fn name(&self) -> &str {
        "ensemble"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::ForwardCompleted.into()]
    }

    fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let inputs = self.inputs.iter().map(String::as_str).collect::<Vec<_>>();
        cx.host.combine(&inputs, &self.how, &self.output)?;
        Ok(())
    }
}

export_plugin!("ensemble", Options, Ensemble::new, needs: [CHANGES_RUN]);
