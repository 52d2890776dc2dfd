//! Plans by the real cuDNN for GPUs that are not there: what it needs is `HEARTH_CUDNN`, a folder
//! with the unpacked wheels `nvidia-cudnn-cu13`, `nvidia-cuda-nvrtc` and `nvidia-cublas`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use hearth_cudnn::{
    Activation, Convolution, Direction, Element, Epilogue, Error, GpuDescription, Handle, Layout, Library, Options,
    Plan, Search, Target, Transposed, TransposedAxis, Why, plan,
};
use libloading::os::unix::{Library as Global, RTLD_GLOBAL, RTLD_NOW};

use crate::layers::{ELEMENTS, LAYOUTS, OF_NETWORKS, cube, variants};

/// Loads a driver: the machine's, or the one of `driver.c`, which has no device.
fn driver(folder: &Path) {
    // SAFETY: the driver's initializers set up its own state.
    let open = |file: &Path| unsafe { Global::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
    let library = open(Path::new("libcuda.so.1")).unwrap_or_else(|_| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cudnn/driver.c");
        let file = folder.join("libcuda.so.1");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&file).arg(&source);
        assert!(cc.status().expect("a C compiler").success());
        open(&file).expect("the driver")
    });
    std::mem::forget(library);
}

fn library() -> Arc<Library> {
    let folder = tempfile::tempdir().expect("a folder");
    driver(folder.path());
    let search = Search::standard();
    assert!(search.named.is_some(), "set HEARTH_CUDNN to a folder with cuDNN's wheels (CONTRIBUTING.md)");
    Library::open(&search).unwrap_or_else(|error| panic!("{error}"))
}

fn gpu(name: &str) -> GpuDescription {
    let a100 = GpuDescription {
        name: name.to_owned(),
        capability: (8, 0),
        multiprocessors: 108,
        shared_bytes: 166_912,
        clock_khz: 1_410_000,
        memory_clock_khz: 1_593_000,
        cache_bytes: 41_943_040,
        ..GpuDescription::default()
    };
    match name {
        "A100" => a100,
        "RTX 3090" => GpuDescription {
            capability: (8, 6),
            multiprocessors: 82,
            shared_bytes: 101_376,
            memory_bytes: 25_300_000_000,
            blocks: 16,
            threads: 1536,
            clock_khz: 1_695_000,
            memory_clock_khz: 9_751_000,
            memory_bits: 384,
            cache_bytes: 6_291_456,
            ..a100
        },
        "T4" => GpuDescription {
            capability: (7, 5),
            multiprocessors: 40,
            shared_bytes: 65536,
            memory_bytes: 15_800_000_000,
            blocks: 16,
            threads: 1024,
            clock_khz: 1_590_000,
            memory_clock_khz: 5_001_000,
            memory_bits: 256,
            cache_bytes: 4_194_304,
            ..a100
        },
        _ => GpuDescription {
            name: name.to_owned(),
            memory_bytes: 150_754_820_096,
            memory_clock_khz: 3_201_000,
            memory_bits: 6144,
            cache_bytes: 62_914_560,
            ..GpuDescription::default()
        },
    }
}

/// The layers of networks in all directions, layouts and types.
fn layers() -> Vec<Convolution> {
    OF_NETWORKS.into_iter().flat_map(|layer| variants(&cube(layer))).collect()
}

#[test]
#[ignore = "needs the wheels of cuDNN: HEARTH_CUDNN"]
fn real_cudnn_plans_the_layers_of_networks() {
    let library = library();
    let options = Options::default();
    for name in ["H200", "A100", "RTX 3090", "T4"] {
        let target = Target::described(&library, &gpu(name)).unwrap_or_else(|error| panic!("{error}"));
        let (mut halves, mut on_cores, mut largest) = (0, 0, 0);
        for layer in layers() {
            let made = plan(&target, &layer, &options);
            if name == "T4" && layer.element == Element::Bf16 {
                assert!(matches!(made, Err(Error::NoPlan { .. })), "{layer}: {made:?}");
                continue;
            }
            let made = made.unwrap_or_else(|error| panic!("{error}"));
            assert!(made.workspace_bytes() <= options.workspace_limit, "{layer}");
            largest = largest.max(made.workspace_bytes());
            if layer.element == Element::F32 {
                assert!(!made.tensor_cores(), "{layer}");
            } else {
                halves += 1;
                on_cores += usize::from(made.tensor_cores());
            }
        }
        println!("{name}: {on_cores} of {halves} in half precision on tensor cores, {largest} bytes of workspace");
        assert!(on_cores * 10 >= halves * 9, "{name}: {on_cores} of {halves} in half precision on tensor cores");
    }
}

