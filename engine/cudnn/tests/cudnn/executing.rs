//! Results of the wrapper, compared with plain convolutions.

use std::ffi::c_void;
use std::ptr;

use hearth_cudnn::{
    Activation, Convolution, Direction, Disagreement, Element, Epilogue, Error, Fallback, GpuDescription, Layout,
    Operands, Options, Plan, Target, Tolerance, Transposed, TransposedAxis, Workspace, agree, plan,
};

use crate::layers::{DIRECTIONS, cube, small, variants};
use crate::reference::{Encoding, Tensor, compute, follow, sizes};
use crate::stand_in::StandIn;

/// Memory that is aligned as on a GPU.
struct Memory {
    blocks: Vec<u128>,
    bytes: usize,
}

impl Memory {
    fn of(bytes: &[u8]) -> Self {
        let mut memory = Memory { blocks: vec![0; bytes.len().div_ceil(16)], bytes: bytes.len() };
        for (block, bytes) in memory.blocks.iter_mut().zip(bytes.chunks(16)) {
            let mut whole = [0; 16];
            whole[..bytes.len()].copy_from_slice(bytes);
            *block = u128::from_ne_bytes(whole);
        }
        memory
    }

    fn address(&mut self) -> *mut c_void {
        self.blocks.as_mut_ptr().cast()
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.blocks.iter().flat_map(|block| block.to_ne_bytes()).collect();
        bytes.truncate(self.bytes);
        bytes
    }
}

/// The operands of a convolution; the one that is computed is not read.
pub struct Given {
    pub input: Tensor,
    pub filter: Tensor,
    pub output: Tensor,
    pub bias: Option<Tensor>,
}

impl Given {
    pub fn drawn(convolution: &Convolution) -> Self {
        let sizes = sizes(convolution);
        let channels = match convolution.direction {
            Direction::DataGradient => convolution.channels_in,
            _ => convolution.channels_out,
        };
        let bias = convolution.epilogue.is_some_and(|epilogue| epilogue.bias);
        Given {
            input: Tensor::drawn(sizes.input, 1),
            filter: Tensor::drawn(sizes.filter, 2),
            output: Tensor::drawn(sizes.output, 3),
            bias: bias.then(|| Tensor::drawn([1, channels, 1, 1, 1], 4)),
        }
    }
}

/// Executes a plan over the stand-in on the host's memory, and returns the result's bytes.
pub fn execute(plan: &Plan, given: &Given, stream: *mut c_void) -> Result<Vec<u8>, Error> {
    let convolution = plan.convolution();
    let encoding = Encoding { layout: convolution.layout, element: convolution.element };
    let [mut input, mut filter, mut output] =
        [&given.input, &given.filter, &given.output].map(|tensor| Memory::of(&encoding.encode(tensor)));
    let mut bias = given.bias.as_ref().map(|bias| Memory::of(&encoding.encode(bias)));
    let operands = Operands {
        input: input.address(),
        filter: filter.address(),
        output: output.address(),
        bias: bias.as_mut().map(Memory::address),
    };
    let bytes = plan.workspace_bytes();
    let mut workspace = Memory::of(&vec![0; usize::try_from(bytes).expect("a size")]);
    // SAFETY: the stand-in computes on the host's memory before it returns; the tensors have the
    // sizes of the convolution, and the workspace its bytes.
    unsafe { plan.execute(stream, &operands, Workspace { address: workspace.address(), bytes }) }?;
    Ok(match convolution.direction {
        Direction::Forward => output.read(),
        Direction::DataGradient => input.read(),
        Direction::FilterGradient => filter.read(),
    })
}

/// Small workspaces, so that tests do not fill 64 MiB for each layer.
fn options() -> Options {
    Options { workspace_limit: 1 << 20, ..Options::default() }
}

fn result(target: &Target, convolution: &Convolution, given: &Given) -> Tensor {
    let plan = plan(target, convolution, &options()).expect("a plan");
    let bytes = execute(&plan, given, ptr::null_mut()).unwrap_or_else(|error| panic!("{convolution}: {error}"));
    let (sizes, encoding) = (sizes(convolution), Encoding { layout: convolution.layout, element: convolution.element });
    encoding.decode(
        &bytes,
        match convolution.direction {
            Direction::Forward => sizes.output,
            Direction::DataGradient => sizes.input,
            Direction::FilterGradient => sizes.filter,
        },
    )
}

/// A tensor after rounding to the convolution's type.
fn rounded(convolution: &Convolution, tensor: &Tensor) -> Tensor {
    let encoding = Encoding { layout: convolution.layout, element: convolution.element };
    encoding.decode(&encoding.encode(tensor), tensor.sizes)
}

#[test]
fn every_direction_layout_and_type_is_right() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    let mut count = 0;
    for convolution in small().iter().flat_map(variants) {
        let given = Given::drawn(&convolution);
        let expected = compute(&convolution, &given.input, &given.filter, &given.output);
        let got = result(&target, &convolution, &given);
        // The sums of small eighths are exact.
        assert_eq!(got.values, rounded(&convolution, &expected).values, "{convolution}");
        count += 1;
    }
    assert_eq!((count, stand_in.count("executions")), (9 * 18, 9 * 18));
    drop(target);
    stand_in.is_clean();
}

