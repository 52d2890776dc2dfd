//! Small kernels compared with their expected results, and kernels that a GPU would refuse.

use half::f16;

use crate::{Kernel, Launch};

fn kernel(body: &str) -> Kernel {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.extern .shared .align 32 .b8 cube_shared[];\n.visible .entry test(\n\
         \t.param .u64 .ptr .global .align 1 test_param_0,\n\t.param .align 4 .b8 test_param_1[8]\n)\n{{\n\
         .reg .b32 %r<9>;\n{body}\nret;\n}}\n"
    );
    Kernel::parse(&text).unwrap()
}

/// Runs a kernel on values, with a number as its second parameter.
fn run<T>(
    kernel: &Kernel,
    groups: u32,
    units: u32,
    shared: usize,
    values: &mut [T],
    number: u32,
) -> Result<u64, String> {
    let mut parameters = (values.as_mut_ptr() as u64).to_le_bytes().to_vec();
    parameters.extend(number.to_le_bytes());
    parameters.extend([0; 4]);
    Launch { kernel, groups: [groups, 1, 1], units: [units, 1, 1], shared, parameters: &parameters }.run()
}

/// The index of each unit, and its address.
const PLACE: &str = "
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.b64 %rd1, [test_param_0]; cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3;
    ld.param.b32 %r5, [test_param_1];
    setp.ge.u32 %p1, %r4, %r5;";

#[test]
fn each_unit_computes_its_value_and_a_guard_keeps_the_others_out() {
    let kernel = kernel(&format!(
        "{PLACE}
        @%p1 bra $L__END;
        ld.global.b32 %r6, [%rd4];
        fma.rn.f32 %r7, %r6, 0f40000000, 0f3F800000;
        st.global.b32 [%rd4], %r7;
    $L__END:"
    ));
    let mut values: Vec<f32> = (0..40).map(|i| i as f32).collect();
    let count = run(&kernel, 3, 16, 0, &mut values, 35).unwrap();
    let expected: Vec<_> = (0..40).map(|i| if i < 35 { 2.0 * i as f32 + 1.0 } else { i as f32 }).collect();
    assert_eq!(values, expected);
    assert_eq!(count, 48 * 10 + 48 + 35 * 3 + 48, "a unit runs ten, the branch, three more, and the end");
}

#[test]
fn units_wait_for_each_other_and_loops_end() {
    // Each unit writes its value to shared memory and sums those of all units.
    let kernel = kernel(&format!(
        "{PLACE}
        ld.global.b32 %r6, [%rd4];
        mul.wide.u32 %rd5, %r3, 4;
        st.shared.b32 [%rd5], %r6;
        bar.sync 0;
        mov.b32 %r7, 0; mov.b64 %rd6, 0;
    $L__LOOP:
        ld.shared.b32 %r8, [%rd6];
        add.s32 %r7, %r7, %r8;
        add.s64 %rd6, %rd6, 4;
        setp.lt.u64 %p2, %rd6, 400;
        @%p2 bra $L__LOOP;
        st.global.b32 [%rd4], %r7;"
    ));
    let mut values: Vec<u32> = (0..200).collect();
    run(&kernel, 2, 100, 400, &mut values, 0).unwrap();
    assert_eq!(values[..100], [4950; 100]);
    assert_eq!(values[100..], [14950; 100]);
    let beyond = run(&kernel, 1, 100, 396, &mut values, 0).unwrap_err();
    assert!(beyond.contains("unit 99") && beyond.contains("4 bytes at 396 of 396 in shared memory"), "{beyond}");
}

