//! bf16 and int8 products through the public loading path: near the reference for every family, and row by row
//! the same bits in any company.

use std::sync::Arc;

use treasure_models::{
    Classifier, LoadOptions, MaskedLm, Scorer,
    exec::{Cpu, Isa, Precision},
};

use crate::support::*;

const NARROW: [Precision; 2] = [Precision::Bf16, Precision::Int8];

/// How far logits may be from the reference's, relative to their root mean square: bf16 keeps 8 bits of each
/// factor, int8 7 bits of the largest of a row. Golden networks are tens of numbers wide, so that errors
/// average out less than in real ones.
fn allowed(precision: Precision) -> f32 {
    match precision {
        Precision::F32 => 0.0,
        Precision::Bf16 => 0.1,
        Precision::Int8 => 0.3,
    }
}

fn in_precision(family: &str, precision: Precision) -> LoadOptions {
    LoadOptions { precision, ..options(family) }
}

/// The executor that [`LoadOptions`] ask for, on chosen instructions.
fn cpu(isa: Isa, precision: Precision) -> Cpu {
    Cpu::new().with_isa(isa).with_precision(precision)
}

/// The largest distance relative to the root mean square of what is expected.
fn off(got: &[f32], expected: &[f32]) -> f32 {
    let square: f32 = expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32;
    distance(got, expected) / square.sqrt()
}

#[track_caller]
fn near(what: String, precision: Precision, got: &[f32], expected: &[f32]) {
    let off = off(got, expected);
    println!("{what} in {precision}: off by {off:.4}");
    assert!(off <= allowed(precision), "{what} in {precision}: off by {off}");
    assert!(off > 0.0, "{what} in {precision}: exactly the reference, so not in {precision}");
}

#[test]
fn logits_stay_near_the_reference_for_every_denoiser_in_every_precision() {
    for precision in NARROW {
        for (family, isa) in
            DENOISERS.iter().flat_map(|f| Isa::available().into_iter().map(move |i| (*f, i)))
        {
            let (executor, path) = (cpu(isa, precision), spec(&golden(family)));
            let options = options(family);
            let model = MaskedLm::load_on(&executor, &resolver(), &path, &options).unwrap();
            let io = Io::read(family);
            let (ids, logits) = (io.ids("input_ids"), io.numbers("logits"));
            let sigma = if io.has("sigma") { io.numbers("sigma") } else { vec![0.0; ids.len()] };
            for ((ids, expected), sigma) in
                ids.iter().zip(logits.chunks(logits.len() / ids.len())).zip(sigma)
            {
                let rows: Vec<usize> = (0..ids.len()).collect();
                let got = model.raw_logits(ids, &rows, sigma).unwrap();
                near(format!("{family} on {isa:?}"), precision, &got, expected);
            }
        }
    }
}

#[test]
fn likelihoods_stay_near_the_reference_for_every_scorer_in_every_precision() {
    for precision in NARROW {
        for family in SCORERS {
            let (path, options) = (spec(&golden(family)), in_precision(family, precision));
            let model = Scorer::load(&resolver(), &path, &options).unwrap();
            assert_eq!(model.describe().executor.unwrap().precision, precision);
            let io = Io::read(family);
            let ids = io.ids("input_ids");
            let views: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
            let got = model.nll(&views).unwrap().concat();
            let got: Vec<f32> = got.iter().map(|&x| x as f32).collect();
            near(family.to_owned(), precision, &got, &io.numbers("nll"));
        }
    }
}

#[test]
fn logits_stay_near_the_reference_for_every_classifier_in_every_precision() {
    for precision in NARROW {
        for family in CLASSIFIERS {
            let (path, options) = (spec(&golden(family)), in_precision(family, precision));
            let model = Classifier::load(&resolver(), &path, &options).unwrap();
            let io = Io::read(family);
            for row in 0..3 {
                let ids = &io.ids(&format!("row{row}_input_ids"))[0];
                let got = model.logits_ids(&[ids]).unwrap().concat();
                let expected = io.numbers(&format!("row{row}_logits"));
                near(format!("{family} row {row}"), precision, &got, &expected);
            }
        }
    }
}