#[test]
fn bias_and_activation_follow_the_convolution() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    let leaky = Activation::LeakyRelu(0.25.into());
    for (bias, activation) in [
        (true, None),
        (false, Some(Activation::Relu)),
        (true, Some(Activation::Relu)),
        (true, Some(leaky)),
        (false, Some(leaky)),
        (false, None),
    ] {
        let layer = Convolution { epilogue: Some(Epilogue { bias, activation }), ..cube([2, 3, 4, 4, 3, 1]) };
        let followed = variants(&layer).into_iter().filter(|layer| layer.direction != Direction::FilterGradient);
        for convolution in followed {
            let given = Given::drawn(&convolution);
            let mut expected = compute(&convolution, &given.input, &given.filter, &given.output);
            follow(&mut expected, given.bias.as_ref().map(|bias| bias.values.as_slice()), activation);
            let got = result(&target, &convolution, &given);
            assert_eq!(got.values, rounded(&convolution, &expected).values, "{convolution} {activation:?}");
        }
    }
    drop(target);
    stand_in.is_clean();
}

/// A transposed convolution by its definition: each input adds a copy of the filter to the output.
fn transposed(layer: &Transposed, input: &Tensor, filter: &Tensor) -> Tensor {
    let out: Vec<usize> = layer.axes.iter().map(|axis| axis.output().expect("a size")).collect();
    let mut output = Tensor::zeros([layer.batch, layer.channels_out, out[0], out[1], out[2]]);
    let (inputs, outputs) = (layer.channels_in / layer.groups, layer.channels_out / layer.groups);
    for [image, from, x, y, z] in input.places() {
        for tap in filter.places().into_iter().filter(|tap| tap[0] == from) {
            let at: Vec<Option<usize>> = [x, y, z]
                .into_iter()
                .zip([tap[2], tap[3], tap[4]])
                .zip(&layer.axes)
                .map(|((place, tap), axis)| (place * axis.stride + tap * axis.dilation).checked_sub(axis.padding))
                .collect();
            let [Some(a), Some(b), Some(c)] = at[..] else { continue };
            if a >= out[0] || b >= out[1] || c >= out[2] {
                continue;
            }
            let place = [image, from / inputs * outputs + tap[1], a, b, c];
            let sum = output.at(place) + input.at([image, from, x, y, z]) * filter.at(tap);
            output.set(place, sum);
        }
    }
    output
}

#[test]
fn transposed_convolutions_are_gradients() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    let axis = |size, kernel, stride, padding, output_padding| TransposedAxis {
        size,
        kernel,
        stride,
        padding,
        dilation: 1,
        output_padding,
    };
    let layer = |channels_in, channels_out, groups, axes: [TransposedAxis; 3], layout| Transposed {
        batch: 2,
        channels_in,
        channels_out,
        axes: axes.to_vec(),
        groups,
        layout,
        element: Element::F32,
        epilogue: None,
    };
    for layer in [
        layer(4, 3, 1, [axis(3, 2, 2, 0, 0); 3], Layout::ChannelsLast),
        layer(4, 6, 2, [axis(3, 3, 2, 1, 1), axis(2, 1, 1, 0, 0), axis(3, 3, 2, 1, 0)], Layout::ChannelsFirst),
    ] {
        let of = |direction| layer.convolution(direction).expect("right");
        let shapes = sizes(&of(Direction::Forward));
        // The places of input and output are exchanged.
        let (input, filter) = (Tensor::drawn(shapes.output, 5), Tensor::drawn(shapes.filter, 6));
        let gradient = Tensor::drawn(shapes.input, 7);
        let expected = transposed(&layer, &input, &filter);
        let given = |output: &Tensor, data: &Tensor| Given {
            input: data.clone(),
            filter: filter.clone(),
            output: output.clone(),
            bias: None,
        };
        let got = result(&target, &of(Direction::Forward), &given(&input, &gradient));
        assert_eq!((got.sizes, &got.values), (expected.sizes, &expected.values), "{layer:?}");
        // The gradients by their definition: the layer is linear in its input and in its filter.
        let product = |a: &Tensor, b: &Tensor| -> f64 { a.values.iter().zip(&b.values).map(|(a, b)| a * b).sum() };
        let whole = product(&expected, &gradient);
        let data = result(&target, &of(Direction::DataGradient), &given(&input, &gradient));
        assert_eq!((data.sizes, product(&data, &input)), (input.sizes, whole), "{layer:?}");
        let weights = result(&target, &of(Direction::FilterGradient), &given(&input, &gradient));
        assert_eq!((weights.sizes, product(&weights, &filter)), (filter.sizes, whole), "{layer:?}");
    }
    drop(target);
    stand_in.is_clean();
}