#[test]
fn integers_are_divided_cut_shifted_and_compared_by_their_type() {
    for (instructions, given, expected) in [
        ("div.u32 %r7, %r6, 7", 1000u32, 142),
        ("rem.u32 %r7, %r6, 7", 1000, 6),
        ("div.s32 %r7, %r6, 7", 1000u32.wrapping_neg(), 142u32.wrapping_neg()),
        ("mul.hi.u32 %r7, %r6, 65536", 0x1234_5678, 0x1234),
        ("shr.u32 %r7, %r6, 31", u32::MAX, 1),
        ("shr.s32 %r7, %r6, 31", u32::MAX, u32::MAX),
        ("shl.b32 %r7, %r6, 32", 5, 0),
        ("bfe.u32 %r7, %r6, 4, 8", 0xabcd, 0xbc),
        // Digits 0 to 3 select the bytes of the first register, 4 to 7 those of the second.
        ("prmt.b32 %r7, %r6, 0x44332211, 0x7770U", 0x8877_66f5, 0x4444_44f5),
        ("prmt.b32 %r7, %r6, 0x44332211, 0x3340", 0x8877_66f5, 0x8888_11f5),
        ("prmt.b32 %r7, %r6, 0x44332211, 0x98c6", 0x8877_66f5, 0x00ff_0033),
        ("max.s32 %r7, %r6, 3", u32::MAX, 3),
        ("max.u32 %r7, %r6, 3", u32::MAX, u32::MAX),
        ("setp.lt.s32 %p2, %r6, 0; selp.b32 %r7, 1, 2, %p2", u32::MAX, 1),
        ("setp.lt.u32 %p2, %r6, 1; selp.b32 %r7, 1, 2, %p2", u32::MAX, 2),
        ("setp.ne.b32 %p2, %r6, 0; not.pred %p3, %p2; selp.b32 %r7, 1, 2, %p3", 4, 2),
        ("cvt.rn.f32.s32 %r7, %r6", 3u32.wrapping_neg(), (-3f32).to_bits()),
        ("cvt.rzi.s32.f32 %r7, %r6", (-2.7f32).to_bits(), 2u32.wrapping_neg()),
        ("cvt.rmi.s32.f32 %r7, %r6", (-2.2f32).to_bits(), 3u32.wrapping_neg()),
        ("cvt.rn.f16.f32 %rs1, %r6; cvt.f32.f16 %r7, %rs1", 0.1f32.to_bits(), f16::from_f32(0.1).to_f32().to_bits()),
        ("cvt.rn.bf16x2.f32 %r7, %r6, 0f3F800000", 2f32.to_bits(), 0x4000_3f80),
        ("mov.b32 {%rs1, %rs2}, %r6; mov.b32 %r7, {%rs2, %rs1}", 0x0001_0002, 0x0002_0001),
        // Sums of two values round once.
        ("add.rn.f32 %r7, %r6, 0f33800000", 1f32.to_bits(), 1f32.to_bits()),
        ("setp.geu.f32 %p2, %r6, 0f00000000; selp.b32 %r7, 1, 2, %p2", f32::NAN.to_bits(), 1),
        ("cvt.rzi.f32.f32 %r7, %r6", (-2.7f32).to_bits(), (-2f32).to_bits()),
        ("cvt.rni.f32.f32 %r7, %r6", 2.5f32.to_bits(), 2f32.to_bits()),
        ("cvt.sat.f32.f32 %r7, %r6", 1.5f32.to_bits(), 1f32.to_bits()),
        ("fma.rm.f32 %r7, %r6, 0f3F800000, 0fB3000000", 1f32.to_bits(), 1f32.next_down().to_bits()),
        ("add.rp.f32 %r7, %r6, 0f32800000", 1f32.to_bits(), 1f32.next_up().to_bits()),
        ("copysign.f32 %r7, %r6, 0f40400000", (-0f32).to_bits(), (-3f32).to_bits()),
        ("rsqrt.approx.f32 %r7, %r6", 4f32.to_bits(), 0.5f32.to_bits()),
        ("setp.nan.f32 %p2, %r6, %r6; selp.b32 %r7, 1, 2, %p2", f32::NAN.to_bits(), 1),
        ("setp.num.f32 %p2, %r6, %r6; selp.b32 %r7, 1, 2, %p2", 1f32.to_bits(), 1),
        ("setp.ge.f32 %p2, %r6, 0f00000000; selp.b32 %r7, 1, 2, %p2", f32::NAN.to_bits(), 2),
    ] {
        let kernel = kernel(&format!("{PLACE} ld.global.b32 %r6, [%rd4]; {instructions}; st.global.b32 [%rd4], %r7;"));
        let mut values = [given];
        run(&kernel, 1, 1, 0, &mut values, 0).unwrap();
        assert_eq!(values[0], expected, "{instructions} of {given:#x}: {:#x}", values[0]);
    }
}