#[test]
#[ignore = "needs the wheels of cuDNN: HEARTH_CUDNN"]
fn real_cudnn_obeys_the_options() {
    let library = library();
    let target = |name| Target::described(&library, &gpu(name)).unwrap_or_else(|error| panic!("{error}"));
    let (h200, rtx3090) = (target("H200"), target("RTX 3090"));
    let usual = Options::default();
    let made = |target: &Target, layer: &Convolution, options: &Options| {
        plan(target, layer, options).unwrap_or_else(|error| panic!("{error}"))
    };
    let large = cube([2, 64, 64, 64, 3, 1]);
    assert!(made(&h200, &large, &Options { tf32: true, ..usual }).tensor_cores());
    assert!(!made(&h200, &large, &usual).tensor_cores());
    // The gradient of a one-channel input with stride 2 is proposed as non-deterministic first.
    let gradient =
        Convolution { direction: Direction::DataGradient, element: Element::Bf16, ..cube([4, 1, 16, 96, 3, 2]) };
    let fastest = made(&rtx3090, &gradient, &Options { deterministic: false, ..usual });
    let deterministic = made(&rtx3090, &gradient, &usual);
    let has = |plan: &Plan| plan.refused().iter().any(|refused| refused.why == Why::Nondeterministic);
    assert!(has(&deterministic) && !has(&fastest), "{:?} {:?}", deterministic.refused(), fastest.refused());
    for layout in LAYOUTS {
        for limit in [0, 16 << 20, 64 << 20] {
            let layer = Convolution { layout, element: Element::Bf16, ..large.clone() };
            match plan(&h200, &layer, &Options { workspace_limit: limit, ..usual }) {
                Ok(made) => assert!(made.workspace_bytes() <= limit),
                Err(error) => assert!(matches!(error, Error::NoPlan { .. }), "{error}"),
            }
        }
    }
}

#[test]
#[ignore = "needs the wheels of cuDNN: HEARTH_CUDNN"]
fn real_cudnn_plans_other_kinds_of_layers() {
    let library = library();
    let target = Target::described(&library, &gpu("H200")).unwrap_or_else(|error| panic!("{error}"));
    let usual = Options::default();
    let made = |layer: &Convolution| plan(&target, layer, &usual).unwrap_or_else(|error| panic!("{error}"));
    for element in ELEMENTS {
        for layout in LAYOUTS {
            let axis = TransposedAxis { size: 32, kernel: 2, stride: 2, padding: 0, dilation: 1, output_padding: 0 };
            let up = Transposed {
                batch: 2,
                channels_in: 64,
                channels_out: 32,
                axes: vec![axis; 3],
                groups: 1,
                layout,
                element,
                epilogue: None,
            };
            for direction in [Direction::Forward, Direction::DataGradient, Direction::FilterGradient] {
                made(&up.convolution(direction).expect("right"));
            }
            let mut flat = Convolution { layout, element, ..cube([2, 32, 32, 64, 3, 1]) };
            flat.axes.truncate(2);
            made(&flat);
            let mut dilated = Convolution { layout, element, ..cube([2, 32, 32, 32, 3, 1]) };
            dilated.axes.iter_mut().for_each(|axis| (axis.padding, axis.dilation) = (2, 2));
            made(&dilated);
        }
    }
    // Bias and activation in the same kernel: with channels last, in half precision.
    for activation in [None, Some(Activation::Relu), Some(Activation::LeakyRelu(0.01.into()))] {
        let epilogue = Some(Epilogue { bias: true, activation });
        let layer = Convolution { epilogue, element: Element::Bf16, ..cube([2, 32, 32, 64, 3, 1]) };
        assert_eq!(layer.layout, Layout::ChannelsLast);
        assert!(made(&layer).tensor_cores());
    }
    // Without a GPU there is no handle, and the error is typed.
    if fs::metadata("/dev/nvidiactl").is_err() {
        assert!(matches!(Handle::create(&library, "none"), Err(Error::Call { function: "cudnnCreate", .. })));
    }
}