#[test]
fn a_plan_runs_on_the_stream_that_is_given() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    let layer = cube([1, 2, 2, 3, 3, 1]);
    let made = plan(&target, &layer, &options()).expect("a plan");
    for stream in [0x1230, 0x4560] {
        execute(&made, &Given::drawn(&layer), ptr::without_provenance_mut(stream)).expect("a result");
        assert_eq!(usize::try_from(stand_in.count("stream")), Ok(stream));
        assert_eq!(stand_in.count("engine"), made.engine());
    }
    // The engine with a workspace: the stand-in writes its ends.
    let large = plan(&target, &layer, &Options { tf32: true, ..options() }).expect("a plan");
    assert_eq!(large.workspace_bytes(), 1 << 20);
    execute(&large, &Given::drawn(&layer), ptr::null_mut()).expect("a result");
    assert_eq!(stand_in.count("engine"), large.engine());
    drop((target, made, large));
    stand_in.is_clean();
}

#[test]
fn threads_share_a_plan() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    let layer = cube([1, 2, 2, 3, 3, 1]);
    let made = plan(&target, &layer, &options()).expect("a plan");
    let given = Given::drawn(&layer);
    let expected = execute(&made, &given, ptr::null_mut()).expect("a result");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(execute(&made, &given, ptr::null_mut()), Ok(expected.clone()));
                    plan(&target, &layer, &options()).expect("a plan");
                }
            });
        }
    });
    assert_eq!(stand_in.count("executions"), 81);
    drop((target, made));
    stand_in.is_clean();
}

#[test]
fn wrong_operands_are_refused_before_the_library_sees_them() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    let layer = cube([1, 2, 2, 3, 3, 1]);
    let made = plan(&target, &layer, &Options { tf32: true, ..options() }).expect("a plan");
    let at = ptr::without_provenance_mut::<c_void>;
    let good = Operands { input: at(0x100), filter: at(0x200), output: at(0x300), bias: None };
    let workspace = Workspace { address: at(0x400), bytes: 1 << 20 };
    let calls = stand_in.count("calls");
    let refused = |plan: &Plan, operands: Operands, workspace: Workspace| {
        // SAFETY: each of these calls is refused before an address is used.
        unsafe { plan.execute(ptr::null_mut(), &operands, workspace) }.expect_err("wrong")
    };
    let address = |operand: &str, error: Error, number: usize| match error {
        Error::Address { operand: named, address, .. } => assert_eq!((named, address), (operand, number)),
        other => panic!("{operand}: {other}"),
    };
    address("the input", refused(&made, Operands { input: ptr::null_mut(), ..good }, workspace), 0);
    address("the filter", refused(&made, Operands { filter: at(0x204), ..good }, workspace), 0x204);
    address("the output", refused(&made, Operands { output: at(0x308), ..good }, workspace), 0x308);
    address("the bias", refused(&made, Operands { bias: Some(at(0x500)), ..good }, workspace), 0x500);
    address("the workspace", refused(&made, good, Workspace { address: ptr::null_mut(), ..workspace }), 0);
    let error = refused(&made, good, Workspace::NONE);
    assert_eq!(error, Error::Workspace { needed: 1 << 20, given: 0 });
    assert_eq!(stand_in.count("calls"), calls);
    let biased = Convolution { epilogue: Some(Epilogue { bias: true, activation: None }), ..layer.clone() };
    let biased = plan(&target, &biased, &options()).expect("a plan");
    address("the bias", refused(&biased, good, Workspace::NONE), 0);
    let described = Target::described(&stand_in.open(), &GpuDescription::default()).expect("a target");
    let planned = plan(&described, &layer, &options()).expect("a plan");
    assert_eq!(refused(&planned, good, workspace), Error::NotExecutable { gpu: "H100".into() });
    drop((target, made, biased, described, planned));
    stand_in.is_clean();
}

#[test]
fn a_wrong_result_is_noticed() {
    let stand_in = StandIn::new();
    let target = stand_in.target().expect("a handle");
    for direction in DIRECTIONS {
        for element in [Element::F32, Element::Bf16, Element::F16] {
            let layer = Convolution { direction, element, ..cube([1, 2, 2, 3, 3, 1]) };
            let given = Given::drawn(&layer);
            let singles = |tensor: &Tensor| tensor.values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
            let ours = singles(&compute(&layer, &given.input, &given.filter, &given.output));
            let tolerance = Tolerance::of(element, false, 2 * 27);
            stand_in.tell("wrong", 0);
            assert_eq!(agree(&ours, &singles(&result(&target, &layer, &given)), tolerance), Ok(()), "{layer}");
            stand_in.tell("wrong", 1);
            let wrong = agree(&ours, &singles(&result(&target, &layer, &given)), tolerance).expect_err("wrong");
            assert!(matches!(wrong, Disagreement::Values { index: 0, count: 1, .. }), "{layer}: {wrong}");
            let fallback = Fallback::Wrong { convolution: layer.to_string(), disagreement: wrong };
            assert!(fallback.to_string().contains("wrongly: 1 of "), "{fallback}");
        }
    }
    drop(target);
    stand_in.is_clean();
}