#[test]
fn the_one_logit_of_reward_models_stays_near_the_reference_in_every_precision() {
    for precision in NARROW {
        for family in REWARD_MODELS {
            let (path, options) = (spec(&golden(family)), in_precision(family, precision));
            let model = Classifier::load(&resolver(), &path, &options).unwrap();
            let io = Io::read(family);
            // Of three texts together: a single logit may lie near 0.
            let rows = 0..3;
            let ids = |row: usize| io.ids(&format!("row{row}_input_ids")).remove(0);
            let got: Vec<f32> = (rows.clone())
                .flat_map(|row| model.logits_ids(&[&ids(row)]).unwrap().concat())
                .collect();
            let expected: Vec<f32> =
                rows.flat_map(|row| io.numbers(&format!("row{row}_logits"))).collect();
            near(family.to_owned(), precision, &got, &expected);
        }
    }
}

#[test]
fn a_text_has_the_same_bits_alone_in_any_batch_and_at_any_thread_count_in_every_precision() {
    for (precision, isa) in
        NARROW.iter().flat_map(|p| Isa::available().into_iter().map(move |i| (*p, i)))
    {
        for family in CLASSIFIERS {
            let io = Io::read(family);
            let rows: Vec<Vec<u32>> =
                (0..3).map(|row| io.ids(&format!("row{row}_input_ids")).remove(0)).collect();
            let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let executor = cpu(isa, precision).with_pool(Arc::new(pool));
                let (path, options) = (spec(&golden(family)), options(family));
                let model = Classifier::load_on(&executor, &resolver(), &path, &options).unwrap();
                let plain = cpu(isa, precision).every_row().one_by_one();
                let plain = Classifier::load_on(&plain, &resolver(), &path, &options).unwrap();
                for (row, together) in views.iter().zip(model.logits_ids(&views).unwrap()) {
                    assert_eq!(
                        plain.logits_ids(&[row]).unwrap()[0],
                        together,
                        "{family} {isa:?} {precision}"
                    );
                }
            }
        }
        for family in SCORERS {
            let (path, options) = (spec(&golden(family)), options(family));
            let model =
                Scorer::load_on(&cpu(isa, precision), &resolver(), &path, &options).unwrap();
            let mut rows = Io::read(family).ids("input_ids");
            // A sibling that shares its first half.
            let mut sibling = rows[0].clone();
            let half = sibling.len() / 2;
            sibling[half] = (sibling[half] + 1) % 50;
            rows.push(sibling);
            let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            for (row, together) in views.iter().zip(model.nll(&views).unwrap()) {
                assert_eq!(model.nll(&[row]).unwrap()[0], together, "{family} {isa:?} {precision}");
            }
        }
    }
}

#[test]
fn a_narrow_precision_holds_no_more_than_it_multiplies() {
    let bytes = |precision| {
        let (path, options) = (spec(&golden("llada")), in_precision("llada", precision));
        MaskedLm::load(&resolver(), &path, &options).unwrap().describe().memory_bytes as f64
    };
    let whole = bytes(Precision::F32);
    assert!(bytes(Precision::Bf16) < 0.6 * whole && bytes(Precision::Int8) < 0.6 * whole);
}

#[test]
fn a_type_of_weights_beside_a_narrow_precision_is_refused() {
    let options = LoadOptions {
        dtype: treasure_models::Dtype::F16,
        precision: Precision::Bf16,
        ..LoadOptions::default()
    };
    let error = MaskedLm::load(&resolver(), &spec(&golden("llada")), &options).unwrap_err();
    assert_eq!(error.to_string(), "dtype with precision bf16: expected auto, got f16");
}

#[test]
fn a_precision_nobody_knows_is_refused_and_auto_is_one_that_the_machine_multiplies() {
    let error = Precision::chosen("fp8", None).unwrap_err();
    assert_eq!(error.to_string(), "precision: expected auto, f32, bf16 or int8, got \"fp8\"");
    let isa = Isa::best();
    // Intel's vectors of bf16 are no faster than those of f32.
    let intel =
        || std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpu| cpu.contains("GenuineIntel"));
    let of_floats = match isa.name() {
        "amx" => Precision::Bf16,
        "avx512" if isa.dots_bf16() && !intel() => Precision::Bf16,
        _ => Precision::F32,
    };
    let small = if isa.dots_int8() { Precision::Int8 } else { of_floats };
    for (bytes, expected) in [
        (Some(0), small),
        (Some(3_999_999_999), small),
        (Some(4_000_000_000), of_floats),
        (None, of_floats),
    ] {
        assert_eq!(Precision::chosen("auto", bytes).unwrap(), expected, "{bytes:?}");
    }
}
