#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hearth_fuzz::fuzz(hearth_fuzz::mgh, bytes));