#[test]
fn functions_are_called_with_values_of_their_own() {
    // The larger of two values, three times, through a function with branches.
    let text = ".visible .entry test(.param .u64 p)
        {
            ld.param.b64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
            ld.global.b32 %r2, [%rd3];
            { // callseq 0
            .param .b32 param0; .param .b32 param1; .param .b32 retval0;
            st.param.b32 [param0], %r2; st.param.b32 [param1], 7;
            call.uni (retval0), larger, (param0, param1);
            ld.param.b32 %r3, [retval0];
            }
            { // callseq 1
            .param .b32 param0; .param .b32 param1; .param .b32 retval0;
            st.param.b32 [param0], 3; st.param.b32 [param1], %r1;
            call.uni (retval0), larger, (param0, param1);
            ld.param.b32 %r4, [retval0];
            }
            mad.lo.s32 %r5, %r3, 100, %r4;
            st.global.b32 [%rd3], %r5;
            ret;
        }
        .func (.param .b32 func_retval0) larger(.param .b32 larger_param_0, .param .b32 larger_param_1)
        {
            .reg .b32 %r<3>;
            ld.param.b32 %r1, [larger_param_0]; ld.param.b32 %r2, [larger_param_1];
            setp.gt.u32 %p1, %r1, %r2;
            @%p1 bra $L__BB1_2;
            st.param.b32 [func_retval0], %r2;
            ret;
        $L__BB1_2:
            st.param.b32 [func_retval0], %r1;
            ret;
        }";
    let kernel = Kernel::parse(text).unwrap();
    let mut values: Vec<u32> = vec![1, 20, 6, 8, 9];
    run(&kernel, 1, 5, 0, &mut values, 0).unwrap();
    assert_eq!(values, [703, 2003, 703, 803, 904]);
    let missing = Kernel::parse(&text.replace("larger(", "smaller(")).unwrap_err();
    assert!(missing.contains("the function `larger` is not in the module"), "{missing}");
}

#[test]
fn units_add_to_one_value() {
    let add =
        "ld.global.b32 %r6, [%rd4]; atom.relaxed.gpu.global.add.f32 %r7, [%rd2], %r6; st.global.b32 [%rd4+400], %r7;
        red.relaxed.gpu.global.max.u32 [%rd2+40], %r3;";
    let kernel = kernel(&format!("{PLACE} {add}"));
    let mut values = [0f32; 112];
    values[..5].copy_from_slice(&[10.0, 1.0, 2.0, 3.0, 4.0]);
    run(&kernel, 1, 5, 0, &mut values, 0).unwrap();
    assert_eq!((values[0], values[10].to_bits()), (30.0, 4));
    assert_eq!(values[100..105], [10.0, 20.0, 21.0, 23.0, 26.0], "what was there before");
}

/// A product of two matrices; the rows or columns of the first are contiguous.
fn product(layout: &str) -> String {
    format!(
        "{PLACE}
        mul.wide.u32 %rd5, %r3, 16; add.s64 %rd6, %rd2, %rd5; add.s64 %rd7, %rd5, 512;
        ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd6];
        st.shared.v4.b32 [%rd5], {{%r10, %r11, %r12, %r13}};
        ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd6+512];
        st.shared.v4.b32 [%rd7], {{%r10, %r11, %r12, %r13}};
        bar.sync 0;
        mov.b64 %rd8, 0; mov.b32 %r9, 16;
        wmma.load.a.sync.aligned.{layout}.m16n16k16.shared.f16 {{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}}, [%rd8], %r9;
        wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 {{%r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37}}, [cube_shared+512], %r9;
        mov.b32 %r40, 0f3F800000;
        wmma.mma.sync.aligned.{layout}.row.m16n16k16.f32.f32 {{%r50, %r51, %r52, %r53, %r54, %r55, %r56, %r57}},
            {{%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}}, {{%r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37}},
            {{%r40, %r40, %r40, %r40, %r40, %r40, %r40, %r40}};
        wmma.store.d.sync.aligned.col.m16n16k16.shared.f32 [%rd8], {{%r50, %r51, %r52, %r53, %r54, %r55, %r56, %r57}}, %r9;
        bar.sync 0;
        mul.wide.u32 %rd5, %r3, 32; add.s64 %rd6, %rd2, %rd5;
        ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd5]; st.global.v4.b32 [%rd6], {{%r10, %r11, %r12, %r13}};
        ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd5+16]; st.global.v4.b32 [%rd6+16], {{%r10, %r11, %r12, %r13}};"
    )
}

