//! A Hearth plugin that mixes each image of a batch, and its label, with another one (Zhang et al. 2018, "mixup:
//! Beyond empirical risk minimization"). Labels are one-hot or probabilities.

use hearth_plugin::component::Draw;
use hearth_plugin::{Context, Event, Fault, Handler, HandlerError, HostTensor, When, export_plugin, options};

options! {
    /// Options in a recipe.
    pub struct Options {
        /// The shape of the distribution of weights, Beta(alpha, alpha): small values mix little.
        alpha: f64 = 0.2,
        /// The tensors: the image, then what is mixed with the same weights.
        keys: Vec<String> = ["image", "label"].map(String::from).to_vec(),
    }
}

/// Mixes the batch before the network sees it.
pub struct Mixup(Options);

impl Mixup {
    /// The handler with these options; fails if one is out of its range.
    pub fn new(options: Options) -> Result<Self, Fault> {
        match options {
            Options { alpha, .. } if !(alpha > 0.0 && alpha <= 2.0) => Err(Fault::at("alpha", "above 0, up to 2")),
            options => Ok(Self(options)),
        }
    }

    /// A number of Beta(alpha, alpha), by Johnk's method.
    fn weight(&self, draw: &mut Draw) -> f32 {
        loop {
            let [x, y] = [(); 2].map(|()| draw.uniform().powf(1.0 / self.0.alpha));
            if x + y > 0.0 && x + y <= 1.0 {
                return (x / (x + y)) as f32;
            }
        }
    }
}

impl Handler for Mixup {
    fn name(&self) -> &str {
        "mixup"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationStarted.into()]
    }

    fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        // A resumed run draws the same numbers.
        let seed = cx.state.seed ^ u64::from(cx.state.rank) << 48;
        let mut draw = Draw::new(seed.wrapping_add(cx.state.iteration << 24));
        let mut pairs: Vec<(usize, f32)> = Vec::new();
        for (index, name) in self.0.keys.iter().enumerate() {
            let tensor = cx.host.tensor(name)?;
            let (shape, old) = (tensor.shape.clone(), tensor.to_f32()?);
            if index == 0 {
                let mut others: Vec<usize> = (0..shape.first().copied().unwrap_or(0)).collect();
                draw.shuffle(&mut others);
                pairs = others.into_iter().map(|other| (other, self.weight(&mut draw))).collect();
            } else if let Some(value) = old.iter().find(|value| !(0.0..=1.0).contains(*value)) {
                let what = format!("`{name}` has the value {value}; class numbers cannot be mixed: make them one-hot");
                return Err(HandlerError::new(what));
            }
            if shape.first() != Some(&pairs.len()) || old.is_empty() {
                return Err(HandlerError::new(format!("`{name}` has shape {shape:?}, for {} images", pairs.len())));
            }
            let items: Vec<&[f32]> = old.chunks(old.len() / pairs.len()).collect();
            let mixed = items.iter().zip(&pairs).flat_map(|(item, (other, weight))| {
                item.iter().zip(items[*other]).map(move |(a, b)| weight * a + (1.0 - weight) * b)
            });
            cx.host.put_tensor(name, HostTensor::from_f32(shape, &mixed.collect::<Vec<f32>>())?)?;
        }
        Ok(())
    }
}

export_plugin!("mixup", Options, Mixup::new, needs: [CHANGES_RUN]);
