//! The numbers of the backend API that this crate uses: kinds of descriptors, attributes with the
//! types of their values, and enumerations. Names are those of `cudnn_graph.h`, without `CUDNN_`.

use std::ffi::c_int;
use std::marker::PhantomData;

/// A kind of descriptor, with its name for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub number: c_int,
    pub name: &'static str,
}

/// An attribute of a descriptor, with the type of its values and its name for messages.
#[derive(Debug)]
pub(crate) struct Attribute<T> {
    pub number: c_int,
    pub name: &'static str,
    values: PhantomData<fn() -> T>,
}

impl<T> Clone for Attribute<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Attribute<T> {}

/// A descriptor as the value of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfDescriptors {}

/// A handle as the value of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfHandle {}

/// Addresses on the GPU as the values of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfPointers {}

/// A yes or no of C: 0 or 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Flag(pub u8);

/// Enumerations, each with the members that are used.
macro_rules! enumerations {
    ($($(#[$doc:meta])* $name:ident { $($member:ident = $number:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[repr(transparent)]
            pub(crate) struct $name(pub c_int);

            impl $name {
                $(pub const $member: Self = Self($number);)*
            }
        )*
    };
}

enumerations! {
    /// The type of a tensor's elements, or of a computation.
    DataType { FLOAT = 0, HALF = 2, BFLOAT16 = 9, }
    /// Convolution proper, or cross-correlation, as networks use it.
    ConvolutionMode { CROSS_CORRELATION = 1, }
    /// How engines are proposed.
    HeuristicMode { B = 1, FALLBACK = 2, A = 3, }
    /// An element-wise operation.
    PointwiseMode { ADD = 0, RELU_FWD = 100, }
    /// What an engine does to numbers.
    NumericalNote {
        TENSOR_CORE = 0,
        DOWN_CONVERT_INPUTS = 1,
        REDUCED_PRECISION_REDUCTION = 2,
        NONDETERMINISTIC = 4,
    }
}

pub(crate) mod kind {
    use super::Kind;

    macro_rules! kinds {
        ($($name:ident = $number:literal;)*) => {
            $(pub(crate) const $name: Kind = Kind { number: $number, name: stringify!($name) };)*
        };
    }

    kinds! {
        POINTWISE = 0;
        CONVOLUTION = 1;
        ENGINE = 2;
        ENGINECFG = 3;
        ENGINEHEUR = 4;
        EXECUTION_PLAN = 5;
        OPERATION_CONVOLUTION_FORWARD = 10;
        OPERATION_CONVOLUTION_BACKWARD_FILTER = 11;
        OPERATION_CONVOLUTION_BACKWARD_DATA = 12;
        OPERATION_POINTWISE = 13;
        OPERATIONGRAPH = 15;
        VARIANT_PACK = 16;
        TENSOR = 17;
        DEVICEPROP = 38;
    }
}

pub(crate) mod attribute {
    use std::marker::PhantomData;

    use super::{
        Attribute, ConvolutionMode, DataType, Flag, HeuristicMode, NumericalNote, OfDescriptors, OfHandle, OfPointers,
        PointwiseMode,
    };

    macro_rules! attributes {
        ($($name:ident: $values:ty = $number:literal;)*) => {
            $(pub(crate) const $name: Attribute<$values> =
                Attribute { number: $number, name: stringify!($name), values: PhantomData };)*
        };
    }

    attributes! {
        POINTWISE_MODE: PointwiseMode = 0;
        POINTWISE_MATH_PREC: DataType = 1;
        POINTWISE_RELU_LOWER_CLIP_SLOPE: f64 = 5;
        CONVOLUTION_COMP_TYPE: DataType = 100;
        CONVOLUTION_CONV_MODE: ConvolutionMode = 101;
        CONVOLUTION_DILATIONS: i64 = 102;
        CONVOLUTION_FILTER_STRIDES: i64 = 103;
        CONVOLUTION_POST_PADDINGS: i64 = 104;
        CONVOLUTION_PRE_PADDINGS: i64 = 105;
        CONVOLUTION_SPATIAL_DIMS: i64 = 106;
        ENGINEHEUR_MODE: HeuristicMode = 200;
        ENGINEHEUR_OPERATION_GRAPH: OfDescriptors = 201;
        ENGINEHEUR_RESULTS: OfDescriptors = 202;
        ENGINEHEUR_DEVICEPROP: OfDescriptors = 204;
        ENGINECFG_ENGINE: OfDescriptors = 300;
        EXECUTION_PLAN_HANDLE: OfHandle = 400;
        EXECUTION_PLAN_ENGINE_CONFIG: OfDescriptors = 401;
        EXECUTION_PLAN_WORKSPACE_SIZE: i64 = 402;
        EXECUTION_PLAN_DEVICEPROP: OfDescriptors = 407;
        OPERATION_CONVOLUTION_FORWARD_ALPHA: f32 = 700;
        OPERATION_CONVOLUTION_FORWARD_BETA: f32 = 701;
        OPERATION_CONVOLUTION_FORWARD_CONV_DESC: OfDescriptors = 702;
        OPERATION_CONVOLUTION_FORWARD_W: OfDescriptors = 703;
        OPERATION_CONVOLUTION_FORWARD_X: OfDescriptors = 704;
        OPERATION_CONVOLUTION_FORWARD_Y: OfDescriptors = 705;
        OPERATION_CONVOLUTION_BWD_DATA_ALPHA: f32 = 706;
        OPERATION_CONVOLUTION_BWD_DATA_BETA: f32 = 707;
        OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC: OfDescriptors = 708;
        OPERATION_CONVOLUTION_BWD_DATA_W: OfDescriptors = 709;
        OPERATION_CONVOLUTION_BWD_DATA_DX: OfDescriptors = 710;
        OPERATION_CONVOLUTION_BWD_DATA_DY: OfDescriptors = 711;
        OPERATION_CONVOLUTION_BWD_FILTER_ALPHA: f32 = 712;
        OPERATION_CONVOLUTION_BWD_FILTER_BETA: f32 = 713;
        OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC: OfDescriptors = 714;
        OPERATION_CONVOLUTION_BWD_FILTER_DW: OfDescriptors = 715;
        OPERATION_CONVOLUTION_BWD_FILTER_X: OfDescriptors = 716;
        OPERATION_CONVOLUTION_BWD_FILTER_DY: OfDescriptors = 717;
        OPERATION_POINTWISE_PW_DESCRIPTOR: OfDescriptors = 750;
        OPERATION_POINTWISE_XDESC: OfDescriptors = 751;
        OPERATION_POINTWISE_BDESC: OfDescriptors = 752;
        OPERATION_POINTWISE_YDESC: OfDescriptors = 753;
        OPERATIONGRAPH_HANDLE: OfHandle = 800;
        OPERATIONGRAPH_OPS: OfDescriptors = 801;
        TENSOR_BYTE_ALIGNMENT: i64 = 900;
        TENSOR_DATA_TYPE: DataType = 901;
        TENSOR_DIMENSIONS: i64 = 902;
        TENSOR_STRIDES: i64 = 903;
        TENSOR_UNIQUE_ID: i64 = 906;
        TENSOR_IS_VIRTUAL: Flag = 907;
        VARIANT_PACK_UNIQUE_IDS: i64 = 1000;
        VARIANT_PACK_DATA_POINTERS: OfPointers = 1001;
        VARIANT_PACK_WORKSPACE: OfPointers = 1003;
        ENGINE_GLOBAL_INDEX: i64 = 1301;
        ENGINE_NUMERICAL_NOTE: NumericalNote = 1303;
        DEVICEPROP_JSON_REPRESENTATION: u8 = 2702;
    }
}