#[test]
fn a_plane_multiplies_matrices() {
    let a = |row: usize, column: usize| ((row * 3 + column * 5) % 7) as f32 - 3.0;
    let b = |row: usize, column: usize| ((row * 2 + column * 11) % 5) as f32 - 2.0;
    for layout in ["row", "col"] {
        let mut values = vec![0u32; 256];
        let pack = |of: &dyn Fn(usize) -> f32, i: usize| {
            u32::from(f16::from_f32(of(2 * i)).to_bits()) | u32::from(f16::from_f32(of(2 * i + 1)).to_bits()) << 16
        };
        for i in 0..128 {
            values[i] = pack(&|i| if layout == "row" { a(i / 16, i % 16) } else { a(i % 16, i / 16) }, i);
            values[128 + i] = pack(&|i| b(i / 16, i % 16), i);
        }
        run(&kernel(&product(layout)), 1, 32, 1024, &mut values, 0).unwrap();
        for (i, value) in values.iter().enumerate() {
            let (column, row) = (i / 16, i % 16);
            let expected = 1.0 + (0..16).map(|deep| a(row, deep) * b(deep, column)).sum::<f32>();
            assert_eq!(f32::from_bits(*value), expected, "{layout}, row {row}, column {column}");
        }
    }
}

#[test]
fn what_a_card_would_refuse_is_an_error_that_names_the_instruction() {
    let all = product("row");
    for (from, to, expected) in [
        ("mov.b64 %rd8, 0", "mov.b64 %rd8, 16", "a matrix at 16"),
        ("mov.b32 %r9, 16", "mov.b32 %r9, 17", "a stride of 17"),
        ("mov.b64 %rd8, 0", "mov.b64 %rd8, 800", "of 1024 in shared memory"),
        ("mov.b64 %rd8, 0", "mul.wide.u32 %rd8, %r3, 32", "different addresses"),
        ("mov.b64 %rd8, 0", "setp.lt.u32 %p2, %r3, 4; @%p2 bra $L__OUT; mov.b64 %rd8, 0", "come to a matrix apart"),
        ("[%rd6+512]", "[%rd6+516]", "not a multiple of 16"),
    ] {
        let text = format!("{}; $L__OUT:", all.replacen(from, to, 1));
        let error = run(&kernel(&text), 1, 32, 1024, &mut vec![0u32; 600], 0).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn what_is_not_known_is_named() {
    let text = |body: &str| format!(".visible .entry test(.param .u64 p)\n{{\n{body};\nret;\n}}");
    for (body, expected) in [
        ("tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5, %r6}]", "the instruction is not known"),
        ("ld.local.b32 %r1, [%rd1]", "the instruction is not known"),
        ("call.uni (retval0), vprintf, (param0)", "the function `vprintf` is not in the module"),
        ("mov.u32 %r1, other_symbol", "the operand `other_symbol` is not known"),
        ("bra $L__NOWHERE", "no label `$L__NOWHERE`"),
    ] {
        let error = Kernel::parse(&text(body)).unwrap_err();
        assert!(error.contains(expected), "{body}: {error}");
    }
    assert!(Kernel::parse("").is_err());
    assert!(Kernel::parse(".entry test(.param .u64 p").is_err());
}
