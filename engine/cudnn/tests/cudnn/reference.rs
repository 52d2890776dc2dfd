//! Plain convolutions, each direction by its own definition, in f64 on images without layouts.

use hearth_cudnn::{Activation, Axis, Convolution, Direction, Element, Layout};

/// A tensor in the order batch, channels, three spatial axes.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub sizes: [usize; 5],
    pub values: Vec<f64>,
}

impl Tensor {
    pub fn zeros(sizes: [usize; 5]) -> Self {
        Tensor { sizes, values: vec![0.0; sizes.iter().product()] }
    }

    /// Small multiples of 1/8, which every type holds exactly.
    pub fn drawn(sizes: [usize; 5], seed: usize) -> Self {
        let count = sizes.iter().product();
        let mut state = seed as u64 * 2 + 1;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % 33) as f64 / 8.0 - 2.0
        };
        Tensor { sizes, values: (0..count).map(|_| draw()).collect() }
    }

    fn index(&self, at: [usize; 5]) -> usize {
        at.iter().zip(self.sizes).fold(0, |index, (place, size)| index * size + place)
    }

    pub fn at(&self, at: [usize; 5]) -> f64 {
        self.values[self.index(at)]
    }

    pub fn set(&mut self, at: [usize; 5], value: f64) {
        let index = self.index(at);
        self.values[index] = value;
    }

    /// All places, the last axis fastest.
    pub fn places(&self) -> Vec<[usize; 5]> {
        let sizes = self.sizes;
        let place = |mut index: usize| {
            let mut at = [0; 5];
            for axis in (0..5).rev() {
                at[axis] = index % sizes[axis];
                index /= sizes[axis];
            }
            at
        };
        (0..self.values.len()).map(place).collect()
    }
}

/// The sizes of the tensors, with axes that a two-dimensional image lacks of size 1.
pub struct Sizes {
    pub input: [usize; 5],
    pub filter: [usize; 5],
    pub output: [usize; 5],
}

fn three(axes: &[Axis]) -> [Axis; 3] {
    let mut all = [Axis { size: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 }; 3];
    all[..axes.len()].copy_from_slice(axes);
    all
}

pub fn sizes(convolution: &Convolution) -> Sizes {
    let Convolution { batch, channels_in, channels_out, groups, .. } = *convolution;
    let [a, b, c] = three(&convolution.axes);
    let out = |axis: Axis| axis.output().expect("an output");
    Sizes {
        input: [batch, channels_in, a.size, b.size, c.size],
        filter: [channels_out, channels_in / groups, a.kernel, b.kernel, c.kernel],
        output: [batch, channels_out, out(a), out(b), out(c)],
    }
}

/// The input's place under a tap of the filter at a place of the output, if it is inside.
fn under(axis: Axis, output: usize, tap: usize) -> Option<usize> {
    let at = output * axis.stride + tap * axis.dilation;
    at.checked_sub(axis.padding).filter(|at| *at < axis.size)
}

/// The output's place whose tap is over a place of the input, if there is one.
fn over(axis: Axis, input: usize, tap: usize) -> Option<usize> {
    let from = (input + axis.padding).checked_sub(tap * axis.dilation)?;
    let output = from / axis.stride;
    (from.is_multiple_of(axis.stride) && output < axis.output().expect("an output")).then_some(output)
}

/// The taps of a filter.
fn taps(axes: [Axis; 3]) -> Vec<[usize; 3]> {
    let [a, b, c] = axes.map(|axis| axis.kernel);
    (0..a).flat_map(|i| (0..b).flat_map(move |j| (0..c).map(move |k| [i, j, k]))).collect()
}

/// The result of the convolution's direction; that which it computes is not read.
pub fn compute(convolution: &Convolution, input: &Tensor, filter: &Tensor, output: &Tensor) -> Tensor {
    let axes = three(&convolution.axes);
    let groups = convolution.groups;
    let (inputs, outputs) = (convolution.channels_in / groups, convolution.channels_out / groups);
    let inside = |places: [Option<usize>; 3]| Some([places[0]?, places[1]?, places[2]?]);
    let mut result = match convolution.direction {
        Direction::Forward => Tensor::zeros(output.sizes),
        Direction::DataGradient => Tensor::zeros(input.sizes),
        Direction::FilterGradient => Tensor::zeros(filter.sizes),
    };
    for place in result.places() {
        let [first, second, x, y, z] = place;
        let mut sum = 0.0;
        match convolution.direction {
            Direction::Forward => {
                for [i, j, k] in taps(axes) {
                    let under = [under(axes[0], x, i), under(axes[1], y, j), under(axes[2], z, k)];
                    let Some([a, b, c]) = inside(under) else { continue };
                    for channel in 0..inputs {
                        let from = second / outputs * inputs + channel;
                        sum += input.at([first, from, a, b, c]) * filter.at([second, channel, i, j, k]);
                    }
                }
            }
            Direction::DataGradient => {
                for [i, j, k] in taps(axes) {
                    let over = [over(axes[0], x, i), over(axes[1], y, j), over(axes[2], z, k)];
                    let Some([a, b, c]) = inside(over) else { continue };
                    for channel in 0..outputs {
                        let from = second / inputs * outputs + channel;
                        sum += output.at([first, from, a, b, c]) * filter.at([from, second % inputs, i, j, k]);
                    }
                }
            }
            Direction::FilterGradient => {
                let from = first / outputs * inputs + second;
                for [image, channel, a, b, c] in output.places().into_iter().filter(|at| at[1] == first) {
                    let under = [under(axes[0], a, x), under(axes[1], b, y), under(axes[2], c, z)];
                    let Some([i, j, k]) = inside(under) else { continue };
                    sum += input.at([image, from, i, j, k]) * output.at([image, channel, a, b, c]);
                }
            }
        }
        result.set(place, sum);
    }
    result
}

/// Adds a bias and applies the activation.
pub fn follow(result: &mut Tensor, bias: Option<&[f64]>, activation: Option<Activation>) {
    for (place, value) in result.places().into_iter().zip(&mut result.values) {
        *value += bias.map_or(0.0, |bias| bias[place[1]]);
        let slope = match activation {
            None => 1.0,
            Some(Activation::Relu) => 0.0,
            Some(Activation::LeakyRelu(slope)) => f64::from(f32::from(slope)),
        };
        *value *= if *value < 0.0 { slope } else { 1.0 };
    }
}

/// The bytes of a tensor in a layout, and back.
pub struct Encoding {
    pub layout: Layout,
    pub element: Element,
}

impl Encoding {
    /// The places in the order of memory.
    fn order(&self, tensor: &Tensor) -> Vec<[usize; 5]> {
        let mut places = tensor.places();
        if self.layout == Layout::ChannelsLast {
            places.sort_by_key(|[batch, channel, x, y, z]| [*batch, *x, *y, *z, *channel]);
        }
        places
    }

    fn width(&self) -> usize {
        if self.element == Element::F32 { 4 } else { 2 }
    }

    pub fn encode(&self, tensor: &Tensor) -> Vec<u8> {
        let bytes = |value: f64| match self.element {
            Element::F32 => (value as f32).to_le_bytes().to_vec(),
            Element::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
            Element::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        };
        self.order(tensor).into_iter().flat_map(|place| bytes(tensor.at(place))).collect()
    }

    pub fn decode(&self, bytes: &[u8], sizes: [usize; 5]) -> Tensor {
        let value = |bytes: &[u8]| match (self.element, bytes) {
            (Element::F32, [a, b, c, d]) => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
            (Element::Bf16, [a, b]) => half::bf16::from_le_bytes([*a, *b]).to_f64(),
            (Element::F16, [a, b]) => half::f16::from_le_bytes([*a, *b]).to_f64(),
            _ => panic!("{bytes:?}"),
        };
        let mut tensor = Tensor::zeros(sizes);
        for (place, bytes) in self.order(&tensor).into_iter().zip(bytes.chunks(self.width())) {
            tensor.set(place, value(bytes));
        }
        tensor
    }
}

#[test]
fn a_convolution_that_was_computed_by_hand() {
    let axis = Axis { size: 3, kernel: 2, stride: 1, padding: 0, dilation: 1 };
    let layer = Convolution {
        direction: Direction::Forward,
        batch: 1,
        channels_in: 1,
        channels_out: 1,
        axes: vec![axis, Axis { size: 1, kernel: 1, ..axis }],
        groups: 1,
        layout: Layout::ChannelsFirst,
        element: Element::F32,
        epilogue: None,
    };
    let of = |sizes: [usize; 5], values: &[f64]| Tensor { sizes, values: values.to_vec() };
    let (input, filter) = (of([1, 1, 3, 1, 1], &[1.0, 2.0, 4.0]), of([1, 1, 2, 1, 1], &[10.0, 1.0]));
    let output = of([1, 1, 2, 1, 1], &[1.0, 100.0]);
    let computed = |direction| compute(&Convolution { direction, ..layer.clone() }, &input, &filter, &output).values;
    assert_eq!(computed(Direction::Forward), [12.0, 24.0]);
    assert_eq!(computed(Direction::DataGradient), [10.0, 1001.0, 100.0]);
    assert_eq!(computed(Direction::FilterGradient), [201.0, 402.0]);
}
